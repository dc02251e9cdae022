"""Composition of settings."""

from typing import Any

Parts = dict[str, Any]


def with_parts(base: Parts, **parts: Any) -> Parts:
    """Return a copy of settings with some parts extended or replaced.

    Args:
        base: settings {"algo": {...}, "sampler": {...}, ...}, which are not modified.
        **parts: dictionaries to merge into the parts of these names; other values replace them.
    """
    merged = {name: dict(part) if isinstance(part, dict) else part for name, part in base.items()}
    for name, part in parts.items():
        previous = merged.get(name, {})
        merged[name] = {**previous, **part} if isinstance(part, dict) else part
    return merged
