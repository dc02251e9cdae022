"""Algorithms, which train agents on samples."""
