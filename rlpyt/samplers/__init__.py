"""Samplers, which step environments and collect batches, in one process or several."""
