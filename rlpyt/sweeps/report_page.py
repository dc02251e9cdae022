"""Page of a report: the template ``templates/report.html``, filled with plain dictionaries.

A section has a title and any of: about, text, figures, tables, pre (text with its line breaks),
details (further such dictionaries, collapsed) and notes (a list). A table has a head and rows.
All text is escaped. Terminal color codes and characters that HTML does not allow are removed.
"""

import math
import re
from typing import Any

from rlpyt.utils.extras import needing
from rlpyt.vis import style

with needing("A report", "sweep"):
    from jinja2 import Environment, PackageLoader

REMOVED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]")

Section = dict[str, Any]
Cell = str | tuple[float | None, str]  # text; or a number to sort by (None: last), and its text


def render(**content: Any) -> str:
    """Return the page, which refers to nothing outside; see the template for its variables."""
    environment = Environment(loader=PackageLoader("rlpyt.sweeps"), autoescape=True)
    return REMOVED.sub("", environment.get_template("report.html").render(content))


def figure(plot: Any, name: str, caption: str, wide: bool = False) -> dict[str, Any]:
    """Return a matplotlib figure for the page; ``name`` is unique on the page."""
    return {"svg": style.inline_svg(plot, name, caption), "caption": caption, "wide": wide}


def number(value: float | None, text: str = "") -> Cell:
    """Return the cell of a number, "-" without one; by default with four significant digits."""
    if value is None or not math.isfinite(value):
        return None, "-"
    if not text:
        text = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        text = f"{value:.0f}" if "e+" in text else text
    return float(value), text


def setting(value: object, text: str) -> Cell:
    """Return the cell of a setting, sorted by its value if that is a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), text
    return text
