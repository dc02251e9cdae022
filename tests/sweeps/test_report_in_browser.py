"""A report in a real browser: nothing a reader would stumble over, and faults are found."""

import shutil

import matplotlib.pyplot as plt
import pytest

from rlpyt.sweeps.report import write_report
from tests.sweeps.launching import job, sweep_of
from tests.sweeps.test_sweep_report import make_run, make_sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("chromium"), reason="needs Chromium and its driver"),
]
pytest.importorskip("selenium")


def test_reports_are_fine_in_every_size_and_theme(tmp_path):
    from benchmarks.report_in_browser import examine

    make_run(tmp_path / ("x" * 60) / "run_0", [1, 2], env="pong", algo_name="p" * 60)
    for path in (make_sweep(tmp_path / "sweep"), tmp_path):
        views = dict(examine(write_report(path)))
        assert len(views) == 4 and not any(views.values()), views


def test_a_report_without_curves_is_fine_and_pictures_end_with_the_page(tmp_path):
    from benchmarks.report_in_browser import examine

    sweep = sweep_of(tmp_path / "sweep", [job(0)])
    shot = tmp_path / "shot.png"
    views = dict(examine(write_report(sweep.path), shot, picture_height=1_000_000))
    assert len(views) == 4 and not any(views.values()), views
    height, width = plt.imread(shot).shape[:2]
    assert width == 1280 and 900 <= height < 5000


def test_faults_are_found(tmp_path):
    from benchmarks.report_in_browser import examine

    report = write_report(make_sweep(tmp_path / "sweep"))
    faulty = '<main><div style="width: 3000px">wide</div><table><tbody></tbody></table>'
    report.write_text(report.read_text().replace("<main>", faulty))
    for _, faults in examine(report):
        assert "3000" in faults[0] or "wide" in faults[0]
        assert any("no rows" in fault for fault in faults)
