"""Settings known to learn."""
