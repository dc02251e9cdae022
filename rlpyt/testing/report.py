"""What a conformance check has found, and how it says so."""

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from rlpyt.errors import RlpytError
from rlpyt.utils.processes import traceback_text

Level = Literal["error", "warning", "open", "note"]
MARKS: dict[Level, str] = {"error": "FAIL", "warning": "warn", "open": "open", "note": "note"}


class ConformanceError(RlpytError, AssertionError):
    """A part breaks its contract; the message lists everything that was found.

    Attributes:
        report: the `Report`.
    """

    def __init__(self, report: "Report") -> None:
        super().__init__(str(report))
        self.report = report


class ConformanceWarning(UserWarning):
    """A part keeps its contract, and does something unwise."""


class Stop(Exception):
    """Nothing more can be examined; what stands in the way has been reported."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, unwise or worth knowing.

    Attributes:
        check: name of the check; ``skip`` takes it.
        level: "error", "warning", "open" (could not be examined) or "note".
        what: what was seen, and where.
        mend: what to do about it.
    """

    check: str
    level: Level
    what: str
    mend: str = ""

    def __str__(self) -> str:
        said = f"{MARKS[self.level]} [{self.check}] {self.what}"
        return f"{said}\n     -> {self.mend}" if self.mend else said


class Report:
    """Collects findings about one part.

    Args:
        subject: what is examined, for the headline.
        checks: name -> what it promises, of every check there is.
        skip: names of checks whose findings are to be left out.

    Attributes:
        findings: of every level, in the order in which they were made.
        tracebacks: of exceptions that the examined part raised, as text.

    Raises:
        ValueError: ``skip`` has a name that is none.
    """

    def __init__(self, subject: str, checks: Mapping[str, str], skip: Collection[str] = ()) -> None:
        skip = (skip,) if isinstance(skip, str) else tuple(skip)
        for name in skip:
            if name not in checks:
                near = get_close_matches(name, checks, n=1) or [", ".join(checks)]
                raise ValueError(f"skip={name!r} is no check; did you mean {near[0]}?")
        self.subject, self.checks, self.skip = subject, checks, skip
        self.findings: list[Finding] = []
        self.tracebacks: list[str] = []
        self._covered: list[str] = []

    def error(self, check: str, what: str, mend: str) -> None:
        """Note what breaks the contract; the first finding of each kind counts."""
        self._add(Finding(check, "error", what, mend))

    def warning(self, check: str, what: str, mend: str) -> None:
        """Note what is unwise."""
        self._add(Finding(check, "warning", what, mend))

    def open(self, check: str, why: str, mend: str = "") -> None:
        """Note what could not be examined, and why."""
        self._add(Finding(check, "open", why, mend))

    def note(self, check: str, what: str, mend: str = "") -> None:
        """Note what is worth knowing."""
        self._add(Finding(check, "note", what, mend))

    def _add(self, finding: Finding) -> None:
        assert finding.check in self.checks, finding.check
        seen = {(f.check, f.mend) for f in self.findings}
        if finding.check not in self.skip and (finding.check, finding.mend) not in seen:
            self.findings.append(finding)

    def run(
        self, names: str, examine: Callable[[], Any], refusal: type[Exception] | None = None
    ) -> bool:
        """Examine something; an exception of the examined part becomes a finding.

        Args:
            names: of the checks that this covers, separated by spaces; the first is blamed for
                exceptions.
            examine: makes findings in this report.
            refusal: exceptions of this kind say that the part cannot do it, and may.

        Returns:
            Whether it could be examined to the end.
        """
        checks = names.split()
        if all(name in self.skip for name in checks):
            return True
        self._covered += [name for name in checks if name not in self._covered]
        try:
            examine()
        except Stop:
            pass
        except Exception as error:
            if refusal is not None and isinstance(error, refusal):
                self.open(checks[0], f"{error}")
            else:
                where = _origin(error)
                self.error(
                    checks[0],
                    f"raised {type(error).__name__}: {error}{where}",
                    "see the message; report.tracebacks has where it came from.",
                )
                self.tracebacks.append(traceback_text(error))
        else:
            return True
        for name in [name for name in self.passed if name in checks]:
            self.open(name, "not examined to the end: something else stood in the way")
        return False

    @property
    def ok(self) -> bool:
        """Whether there are no errors."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """What breaks the contract."""
        return [f for f in self.findings if f.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """What is unwise."""
        return [f for f in self.findings if f.level == "warning"]

    @property
    def passed(self) -> list[str]:
        """Names of the checks that ran to the end and found nothing but notes."""
        found = {f.check for f in self.findings if f.level != "note"}
        return [name for name in self._covered if name not in found and name not in self.skip]

    def conclude(self) -> "Report":
        """Raise if there are errors; otherwise warn of what is unwise and return the report.

        Raises:
            ConformanceError: with all findings.
        """
        if self.errors:
            raise ConformanceError(self)
        for finding in self.warnings:
            warnings.warn(f"{self.subject}: {finding}", ConformanceWarning, stacklevel=3)
        return self

    def __str__(self) -> str:
        counts = f"{len(self.errors)} errors, {len(self.warnings)} warnings"
        lines = [f"{self.subject}: {counts}, {len(self.passed)} checks passed"]
        found = sorted(self.findings, key=lambda finding: list(MARKS).index(finding.level))
        lines += [f"  {str(finding).replace(chr(10), chr(10) + '  ')}" for finding in found]
        width = max(map(len, self.passed), default=0)
        lines += [f"  ok   {name:{width}}  {self.checks[name]}" for name in self.passed]
        return "\n".join(lines)


def _origin(error: BaseException) -> str:
    """Where an exception was raised: file and line of the innermost frame."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return ""
    return f" ({frame.tb_frame.f_code.co_filename}:{frame.tb_lineno})"
