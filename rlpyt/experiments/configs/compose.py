"""Settings made from settings."""

from typing import Any

Parts = dict[str, Any]


def with_parts(base: Parts, **parts: Any) -> Parts:
    """Settings with some parts of others extended, none of them changed.

    Args:
        base: {"algo": {...}, "sampler": {...}, ...}.
        **parts: dictionaries to be merged into the part of that name, or other values to replace.
    """
    merged = {name: dict(part) if isinstance(part, dict) else part for name, part in base.items()}
    for name, part in parts.items():
        own = merged.get(name, {})
        merged[name] = {**own, **part} if isinstance(part, dict) else part
    return merged
