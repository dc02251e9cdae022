"""Agents: between samplers, models and algorithms."""
