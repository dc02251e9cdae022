"""Train scripts and launch scripts for Atari."""
