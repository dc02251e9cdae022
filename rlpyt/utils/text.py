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


def duration(seconds: float) -> str:
    """Return a duration, rounded down; 0 if it is negative, as after a clock was set back.

    >>> duration(18.7), duration(3_723), duration(-3)
    ('00:18', '1:02:03', '00:00')
    """
    minutes, seconds = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def digits(text: str) -> int | None:
    """Return the number that a text of at most 18 decimal digits is, ``None`` for other texts.

    ``int`` refuses some texts for which ``str.isdigit`` is True, and those of 4,301 digits.

    >>> digits("012"), digits("-1"), digits("\N{SUPERSCRIPT TWO}")
    (12, None, None)
    """
    return int(text) if text.isdecimal() and len(text) <= 18 else None
