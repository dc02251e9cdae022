"""Train scripts for policy gradients on MuJoCo."""
