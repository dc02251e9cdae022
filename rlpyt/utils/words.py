"""Words for messages."""


def counted(low: int, noun: str, high: int | None = None) -> str:
    """A number of things, or from how many to how many.

    >>> counted(1, "run"), counted(2_000, "run"), counted(1, "run", 3)
    ('1 run', '2,000 runs', '1-3 runs')
    """
    high = low if high is None else high
    ending = "es" if noun.endswith(("ch", "s")) else "s"
    span = f"{low:,}" if low == high else f"{low:,}-{high:,}"
    return f"{span} {noun}{ending if high != 1 else ''}"
