"""Atari games on the Arcade Learning Environment."""
