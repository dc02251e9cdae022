"""Open a report in headless Chromium, examine it as a reader would see it, and photograph it.

    python -m benchmarks.report_in_browser DIR_OR_HTML [--screenshot report.png]

In light and dark, on a desktop and on a telephone: every table has rows, every picture (there is
one, unless the report says that there is nothing to draw) has a size and text that stands out,
nothing is wider than the page, nothing is loaded from elsewhere, sorting works, and the console is
silent. Needs Chromium with its driver, and selenium. The exit code is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = {"desktop": (1280, 900), "telephone": (390, 800)}
THEMES = ("light", "dark")
PATIENCE_S = 60.0  # for a page to be there
LEAST_CONTRAST = 4.5  # of text, WCAG 2.1, criterion 1.4.3

EXAMINE = """
const faults = [], text = node => (node.textContent || "").trim().slice(0, 60);
const page = document.documentElement;
if (page.scrollWidth > page.clientWidth)
  faults.push(`the page is ${page.scrollWidth} wide, the window ${page.clientWidth}`);
for (const table of document.querySelectorAll("table"))
  if (!table.tBodies[0] || !table.tBodies[0].rows.length)
    faults.push(`a table has no rows: ${text(table)}`);
for (const details of document.querySelectorAll("details")) details.open = true;
const pictures = document.querySelectorAll("svg[role=img], img");
if (!pictures.length && !document.querySelector(".no-pictures"))
  faults.push("there is no picture");
for (const picture of pictures) {
  const box = picture.getBoundingClientRect(), name = picture.ariaLabel ?? picture.src;
  if (box.width < 100 || box.height < 50) faults.push(`${name} is ${box.width} x ${box.height}`);
  for (const word of picture.querySelectorAll("text")) {
    const inner = word.getBoundingClientRect();
    if (inner.left < box.left - 2 || inner.right > box.right + 2 || inner.top < box.top - 2
        || inner.bottom > box.bottom + 2) faults.push(`${name}: "${text(word)}" is cut off`);
  }
}
if (page.scrollWidth > page.clientWidth) faults.push("opened details are wider than the page");
const rgb = colour => colour.match(/[\\d.]+/g).map(Number);
const bright = colour => {
  const [r, g, b] = rgb(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const behind = node => {
  for (let at = node; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (rgb(colour)[3] !== 0) return colour;
  }
  return "rgb(255, 255, 255)";
};
for (const node of document.querySelectorAll("h1, h2, h3, p, dd, dt, li, td, th, a, summary, pre,"
    + " caption, figcaption, span, svg text")) {
  const style = getComputedStyle(node), inSvg = node.namespaceURI.endsWith("svg");
  const [a, b] = [bright(inSvg ? style.fill : style.color), bright(behind(node))];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < LEAST) faults.push(`contrast ${contrast.toFixed(1)}: ${text(node)}`);
}
for (const entry of performance.getEntriesByType("resource"))
  if (!entry.name.startsWith("data:")) faults.push(`loaded from elsewhere: ${entry.name}`);
const shown = [...document.querySelectorAll("table")].filter(table => table.tBodies[0]);
const cells = table => [...table.tBodies[0].rows].map(row => text(row.cells[0]));
for (const table of shown.filter(table => new Set(cells(table)).size > 1).slice(0, 3)) {
  const head = table.querySelector("th"), before = cells(table).sort().join();
  head.click(); const up = cells(table)[0]; head.click(); const down = cells(table)[0];
  if (up === down) faults.push(`sorting does nothing to: ${text(head)}`);
  if (before !== cells(table).sort().join()) faults.push(`sorting loses rows: ${text(head)}`);
}
for (const details of document.querySelectorAll("details")) details.open = false;
return [...new Set(faults)];
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("report", type=Path, help="a report, or a directory to write one of")
    parser.add_argument("--screenshot", type=Path, help="where to put the pictures taken")
    parser.add_argument("--height", type=int, default=0, help="of pictures; 0: the whole page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        report = args.report
        if report.is_dir():
            from rlpyt.sweeps.report import write_report

            report = write_report(report, Path(scratch) / "report.html")
        n_faults = 0
        for view, faults in examine(report.resolve(), args.screenshot, args.height):
            print(f"{view}: {'; '.join(faults) or 'fine'}")
            n_faults += len(faults)
    return 1 if n_faults else 0


def examine(
    report: Path, screenshot: Path | None = None, picture_height: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """What is wrong with a report in each size and theme.

    Args:
        report: the file.
        screenshot: ``report.png`` for the first view, ``report-dark-telephone.png`` for others.
        picture_height: in pixels, from the top, of the page; 0: all of it.
    """
    driver = _chromium()
    try:
        for (size, (width, height)), theme in itertools.product(SIZES.items(), THEMES):
            _pretend(driver, width, height, theme, mobile=size == "telephone")
            _open(driver, report)
            faults = driver.execute_script(EXAMINE.replace("LEAST", str(LEAST_CONTRAST)))
            faults += [entry["message"] for entry in driver.get_log("browser")]
            if screenshot is not None:
                _open(driver, report)
                plain = (size, theme) == ("desktop", "light")
                stem = screenshot.stem if plain else f"{screenshot.stem}-{theme}-{size}"
                page = driver.execute_script("return document.documentElement.scrollHeight")
                high = min(picture_height or page, page)
                clip = dict(x=0, y=0, width=width, height=high, scale=1)
                _photograph(driver, screenshot.with_stem(stem), clip)
            yield f"{size}, {theme}", list(dict.fromkeys(faults))
    finally:
        driver.quit()


def _chromium() -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = shutil.which("chromedriver")
    os.environ.setdefault("SE_OFFLINE", "true")  # use the driver that is installed
    service = webdriver.ChromeService(executable_path=driver) if driver else None
    return webdriver.Chrome(options=options, service=service)


def _pretend(driver: Any, width: int, height: int, theme: str, mobile: bool) -> None:
    metrics = dict(width=width, height=height, deviceScaleFactor=1, mobile=mobile)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": theme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def _open(driver: Any, report: Path) -> None:
    """Show the page, anew, with all its scripts run; its own driver may say so too early."""
    driver.get("about:blank")
    driver.get(report.as_uri())
    done = "return location.protocol === 'file:' && document.readyState === 'complete'"
    deadline = time.monotonic() + PATIENCE_S
    while not driver.execute_script(done):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{report} was not loaded within {PATIENCE_S:g} s.")
        time.sleep(0.05)


def _photograph(driver: Any, path: Path, clip: dict[str, int]) -> None:
    """A part of the page, also of what does not fit the window."""
    how = {"captureBeyondViewport": True, "clip": clip}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", how)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(base64.b64decode(taken["data"]))


if __name__ == "__main__":
    sys.exit(main())
