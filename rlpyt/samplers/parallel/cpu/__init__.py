"""Samplers whose workers have the agent."""
