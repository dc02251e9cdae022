"""Tools without an opinion on reinforcement learning."""
