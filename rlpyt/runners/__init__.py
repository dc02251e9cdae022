"""Runners, which train an agent from start to end."""
