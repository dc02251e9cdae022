"""Scripts for actor-critic continuous control on MuJoCo."""
