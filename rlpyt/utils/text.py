"""Formatting of messages."""


def counted(low: int, noun: str, high: int | None = None) -> str:
    """Return a count and its noun, in the singular or plural.

    >>> counted(1, "run"), counted(2_000, "run"), counted(1, "run", 3)
    ('1 run', '2,000 runs', '1-3 runs')
    """
    high = low if high is None else high
    ending = "es" if noun.endswith(("ch", "s")) else "s"
    span = f"{low:,}" if low == high else f"{low:,}-{high:,}"
    return f"{span} {noun}{ending if high != 1 else ''}"
