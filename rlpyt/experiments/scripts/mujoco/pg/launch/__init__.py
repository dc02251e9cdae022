"""Launch scripts for policy gradients on MuJoCo."""
