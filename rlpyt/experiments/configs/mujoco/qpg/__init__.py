"""Settings of actor-critic continuous control for MuJoCo."""
