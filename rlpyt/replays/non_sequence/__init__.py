"""Replays of single transitions."""
