"""Scripts for policy gradients on MuJoCo."""
