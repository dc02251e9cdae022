"""Presets of the command line: settings that learn, by family of environments."""
