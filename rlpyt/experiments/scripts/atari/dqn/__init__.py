"""Scripts for deep Q-learning on Atari."""
