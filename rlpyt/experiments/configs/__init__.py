"""Tested settings of algorithms, for the command line (presets) and for scripts."""
