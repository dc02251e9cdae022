"""Samplers with the agent in an action server, on a GPU or the CPU."""
