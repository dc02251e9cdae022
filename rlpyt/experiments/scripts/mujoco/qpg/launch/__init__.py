"""Launch scripts for continuous control with critics on MuJoCo."""
