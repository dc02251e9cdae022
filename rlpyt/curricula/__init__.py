"""Curricula, which choose the task of each episode, and environments with tasks."""
