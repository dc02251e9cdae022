"""Findings of a conformance check: collect, print and raise them."""

import traceback
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from rlpyt.errors import RlpytError
from rlpyt.utils.logging.tabulate import tabulate
from rlpyt.utils.names import UnknownName
from rlpyt.utils.processes import traceback_text

Level = Literal["error", "warning", "open", "note"]
MARKS: dict[Level, str] = {"error": "FAIL", "warning": "warn", "open": "open", "note": "note"}


class ConformanceError(RlpytError, AssertionError):
    """Failed check of a part that breaks its contract; the message lists all findings.

    Attributes:
        report: the `Report`.
    """

    def __init__(self, report: "Report") -> None:
        super().__init__(str(report))
        self.report = report


class ConformanceWarning(UserWarning):
    """Warning about a part that keeps its contract, but does something questionable."""


class Stop(Exception):
    """Early end of a check, whose reason has been reported."""


@dataclass(frozen=True)
class Finding:
    """One result of a check.

    Attributes:
        check: name of the check, as ``skip`` takes it.
        level: "error" (breaks the contract), "warning" (questionable), "open" (could not be
            checked) or "note".
        what: the observation.
        fix: what to do about it.
    """

    check: str
    level: Level
    what: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{MARKS[self.level]} [{self.check}] {self.what}"
        return f"{text}\n     -> {self.fix}" if self.fix else text


class Report:
    """Findings about one part.

    Args:
        subject: what is checked, for the headline.
        checks: names and descriptions of all checks.
        skip: names of checks whose findings are left out.

    Attributes:
        findings: findings of all levels, in order.
        tracebacks: tracebacks of exceptions that the checked part raised.

    Raises:
        UnknownName: ``skip`` has an unknown name.
    """

    def __init__(self, subject: str, checks: Mapping[str, str], skip: Collection[str] = ()) -> None:
        skip = (skip,) if isinstance(skip, str) else tuple(skip)
        for name in skip:
            if name not in checks:
                raise UnknownName("check to skip", name, checks)
        self.subject, self.checks, self.skip = subject, checks, skip
        self.findings: list[Finding] = []
        self.tracebacks: list[str] = []
        self._covered: list[str] = []
        self._running = ""  # name of a check

    def expect(
        self, ok: object, what: str, fix: str, *, check: str = "", stop: bool = False
    ) -> bool:
        """Report an error unless ``ok`` is true; return True if it is.

        Here and below, ``check`` is the name of the check, by default the running one.

        Raises:
            Stop: ``ok`` is false and ``stop`` is True.
        """
        if not ok:
            self.error(what, fix, check)
            if stop:
                raise Stop
        return bool(ok)

    def error(self, what: str, fix: str, check: str = "") -> None:
        """Add a violation of the contract; of equal fixes only the first finding is kept."""
        self._add("error", what, fix, check)

    def warning(self, what: str, fix: str, check: str = "") -> None:
        """Add something questionable."""
        self._add("warning", what, fix, check)

    def open(self, why: str, fix: str = "", check: str = "") -> None:
        """Add the reason why something could not be checked."""
        self._add("open", why, fix, check)

    def note(self, what: str, fix: str = "", check: str = "") -> None:
        """Add information."""
        self._add("note", what, fix, check)

    def _add(self, level: Level, what: str, fix: str, check: str) -> None:
        check = check or self._running
        assert check in self.checks, check
        seen = {(f.check, f.fix) for f in self.findings}
        if check not in self.skip and (check, fix) not in seen:
            self.findings.append(Finding(check, level, what, fix))

    def run(
        self,
        names: str,
        examine: Callable[[], Any],
        refusal: type[Exception] | None = None,
        needed: bool = False,
    ) -> bool:
        """Run a check; an exception of the checked part becomes a finding.

        Args:
            names: names of the checks that ``examine`` covers, separated by spaces; exceptions are
                reported under the first.
            examine: adds findings to this report.
            refusal: exception type by which the part may decline the check.
            needed: other checks need what ``examine`` finds out, so it is also run if skipped.

        Returns:
            True if ``examine`` ran to its end.
        """
        checks = names.split()
        if not needed and all(name in self.skip for name in checks):
            return True
        self._covered += [name for name in checks if name not in self._covered]
        self._running = checks[0]
        try:
            examine()
        except Stop:
            pass
        except Exception as error:
            if refusal is not None and isinstance(error, refusal):
                self.open(f"{error}")
            else:
                origin = traceback.extract_tb(error.__traceback__)[-1]
                text = f"raised {type(error).__name__}: {error} ({origin.filename}:{origin.lineno})"
                self.error(text, "see the message and report.tracebacks.")
                self.tracebacks.append(traceback_text(error))
        else:
            return True
        for name in [name for name in self.passed if name in checks]:
            self.open("not completed because of an earlier finding", check=name)
        return False

    @property
    def ok(self) -> bool:
        """Return True if there are no errors."""
        return not self.errors

    @property
    def errors(self) -> list[Finding]:
        """Return the findings that break the contract."""
        return [f for f in self.findings if f.level == "error"]

    @property
    def warnings(self) -> list[Finding]:
        """Return the questionable findings."""
        return [f for f in self.findings if f.level == "warning"]

    @property
    def passed(self) -> list[str]:
        """Return the names of the checks that ran to their end with no findings but notes."""
        found = {f.check for f in self.findings if f.level != "note"}
        return [name for name in self._covered if name not in found and name not in self.skip]

    def conclude(self) -> "Report":
        """Issue the warnings and return the report, or raise if there are errors.

        Raises:
            ConformanceError: there are errors; the message has all findings.
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
        passed = tabulate([(name, self.checks[name]) for name in self.passed], tablefmt="plain")
        lines += [f"  ok   {line}" for line in passed.splitlines()]
        return "\n".join(lines)
