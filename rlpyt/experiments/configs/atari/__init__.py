"""Settings for Atari, as arguments of the classes."""
