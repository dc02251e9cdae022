"""Messages of plots and reports, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest

from rlpyt.vis.curves import find_runs
from rlpyt.vis.scores import final_scores
from rlpyt.vis.statistics import bootstrap_interval, interquartile_mean
from tests.wording import check

MESSAGES = {
    "directory": (
        FileNotFoundError,
        lambda: find_runs("absent"),
        "absent does not exist; expected a run or a directory of runs.",
    ),
    "nothing to plot": (
        FileNotFoundError,
        lambda: find_runs("."),
        "no runs found in .: no progress.csv in it or below it.",
    ),
    "source of scores": (
        ValueError,
        lambda: final_scores([], source="best"),
        "source='best' must be one of auto, evaluation, last.",
    ),
    "no runs": (
        ValueError,
        lambda: final_scores([]),
        "no run has a final score: the column 'ReturnAverage' is missing or has no number.",
    ),
    "confidence": (
        ValueError,
        lambda: bootstrap_interval([1, 2], confidence=95),
        "confidence=95 must be between 0 and 1.",
    ),
    "no scores": (
        ValueError,
        lambda: interquartile_mean([]),
        "values of interquartile_mean must not be empty.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(*MESSAGES[name])
