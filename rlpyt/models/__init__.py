"""Neural networks: building blocks, and complete models for agents."""
