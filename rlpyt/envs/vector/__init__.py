"""Environments that are stepped together, as one batch: adapters, wrappers and factories."""
