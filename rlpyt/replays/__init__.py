"""Replay buffers: see ``replays.buffer`` for the one class, docs/replay.md for choosing a name."""
