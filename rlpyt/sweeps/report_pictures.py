"""The pictures of a report: learning curves, aggregates, profiles, improvements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlpyt.sweeps.report_data import Study
from rlpyt.sweeps.report_page import Markup, element, section
from rlpyt.vis import style
from rlpyt.vis.comparisons import draw_improvement, draw_intervals, draw_profile
from rlpyt.vis.curves import draw_curves
from rlpyt.vis.scores import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DRAWN = 10  # variants in one picture; more cannot be told apart


def curves(study: Study, y: str) -> Markup:
    """A picture for each environment, of its best variants."""
    runs = [entry.run for entry in study.entries if (entry.run.path / "progress.csv").exists()]
    pictures: list[Markup] = []
    for environment in sorted({run.environment for run in runs}):
        of_env = [run for run in runs if run.environment == environment]
        n_labels = len({run.label for run in of_env})
        look = _look(study, environment)
        try:
            figure = draw_curves([run for run in of_env if run.label in look], y, look=look)
        except KeyError:  # nothing to draw here; the remarks say why
            continue
        caption = environment or study.title
        if n_labels > len(look):
            caption += f" (the {len(look)} best of {n_labels} variants)"
        pictures.append(_picture(figure, f"curves{len(pictures)}", caption))
    if not pictures:
        nothing = element("p", "No run has logged its returns yet.", class_="no-pictures")
        return section("Learning curves", nothing)
    about = (
        "Interquartile mean across the runs of a variant, as far as all of them have come, with "
        "a 95% bootstrap interval; a single run as it is."
    )
    return section("Learning curves", element("div", *pictures, class_="pictures"), about=about)


def comparisons(study: Study) -> Markup | None:
    """Pictures of final scores, where there is something to compare."""
    pictures = list(_comparison_pictures(study)) if study.scores else []
    if not pictures:
        return None
    about = (
        "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical "
        "Precipice. Few runs make wide intervals: read them before the points."
    )
    return section("Comparisons", *pictures, about=about)


def _comparison_pictures(study: Study) -> Iterator[Markup]:
    assert study.scores is not None
    of = study.scores.of
    for i, environment in enumerate(study.scores.environments):
        look = _look(study, environment)
        labels = [
            k for k in study.ranked(environment) if k in look and environment in of.get(k, {})
        ]
        if len(labels) < 2:
            continue
        few = Scores({k: {environment: of[k][environment]} for k in labels}, study.scores.what)
        yield element("h3", environment or study.title)
        aggregates = draw_intervals(few, look=look)
        yield _picture(aggregates, f"intervals{i}", f"Aggregates of {few.what.lower()}", wide=True)
        profile = draw_profile(few, look=look)
        against = draw_improvement(few, of=labels[0])
        yield element(
            "div",
            _picture(profile, f"profile{i}", "Performance profiles"),
            _picture(against, f"improvement{i}", f"{labels[0]} against the others"),
            class_="pictures",
        )


def _look(study: Study, environment: str) -> style.Looks:
    """The variants to draw, each with a colour that is the same in all pictures."""
    return style.looks(study.ranked(environment)[:MOST_DRAWN])


def _picture(figure: Figure, name: str, caption: str, wide: bool = False) -> Markup:
    svg = Markup(style.inline_svg(figure, name, caption))
    title = element("figcaption", caption)
    return element("figure", title, svg, class_="wide" if wide else None, tabindex="0")
