"""Train scripts, started by launchers for one run each, and launch scripts for many runs."""
