"""Settings of deep Q-learning for Atari."""
