"""Runners: whole trainings."""
