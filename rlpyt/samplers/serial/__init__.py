"""Sampling in the calling process."""
