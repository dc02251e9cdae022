"""Plain-text tables for terminals and log files."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

tabulate_formats = ["plain", "simple"]


def tabulate(
    tabular_data: Iterable[Sequence[Any]],
    headers: Sequence[str] = (),
    tablefmt: str = "simple",
    floatfmt: str = "g",
    colalign: Sequence[str] = (),
) -> str:
    """Format rows as a table with aligned columns.

    Args:
        tabular_data: rows of cells; missing cells (None, or short rows) are empty.
        headers: column titles; may be empty.
        tablefmt: "simple" draws a line of dashes under the titles (or around a table without
            titles), "plain" draws none.
        floatfmt: format of float cells.
        colalign: alignment of the columns, "left" or "right"; by default numbers are on the right.

    Returns:
        The lines of the table, joined by newlines.

    Raises:
        ValueError: `tablefmt` is not in ``tabulate_formats``.
    """
    if tablefmt not in tabulate_formats:
        raise ValueError(f"tablefmt must be one of {tabulate_formats}, got {tablefmt!r}.")
    rows = list(tabular_data)
    columns = []
    for title, cells, align in zip_longest(headers, zip_longest(*rows), colalign):
        values = cells or [None] * len(rows)
        texts = [format(x, floatfmt) if isinstance(x, float) else str(x) for x in values]
        # A cell with a line break, as in a name, would look like two rows.
        texts = ["" if x is None else text.replace("\n", r"\n") for x, text in zip(values, texts)]
        if headers:
            texts.insert(0, str(title or ""))
        numeric = all(isinstance(x, int | float | None) for x in values)
        width = max(map(len, texts), default=0)
        right = align == "right" or (align is None and numeric)
        texts = [text.rjust(width) if right else text.ljust(width) for text in texts]
        line = ["-" * width] * (tablefmt == "simple")
        columns.append([texts[0], *line, *texts[1:]] if headers else [*line, *texts, *line])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns))
