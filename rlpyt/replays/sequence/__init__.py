"""Replays of sequences."""
