"""Settings of policy gradients for Atari."""
