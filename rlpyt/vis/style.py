"""Style of plots: colors, readable names and numbers, panels, legends, files."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlpyt.utils.extras import needing
from rlpyt.utils.files import atomic_write
from rlpyt.vis.grouping import natural_key
from rlpyt.vis.progress import PathLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Looks = Mapping[str, Mapping[str, Any]]  # label -> color, linestyle

# Colors that remain distinguishable with color blindness (Okabe and Ito 2008).
COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
LINE_STYLES = ["-", "--", ":", "-."]  # the next one is used after each cycle of colors
GRID_COLOR = "#e5e5e5"
SOFT_COLOR = "#666666"  # for notes
SUFFIXES = (".png", ".svg", ".pdf")
PER_ROW = 3  # panels per row

LABELS = {
    "Diagnostics/CumSteps": "Environment steps",
    "Diagnostics/CumTime (s)": "Wall-clock time (s)",
    "Diagnostics/Iteration": "Iteration",
    "Diagnostics/CumUpdates": "Gradient updates",
    "Diagnostics/StepsPerSecond": "Environment steps per second",
    "Diagnostics/CpuCores": "CPU cores in use",
    "Diagnostics/Memory (MB)": "Memory (MB)",
    "Diagnostics/GpuMemory (MB)": "GPU memory (MB)",
    "ReturnAverage": "Episode return",
    "DiscountedReturnAverage": "Discounted episode return",
    "LengthAverage": "Episode length (steps)",
    "GameScoreAverage": "Game score",
}


def readable(column: str) -> str:
    """Return a readable name of a column: "Cum eval time" for "Diagnostics/CumEvalTime"."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", column.rsplit("/", 1)[-1])
    return LABELS.get(column, words[:1].upper() + words[1:].lower())


def short_number(value: float) -> str:
    """Abbreviate a number: 1500000 as "1.5M", 20000 as "20k", 0.25 as "0.25"."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def looks(labels: Iterable[str]) -> Looks:
    """Return a distinct color and line style for every label, the same for the same set."""
    n = len(COLORS)
    return {
        label: {"color": COLORS[i % n], "linestyle": LINE_STYLES[i // n % len(LINE_STYLES)]}
        for i, label in enumerate(sorted(set(labels), key=natural_key))
    }


def panels(n: int, width: float = 3.4, height: float = 2.7) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of ``n`` panels of this size in inches; a single one is larger.

    Raises:
        ImportError: matplotlib is not installed.
    """
    with needing("A plot", "plot"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    columns = min(n, PER_ROW)
    rows = -(-n // PER_ROW)
    size = (5.0, 3.6) if n == 1 else (width * columns, height * rows + 0.4)
    layout = ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06)  # inches
    figure = Figure(figsize=size, dpi=200, layout=layout)
    FigureCanvasAgg(figure)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(n)]


def dress(axes: Axes, x_label: str, y_label: str, title: str = "") -> None:
    """Set labels, title, a light grid, and a minimal frame of axes."""
    axes.set_xlabel(plain(x_label), fontsize=9)
    position = axes.get_subplotspec()
    if position is None or position.is_first_col():  # other columns have the same label
        axes.set_ylabel(plain(y_label), fontsize=9)
    if title:
        axes.set_title(plain(title), fontsize=10)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID_COLOR, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.02)


def shorten_ticks(axis: Any, most: int = 6, integer: bool = False) -> None:
    """Limit the number of an axis's ticks and abbreviate their labels; integers if ``integer``."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10], integer=integer))
    axis.set_major_formatter(lambda value, position: short_number(value))


def add_legend(figure: Figure, handles: Mapping[str, Any], note: str | None = None) -> None:
    """Add a legend below all panels, in as many columns as fit."""
    names = [plain(name) for name in handles]
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    columns = int(figure.get_figwidth() / (0.5 + 0.075 * longest))
    legend = figure.legend(
        list(handles.values()), names, loc="outside lower center", title=plain(note or ""),
        ncols=max(1, min(columns, len(names))), frameon=False, fontsize=8, title_fontsize=7,
    )  # fmt: skip
    legend.get_title().set_color(SOFT_COLOR)


def plain(text: str) -> str:
    """Return a string for matplotlib with long lines wrapped and special characters escaped."""
    text = text.encode(errors="backslashreplace").decode()  # of a path that is not UTF-8
    lines = textwrap.wrap(text, 60) or [""]
    # A "$" would start a formula, and legends leave out names that start with "_".
    return "\n".join(lines).replace("$", r"\$").replace("_", " _", int(text.startswith("_")))


def check_output(path: PathLike) -> Path:
    """Return the path of a plot after checking its suffix.

    Raises:
        ValueError: the suffix is not supported.
    """
    output = Path(path)
    if output.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{output} must end in one of {', '.join(SUFFIXES)}.")
    return output


@contextmanager
def _without_latex(figure: Figure) -> Iterator[None]:
    """Draw all text of a figure by matplotlib itself, also if its settings ask for LaTeX.

    Names in a run of somebody else would be commands to LaTeX, and so would the settings:
    matplotlib reads a file "matplotlibrc" in the working directory, which may be such a run.
    """
    import matplotlib
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_usetex(False)
    with matplotlib.rc_context({"text.usetex": False}):  # of ticks, which are made in drawing
        yield


def save(figure: Figure, path: PathLike) -> Path:
    """Save a plot in the format of the path's suffix and create its directory.

    Raises:
        ValueError: the suffix is not supported.
    """
    output = check_output(path)
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as file, _without_latex(figure):
        figure.savefig(file, format=output.suffix[1:].lower())
    return output


def inline_svg(figure: Figure, name: str, description: str) -> str:
    """Return a plot as an ``<svg>`` element for a web page, in the colors of the page.

    Black becomes the color of the surrounding text, grid and notes the CSS variables ``--grid`` and
    ``--soft``, and other colors ``--series-0`` to ``--series-5`` if defined, so that a plot suits
    light and dark pages. The name is an identifier, unique in the page; the description is the
    alternative text.
    """
    import html

    import matplotlib

    buffer = io.StringIO()
    settings = matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name})
    with _without_latex(figure), settings:
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    ink = {GRID_COLOR: "var(--grid)", SOFT_COLOR: "var(--soft)", "#000000": "currentColor"}
    for i, color in enumerate(COLORS[:-1]):  # the last is black
        ink[color.lower()] = f"var(--series-{i}, {color})"
    for printed, own in ink.items():
        svg = svg.replace(printed, own)
    label = html.escape(description, quote=True)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
