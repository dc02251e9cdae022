"""For tools that look for this file; all settings are in pyproject.toml."""

from setuptools import setup

setup()
