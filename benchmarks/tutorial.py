"""Keep the run of docs/tutorial_halfcheetah.md, and draw the figures of that page.

    python -m benchmarks.tutorial --keep data/cheetah --commit c1f834f2   # save what the page shows
    python -m benchmarks.tutorial --frames data/cheetah/video.mp4         # draw the still frames
    python -m benchmarks.tutorial                                         # figures and table

Settings, curves, commit and machine of the run are saved in benchmarks/results/tutorial, and an
evaluation over 20 episodes; keep the run before and after it is resumed. ``published.json`` there
has the returns of SAC that the page compares with, and where they come from. Figures are written
to docs/images.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rlpyt
from benchmarks.harness import describe_machine
from rlpyt.utils.logging.progress_csv import read_progress
from rlpyt.vis import style
from rlpyt.vis.images import tile

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "benchmarks" / "results" / "tutorial"
PAGE = ROOT / "docs" / "tutorial_halfcheetah.md"
IMAGES = ROOT / "docs" / "images"
STEPS = "Diagnostics/CumSteps"
UPDATES = "Diagnostics/CumUpdates"
SPEED = "Diagnostics/StepsPerSecond"
WATCHED = {  # column -> title of its panel, in the order in which the page reads them
    SPEED: "1. Steps per second",
    "ReturnAverage": "2. Return in evaluation",
    "alphaAverage": "3. alpha, the temperature",
    "entropyAverage": "4. Entropy of the policy",
    "q1Average": "5. Q-values",
    "tdAbsErrAverage": "6. Absolute TD error",
}
KEPT_COLUMNS = (
    *(STEPS, UPDATES, "Diagnostics/CumTime (s)", "Diagnostics/CpuCores", "Diagnostics/Memory (MB)"),
    *(SPEED, "ReturnAverage", "ReturnStd", "ReturnMedian", "ReturnMin", "ReturnMax"),
    *("Training/ReturnAverage", "DiscountedReturnAverage"),
    *(column for column in WATCHED if column not in (SPEED, "ReturnAverage")),
)
TABLE = re.compile(r"(<!-- comparison -->\n\n).*?(\n\n<!-- end of comparison -->)", re.DOTALL)
FIRST_FRAME, FRAME_INTERVAL = 100, 2  # of the still frames; the video has 20 per second
CROP = slice(200, 460)  # rows of a frame that show the agent


def keep(directory: Path, commit: str) -> None:
    """Save settings, curves, machine and an evaluation of a run.

    Args:
        directory: the run.
        commit: commit that the run was trained with.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    settings = _read(directory / "config.json")
    settings.pop("run_dir", None)
    _write(KEPT / "config.json", settings)
    with (
        (directory / "progress.csv").open(newline="") as source,
        (KEPT / "progress.csv").open("w", newline="") as target,
    ):
        writer = csv.DictWriter(target, KEPT_COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(csv.DictReader(source))
    _write(KEPT / "machine.json", {**describe_machine(), "commit": commit})
    evaluation = rlpyt.load(directory).evaluate(20)
    _write(KEPT / f"evaluation_{settings['steps']}.json", evaluation.as_dict())


def curves() -> dict[str, NDArray[np.float64]]:
    """Return the kept columns of the run, by name."""
    return read_progress(KEPT)


def published() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return steps [P] and returns [P, seeds] of the published runs."""
    data = _read(KEPT / "published.json")
    return np.array(data["steps"], float), np.array(data["returns"], float)


def comparison() -> str:
    """Return a Markdown table of the run beside the published returns."""
    run, (steps, returns) = curves(), published()
    evaluated = np.isfinite(run["ReturnAverage"])
    own_steps, own = run[STEPS][evaluated], run["ReturnAverage"][evaluated]
    rows = ["| steps | this run | published steps | published mean | range of 10 seeds |"]
    rows.append("|---|---|---|---|---|")
    for step, seeds in zip(steps[1:], returns[1:], strict=True):
        at = int(np.argmin(np.abs(own_steps - step)))
        if abs(own_steps[at] - step) <= 2_500:
            rows.append(
                f"| {own_steps[at]:,.0f} | {own[at]:,.0f} | {step:,.0f} | {seeds.mean():,.0f} "
                f"| {seeds.min():,.0f} to {seeds.max():,.0f} |"
            )
    return "\n".join(rows)


def render(page: str) -> str:
    """Return the page with its table made from the kept data."""
    return TABLE.sub(lambda found: found[1] + comparison() + found[2], page)


def draw_curve(path: Path) -> None:
    """Draw the returns of the run beside the published mean and range."""
    run, (steps, returns) = curves(), published()
    shown = steps <= 1.15 * run[STEPS].max()
    steps, returns = steps[shown], returns[shown]
    evaluated = np.isfinite(run["ReturnAverage"])
    figure, (axes,) = style.panels(1)
    ours, theirs, third = style.COLORS[:3]
    handles = {
        "this run, evaluation": axes.plot(
            run[STEPS][evaluated], run["ReturnAverage"][evaluated], color=ours, marker="o", ms=3
        )[0],
        "this run, last 100 training episodes": axes.plot(
            run[STEPS], run["Training/ReturnAverage"], color=third, linestyle=":"
        )[0],
        "published, mean and range of 10 seeds": axes.plot(
            steps, returns.mean(1), color=theirs, linestyle="--", marker="s", ms=3
        )[0],
    }
    axes.fill_between(steps, returns.min(1), returns.max(1), color=theirs, alpha=0.15, lw=0)
    style.dress(axes, "Environment steps", "Episode return", "SAC on HalfCheetah")
    style.shorten_ticks(axes.xaxis)
    style.add_legend(figure, handles)
    style.save(figure, path)


def draw_watched(path: Path) -> None:
    """Draw the columns to watch while the run trains, in their order."""
    run = curves()
    figure, panels = style.panels(len(WATCHED), width=2.4, height=1.9)
    for axes, (column, title) in zip(panels, WATCHED.items(), strict=True):
        axes.plot(run[STEPS], run[column], color=style.COLORS[0], marker="o", ms=2.5)
        style.dress(axes, "Environment steps", "", title)
        style.shorten_ticks(axes.xaxis, 4)
    style.save(figure, path)


def draw_frames(video: Path) -> None:
    """Save four successive frames of a video, cropped, in a grid; and one as its poster."""
    import imageio.v2 as imageio

    frames = imageio.mimread(video, memtest=False)[FIRST_FRAME::FRAME_INTERVAL][:4]
    imageio.imwrite(IMAGES / "halfcheetah-poster.png", frames[0])
    imageio.imwrite(IMAGES / "halfcheetah.png", tile([x[CROP] for x in frames], ncol=2))


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="run directory whose data to save")
    parser.add_argument("--commit", default="unknown", help="commit of that run")
    parser.add_argument("--frames", type=Path, help="video whose frames to draw")
    args = parser.parse_args()
    if args.keep:
        keep(args.keep, args.commit)
    if args.frames:
        draw_frames(args.frames)
    draw_curve(IMAGES / "halfcheetah-curve.png")
    draw_watched(IMAGES / "halfcheetah-watch.png")
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
