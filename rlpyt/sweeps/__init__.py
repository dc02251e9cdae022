"""Sweeps: many runs of one experiment, from a file that says what differs between them."""
