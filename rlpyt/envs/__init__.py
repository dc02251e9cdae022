"""Environments: interface, Gymnasium and Atari environments, and small test environments."""
