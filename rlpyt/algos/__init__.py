"""Algorithms: from samples to better parameters."""
