"""Algorithms of continuous control with critics: DDPG, TD3, SAC."""
