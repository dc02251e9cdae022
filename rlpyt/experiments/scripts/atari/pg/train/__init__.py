"""Train scripts for policy gradients on Atari."""
