"""Settings of policy gradients for MuJoCo."""
