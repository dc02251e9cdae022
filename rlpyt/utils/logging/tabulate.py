"""Plain-text tables for terminals and log files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple


class Line(NamedTuple):
    """Horizontal line of a table."""

    begin: str
    hline: str
    sep: str
    end: str


class DataRow(NamedTuple):
    """Strings around and between the cells of a row."""

    begin: str
    sep: str
    end: str


class TableFormat(NamedTuple):
    """Format of a table; lines that are ``None`` are not drawn.

    ``padding`` is the number of spaces on both sides of a cell. The lines named in
    ``with_header_hide`` are left out of tables with headers.
    """

    lineabove: Line | None
    linebelowheader: Line | None
    linebetweenrows: Line | None
    linebelow: Line | None
    headerrow: DataRow
    datarow: DataRow
    padding: int
    with_header_hide: Sequence[str] | None = None


_ROW, _DASHES = DataRow("", "  ", ""), Line("", "-", "  ", "")
_FORMATS = {
    "plain": TableFormat(None, None, None, None, _ROW, _ROW, 0),
    "simple": TableFormat(
        _DASHES, _DASHES, None, _DASHES, _ROW, _ROW, 0, ["lineabove", "linebelow"]
    ),
}
tabulate_formats = sorted(_FORMATS)


def simple_separated_format(separator: str) -> TableFormat:
    """Return a format with ``separator`` between the columns and no lines."""
    row = DataRow("", separator, "")
    return TableFormat(None, None, None, None, row, row, 0)


def tabulate(
    tabular_data: Iterable[Sequence[Any]],
    headers: Sequence[str] = (),
    tablefmt: str | TableFormat = "simple",
    floatfmt: str = "g",
    numalign: str | None = "right",
    stralign: str | None = "left",
    missingval: str = "",
    colalign: Sequence[str] | None = None,
) -> str:
    """Format rows as a table with aligned columns.

    Args:
        tabular_data: rows of cells; short rows are filled with ``missingval``.
        headers: column titles; may be empty.
        tablefmt: "simple" draws a line of dashes under the titles (or around a table without
            titles), "plain" draws none; or a ``TableFormat``.
        floatfmt: format of float cells.
        numalign, stralign: "left", "right" or "center", for columns of numbers and of strings;
            "decimal" means "right", None "left".
        missingval: string for missing (None) cells.
        colalign: alignment of each column, in place of ``numalign`` and ``stralign``.

    Returns:
        The lines of the table, joined by newlines.

    Raises:
        ValueError: `tablefmt` is neither in ``tabulate_formats`` nor a ``TableFormat``.
    """
    if isinstance(tablefmt, str) and tablefmt not in _FORMATS:
        raise ValueError(f"tablefmt={tablefmt!r} is unknown; use one of {tabulate_formats}.")
    look = _FORMATS[tablefmt] if isinstance(tablefmt, str) else tablefmt

    rows = [list(row) for row in tabular_data]
    titles = [str(title) for title in headers]
    columns = []
    n_columns = max([len(titles), *map(len, rows)], default=0)
    for j in range(n_columns):
        cells = [row[j] if j < len(row) else None for row in rows]
        texts = [_cell_text(cell, floatfmt, missingval) for cell in cells]
        numeric = all(isinstance(cell, (int, float)) or cell is None for cell in cells)
        align = colalign[j] if colalign else numalign if numeric else stralign
        title = titles[j : j + 1] or ([""] if titles else [])
        columns.append(_aligned(title + texts, align))
    return "\n".join(_drawn(look, columns, bool(titles))) if columns else ""


def _drawn(look: TableFormat, columns: list[list[str]], has_titles: bool) -> list[str]:
    """Return the lines of a table of aligned columns."""
    pad = " " * look.padding
    widths = [len(column[0]) + 2 * look.padding for column in columns]
    hidden = (look.with_header_hide or ()) if has_titles else ()

    def line(name: str) -> list[str]:
        form = getattr(look, name)
        if form is None or name in hidden:
            return []
        drawn = form.sep.join(form.hline * width for width in widths)
        return [f"{form.begin}{drawn}{form.end}".rstrip()]

    def row(cells: Iterable[str], form: DataRow) -> list[str]:
        text = form.sep.join(pad + cell + pad for cell in cells)
        return [f"{form.begin}{text}{form.end}".rstrip()]

    rows = list(zip_longest(*columns))
    lines = line("lineabove")
    if has_titles:
        lines += row(rows.pop(0), look.headerrow) + line("linebelowheader")
    for number, cells in enumerate(rows):
        lines += (line("linebetweenrows") if number else []) + row(cells, look.datarow)
    return lines + line("linebelow")


def _cell_text(cell: Any, floatfmt: str, missingval: str) -> str:
    if cell is None:
        return missingval
    return format(cell, floatfmt) if isinstance(cell, float) else str(cell)


def _aligned(texts: list[str], align: str | None) -> list[str]:
    width = max(map(len, texts), default=0)
    mark = {"left": "<", "center": "^", "right": ">", "decimal": ">", None: "<"}[align]
    return [format(text, f"{mark}{width}") for text in texts]
