"""Sampling beside optimization, in processes of its own."""
