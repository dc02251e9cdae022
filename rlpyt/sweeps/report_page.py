"""Contents of a report, and its page: one HTML file from the template ``templates/report.html``.

All text is escaped. Terminal color codes and characters that HTML does not allow are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rlpyt.utils.extras import missing_extra

try:
    from jinja2 import Environment, PackageLoader, StrictUndefined
except ImportError as error:
    raise missing_extra("A report", "sweep", error.name) from error

REMOVED = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]")


@dataclass(frozen=True)
class Cell:
    """Cell of a table; a string is a plain one.

    Attributes:
        text: as shown.
        order: number by which the column is sorted; ``None``: last.
        state: of a run, which decides the color.
        code: a command.
    """

    text: str
    order: float | None = None
    state: str = ""
    code: bool = False


Row = Sequence[str | Cell]


@dataclass(frozen=True)
class Text:
    """Text in an element: "p", "h3", or "pre" with all its line breaks."""

    kind: ClassVar[str] = "text"
    text: str
    tag: str = "p"
    css: str | None = None


@dataclass(frozen=True)
class Items:
    """List of texts."""

    kind: ClassVar[str] = "items"
    texts: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Table whose columns can be sorted by a click on their heads."""

    kind: ClassVar[str] = "table"
    head: Sequence[str]
    rows: Sequence[Row]
    caption: str = ""

    def numeric(self, column: int) -> bool:
        """Return True if a column has numbers, which are aligned at the right."""
        cells = (row[column] for row in self.rows)
        return any(isinstance(c, Cell) and not c.state and not c.code for c in cells)


@dataclass(frozen=True)
class Figure:
    """Plot as inline SVG.

    Attributes:
        caption: above the plot.
        svg: the element; inserted as it is.
        wide: keep a minimal width, and scroll on narrow screens.
    """

    kind: ClassVar[str] = "figure"
    caption: str
    svg: str
    wide: bool = False


@dataclass(frozen=True)
class Figures:
    """Plots side by side, in as many rows as necessary."""

    kind: ClassVar[str] = "figures"
    figures: Sequence[Figure]


@dataclass(frozen=True)
class Details:
    """Blocks behind a line that opens them; ``strong`` is the first, bold part of the line."""

    kind: ClassVar[str] = "details"
    title: str
    blocks: Sequence[Block]
    open: bool = False
    strong: str = ""


Block = Text | Items | Table | Figure | Figures | Details


@dataclass(frozen=True)
class Section:
    """Part of the page with a heading that the navigation links to."""

    title: str
    blocks: Sequence[Block]
    about: str = ""

    @property
    def id(self) -> str:
        """Anchor of the section."""
        return "-".join(self.title.lower().split())


def render(
    title: str,
    facts: Iterable[tuple[str, str]],
    counts: Mapping[str, int],
    totals: Sequence[tuple[str, str]],
    sections: Sequence[Section],
    written: str,
) -> str:
    """Return the page, which refers to nothing outside.

    Args:
        title: of the sweep.
        facts: (name, value) pairs below the title.
        counts: number of runs by state.
        totals: (number, unit) pairs after the counts.
        sections: the contents.
        written: last line of the page.
    """
    environment = Environment(
        loader=PackageLoader("rlpyt.sweeps"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    page = environment.get_template("report.html").render(
        title=title,
        facts=facts,
        counts=counts,
        totals=totals,
        sections=sections,
        written=written,
    )
    return REMOVED.sub("", page)


def figure_block(plot: Any, name: str, caption: str, wide: bool = False) -> Figure:
    """Return a matplotlib figure as a block; ``name`` is unique on the page."""
    from rlpyt.vis import style

    return Figure(caption, style.inline_svg(plot, name, caption), wide)


def number_cell(value: float | None, text: str = "") -> Cell:
    """Return a cell sorted by a number, "-" without one; ``text`` is shown in place of it."""
    return Cell("-") if value is None else Cell(text or str(value), float(value))


def setting_cell(value: object, text: str) -> str | Cell:
    """Return a setting's cell, sorted by its value if that is a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Cell(text, float(value))
    return text
