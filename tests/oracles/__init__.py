"""Slow plain definitions of replays and samplers, with which tests compare those of the package."""
