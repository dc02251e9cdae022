"""Complete runs: options, the objects built from them, and run directories."""
