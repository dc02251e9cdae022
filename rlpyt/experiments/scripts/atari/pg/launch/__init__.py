"""Launch scripts for policy gradients on Atari."""
