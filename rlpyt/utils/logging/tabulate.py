"""Plain-text tables for terminals and log files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

tabulate_formats = ["plain", "simple"]


def tabulate(
    tabular_data: Iterable[Sequence[Any]],
    headers: Sequence[str] = (),
    tablefmt: str = "simple",
    floatfmt: str = "g",
    numalign: str | None = "right",
    stralign: str | None = "left",
    missingval: str = "",
) -> str:
    """Lay rows out in aligned columns.

    Args:
        tabular_data: rows of cells; short rows are filled up with ``missingval``.
        headers: column titles, or none.
        tablefmt: "simple" draws a line of dashes under the titles (or round a table without any),
            "plain" draws none.
        floatfmt: format of float cells.
        numalign, stralign: "left", "right" or "center", for columns of numbers and of text;
            "decimal" is taken as "right", None as "left".
        missingval: text of absent (None) cells.

    Returns:
        The table, its lines joined by newlines, without a newline at the end.

    Raises:
        ValueError: ``tablefmt`` is not one of ``tabulate_formats``.
    """
    if tablefmt not in tabulate_formats:
        raise ValueError(f"tablefmt={tablefmt!r} is unknown; use one of {tabulate_formats}.")

    rows = [list(row) for row in tabular_data]
    titles = [str(title) for title in headers]
    columns = []
    n_columns = max([len(titles), *map(len, rows)], default=0)
    for j in range(n_columns):
        cells = [row[j] if j < len(row) else None for row in rows]
        texts = [_cell_text(cell, floatfmt, missingval) for cell in cells]
        numeric = all(isinstance(cell, (int, float)) or cell is None for cell in cells)
        align = numalign if numeric else stralign
        title = titles[j : j + 1] or ([""] if titles else [])
        columns.append(_aligned(title + texts, align))

    lines = [list(line) for line in zip_longest(*columns)]
    if tablefmt == "simple" and lines:
        dashes = ["-" * len(column[0]) for column in columns]
        lines = [lines[0], dashes, *lines[1:]] if titles else [dashes, *lines, dashes]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _cell_text(cell: Any, floatfmt: str, missingval: str) -> str:
    if cell is None:
        return missingval
    return format(cell, floatfmt) if isinstance(cell, float) else str(cell)


def _aligned(texts: list[str], align: str | None) -> list[str]:
    width = max(map(len, texts), default=0)
    mark = {"left": "<", "center": "^", "right": ">", "decimal": ">", None: "<"}[align]
    return [format(text, f"{mark}{width}") for text in texts]
