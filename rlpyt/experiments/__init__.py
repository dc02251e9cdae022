"""Whole runs: options, what is built from them, and run directories."""
