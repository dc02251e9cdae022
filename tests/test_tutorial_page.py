"""docs/tutorial_halfcheetah.md shows what the kept data of its run say."""

import json
import re

import numpy as np
import pytest

from benchmarks import tutorial

PAGE = tutorial.PAGE.read_text(encoding="utf-8")


def test_the_table_of_the_page_is_that_of_the_data():
    assert tutorial.render(PAGE) == PAGE and "| 50,000 |" in PAGE


@pytest.mark.parametrize("steps", [50_000, 60_000])
def test_evaluations_of_the_page_are_those_of_the_data(steps):
    returns = json.loads((tutorial.KEPT / f"evaluation_{steps}.json").read_text())["returns"]
    shown = f"return {np.mean(returns):.1f} (standard deviation {np.std(returns):.1f}, "
    assert f"{shown}lowest {min(returns):.1f}) over {len(returns)} episodes" in PAGE


def test_the_run_keeps_settings_curves_commit_and_machine():
    config = json.loads((tutorial.KEPT / "config.json").read_text())
    machine = json.loads((tutorial.KEPT / "machine.json").read_text())
    assert (config["algo_name"], config["env"], config["seed"]) == ("sac", "HalfCheetah-v5", 300)
    assert re.fullmatch(r"[0-9a-f]{40}", machine["commit"]) and machine["processor"]
    run = tutorial.curves()
    assert run[tutorial.STEPS][-1] == config["steps"]
    assert all(np.isfinite(run[column][-1]) for column in tutorial.WATCHED)


def test_video_and_images_of_the_page_exist_and_are_small():
    for name in ("halfcheetah.mp4", "halfcheetah.png", "halfcheetah-curve.png"):
        assert 0 < (tutorial.IMAGES / name).stat().st_size < 1_500_000
