"""Observation and action spaces: shapes, dtypes and bounds."""
