"""Environments: the contract, Gymnasium and Atari behind it, and small ones that probe."""
