"""Sampling in worker processes."""
