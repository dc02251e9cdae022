"""Logging of text lines, tables and snapshots of a run; see ``logger`` and ``context``."""
