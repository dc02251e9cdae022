"""Scripts for continuous control with critics on MuJoCo."""
