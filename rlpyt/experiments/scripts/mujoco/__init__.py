"""Train scripts and launch scripts for MuJoCo."""
