"""Policy-gradient agents."""
