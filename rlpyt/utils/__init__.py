"""General utilities, independent of reinforcement learning."""
