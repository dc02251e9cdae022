"""Settings of continuous control with critics for MuJoCo."""
