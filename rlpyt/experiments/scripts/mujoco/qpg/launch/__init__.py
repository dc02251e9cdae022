"""Launch scripts for actor-critic continuous control on MuJoCo."""
