"""Findings are collected, printed and raised."""

import pytest

from rlpyt.errors import RlpytError
from rlpyt.testing import ConformanceError, ConformanceWarning, Report
from rlpyt.testing.report import Stop

CHECKS = {"shape": "shapes are right", "seed": "seeds are honoured", "close": "it closes"}


def test_all_errors_are_raised_at_once_with_their_fixes():
    report = Report("a part", CHECKS)
    report.run("shape", lambda: report.error("is (2,)", "make it (3,)"))
    report.run("seed close", lambda: report.warning("is ignored", "use it"))
    with pytest.raises(ConformanceError) as caught:
        report.conclude()
    assert isinstance(caught.value, RlpytError) and caught.value.report is report
    assert str(caught.value).splitlines() == [
        "a part: 1 errors, 1 warnings, 1 checks passed",
        "  FAIL [shape] is (2,)",
        "       -> make it (3,)",
        "  warn [seed] is ignored",
        "       -> use it",
        "  ok   close  it closes",
    ]


def test_without_errors_each_warning_is_issued():
    report = Report("a part", CHECKS)
    report.warning("is ignored", "use it", check="seed")
    report.note("is large", check="shape")
    with pytest.warns(ConformanceWarning, match=r"a part: .*\[seed\]") as warned:
        assert report.conclude() is report
    assert len(warned) == 1


def test_findings_with_the_same_fix_are_reported_once():
    report = Report("a part", CHECKS)
    for step in range(3):
        report.error(f"step {step}: is (2,)", "make it (3,)", check="shape")
    report.error("has no dtype", "give it one", check="shape")
    assert [f.what for f in report.errors] == ["step 0: is (2,)", "has no dtype"]


def test_exceptions_become_findings_and_stop_ends_a_check():
    def broken():
        raise KeyError("gone")

    def stopped():
        raise Stop

    def refused():
        raise LookupError("not here")

    report = Report("a part", CHECKS)
    assert not report.run("shape", broken)
    assert not report.run("seed", stopped)
    assert not report.run("close", refused, refusal=LookupError)
    assert "raised KeyError: 'gone'" in report.errors[0].what
    assert __file__ in report.errors[0].what and "KeyError" in report.tracebacks[0]
    levels = {f.check: f.level for f in report.findings}
    assert levels == {"shape": "error", "seed": "open", "close": "open"}


def test_checks_that_a_failure_prevented_have_not_passed():
    report = Report("a part", CHECKS)
    assert not report.run("shape seed close", lambda: 1 / 0)
    assert report.passed == []
    assert [(f.check, f.level) for f in report.findings] == [
        ("shape", "error"),
        ("seed", "open"),
        ("close", "open"),
    ]


def test_skipped_checks_are_not_run_or_not_reported():
    report = Report("a part", CHECKS, skip=["shape"])
    assert report.run("shape", lambda: 1 / 0)
    report.run("seed shape", lambda: report.error("is (2,)", "make it (3,)", check="shape"))
    assert report.findings == [] and report.passed == ["seed"]
    with pytest.raises(ValueError, match="did you mean 'shape'"):
        Report("a part", CHECKS, skip=["shapes"])


def test_open_checks_have_not_passed():
    report = Report("a part", CHECKS)
    report.run("shape", lambda: report.open("nothing ended"))
    report.run("seed", lambda: report.note("is 3"))
    assert report.passed == ["seed"] and report.ok


def test_expect_reports_what_is_not_true_and_stops_if_asked():
    report = Report("a part", CHECKS)
    assert report.expect([1], "is (2,)", "make it (3,)", check="shape")
    assert not report.expect([], "is ignored", "use it", check="seed")
    with pytest.raises(Stop):
        report.expect(False, "raises", "catch it", check="close", stop=True)
    assert [f.check for f in report.errors] == ["seed", "close"]
