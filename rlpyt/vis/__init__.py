"""Plots of runs, with bootstrap intervals, and images of environments."""
