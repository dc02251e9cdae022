"""Samplers with the agent in the workers."""
