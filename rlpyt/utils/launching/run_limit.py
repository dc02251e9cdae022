"""Limit on the number of runs: a typo in a grid can ask for a million."""

import sys

MAX_RUNS = 1000


class TooManyRuns(ValueError):
    """Unconfirmed number of runs above ``max_runs``.

    Attributes:
        count: number of runs.
    """

    def __init__(self, count: int, max_runs: int, remedy: str) -> None:
        super().__init__(f"{count:,} runs, and max_runs is {max_runs:,}; {remedy}.")
        self.count = count


def check_count(count: int, max_runs: int, source: str, remedy: str) -> None:
    """Ask for confirmation at the terminal if there are more than `max_runs` runs.

    Args:
        count: number of runs.
        max_runs: number of runs that need no confirmation.
        source: name of what defines the runs, for the question.
        remedy: how to allow the runs without a terminal, for the error message.

    Raises:
        TooManyRuns: there is no terminal to ask at.
        SystemExit: the user declined.
    """
    if count > max_runs and not is_confirmed(TooManyRuns(count, max_runs, remedy), source):
        raise SystemExit("Aborted.")


def is_confirmed(error: TooManyRuns, source: str) -> bool:
    """Return the answer given at the terminal; without a terminal, raise the error."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise error
    answer = input(f"{source} defines {error.count:,} runs. Launch them? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
