"""Agents of deep Q-learning."""
