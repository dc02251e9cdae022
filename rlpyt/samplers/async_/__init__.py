"""Samplers that run in parallel with the optimizer."""
