"""Scripts for policy gradients on Atari."""
