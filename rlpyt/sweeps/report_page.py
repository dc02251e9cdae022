"""Build a web page that is one file: elements whose text is escaped, and the page's style.

Colours of terminals and characters that no page may hold are left out of texts.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

VOID = {"meta", "link"}
UNSEEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\n\t\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]")


class Markup(str):
    """HTML that is already what it should be; any other text is escaped."""

    __slots__ = ()


Content = str | Sequence["Content"]


@dataclass(frozen=True)
class Cell:
    """A table's cell whose order is not that of its text.

    Attributes:
        text: as shown.
        order: by which its column is sorted; ``None``: last.
    """

    text: str | Markup
    order: float | None


def element(tag: str, *content: Content, **attributes: str | None) -> Markup:
    """An element with its content; what is not ``Markup`` is escaped.

    Args:
        tag: name of the element.
        content: texts, elements, and lists of them.
        attributes: by name, with ``_`` for ``-`` and after a Python keyword (``class_``); ``None``
            leaves one out.
    """
    given = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items() if v is not None}
    texts = {name: html.escape(UNSEEN.sub("", value), quote=True) for name, value in given.items()}
    inside = "".join(f' {name}="{value}"' for name, value in texts.items())
    if tag in VOID:
        return Markup(f"<{tag}{inside}>")
    return Markup(f"<{tag}{inside}>{_joined(content)}</{tag}>")


def section(title: str, *content: Content, about: str = "") -> Markup:
    """A part of the page with a heading that can be linked to."""
    name = "-".join(title.lower().split())
    intro = [element("p", about, class_="about")] if about else []
    return element("section", element("h2", title), intro, *content, id=name)


def table(head: Sequence[str], rows: Iterable[Sequence[str | Cell]], caption: str = "") -> Markup:
    """A table whose columns a click on the head sorts. It scrolls by itself if it is too wide."""
    lines = list(rows)
    numeric = [any(isinstance(cell, Cell) for cell in column) for column in zip(*lines)]
    heads = [
        element("th", name, scope="col", class_="number" if right else None)
        for name, right in zip(head, numeric or [False] * len(head))
    ]
    body = [element("tr", [_cell(cell) for cell in row]) for row in lines]
    title = [element("caption", caption)] if caption else []
    whole = element("table", title, element("thead", element("tr", heads)), element("tbody", body))
    return element("div", whole, class_="scroll", tabindex="0")


def folded(title: Content, *content: Content, open_: bool = False) -> Markup:
    """Content behind a line that opens it."""
    return element("details", element("summary", title), *content, open="" if open_ else None)


def page(title: str, *content: Content) -> Markup:
    """A whole document; nothing in it refers to anything outside."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="data:,"),
        element("style", Markup(STYLE)),
    )
    body = element("body", element("main", *content), element("script", Markup(SCRIPT)))
    return Markup(f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n")


def _cell(cell: str | Cell) -> Markup:
    if isinstance(cell, str):
        return element("td", cell)
    order = "" if cell.order is None else repr(cell.order)
    return element("td", cell.text, class_="number", data_order=order)


def _joined(content: Content) -> str:
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return html.escape(UNSEEN.sub("", content), quote=False)
    return "".join(map(_joined, content))


STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5d666f; --paper: #ffffff;
  --card: #f5f6f8; --line: #d9dde1; --grid: #e5e5e5; --link: #0b62a8;
  --done: #00714e; --running: #0b62a8; --failed: #b32d00; --other: #5d666f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #a2abb4; --paper: #16191d;
  --card: #1f2429; --line: #3a424a; --grid: #333a41; --link: #7db8ee;
  --series-0: #4ba6e3; --series-1: #f2854a; --series-2: #2fc29a;
  --done: #4cc79a; --running: #7db8ee; --failed: #ff8d63; --other: #a2abb4; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1.5rem clamp(0.8rem, 3vw, 2.5rem) 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 0.6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.5rem; padding-bottom: 0.2rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.2rem 0 0.4rem; overflow-wrap: anywhere; }
a { color: var(--link); }
p, li { overflow-wrap: anywhere; }
.about, .facts, caption { color: var(--soft); font-size: 0.9rem; }
.about { margin: 0 0 0.8rem; max-width: 60rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; margin: 0; }
.facts dd { margin: 0; color: var(--ink); overflow-wrap: anywhere; min-width: 0; }
.counts { display: flex; flex-wrap: wrap; gap: 0.6rem; margin: 1rem 0; padding: 0;
  list-style: none; }
.counts li { background: var(--card); border-radius: 0.5rem; padding: 0.4rem 0.9rem; }
.counts b { font-size: 1.35rem; margin-right: 0.35rem; }
.done { color: var(--done); } .running { color: var(--running); }
.failed { color: var(--failed); }
.queued, .pruned, .unfinished, .ended { color: var(--other); }
nav { display: flex; flex-wrap: wrap; gap: 0.2rem 1.1rem; font-size: 0.9rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1.2rem; }
figure { margin: 0.6rem 0 0; overflow-x: auto; }
figure svg { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figure.wide svg { min-width: 32rem; }
svg text { fill: currentColor; }
figcaption { font-weight: 600; text-align: center; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: 0.6rem 0; }
table { border-collapse: collapse; font-size: 0.88rem; min-width: 100%; }
caption { text-align: left; padding-bottom: 0.3rem; }
th, td { text-align: left; padding: 0.28rem 0.7rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { white-space: nowrap; background: var(--card); cursor: pointer; user-select: none; }
th[aria-sort=ascending]::after { content: " \\2191"; }
th[aria-sort=descending]::after { content: " \\2193"; }
th.number, td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tbody tr:hover { background: var(--card); }
pre { background: var(--card); border-radius: 0.4rem; padding: 0.7rem 0.9rem; overflow-x: auto;
  font: 0.82rem/1.45 ui-monospace, "DejaVu Sans Mono", monospace; margin: 0.4rem 0; }
details { margin: 0.3rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: 0.85rem; }
@media print { th { cursor: auto; } details { break-inside: avoid; } }
"""

SCRIPT = """
for (const head of document.querySelectorAll("th")) {
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[at].dataset.order ?? row.cells[at].textContent;
    const compare = (a, b) => {
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      const order = key(a).localeCompare(key(b), "en", { numeric: true }) ||
        (key(a) < key(b) ? -1 : 1);  // as "0.01" and "0.1" count as equal
      const numbers = Number(key(a)) - Number(key(b));
      return (up ? 1 : -1) * (Number.isNaN(numbers) ? order : numbers);
    };
    body.append(...[...body.rows].sort(compare));
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
}
"""
