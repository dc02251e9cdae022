"""Launch scripts for deep Q-learning on Atari."""
