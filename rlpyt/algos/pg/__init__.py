"""Policy-gradient algorithms."""
