"""Benchmarks of rlpyt and peer libraries."""
