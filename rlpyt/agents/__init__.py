"""Agents, which choose actions for samplers and evaluate models for algorithms."""
