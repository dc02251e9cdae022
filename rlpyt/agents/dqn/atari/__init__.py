"""Agents of deep Q-learning for Atari images."""
