"""Settings for MuJoCo, as arguments of the classes."""
