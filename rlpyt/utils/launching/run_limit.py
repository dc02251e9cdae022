"""Limit on the number of runs: a typo in a grid can ask for a million."""

MAX_RUNS = 1000


class TooManyRuns(ValueError):
    """Number of runs above ``max_runs``."""


def check_count(count: int, max_runs: int, remedy: str) -> None:
    """Check the number of runs.

    Args:
        count: number of runs.
        max_runs: largest number that is allowed.
        remedy: how to allow the runs, for the error message.

    Raises:
        TooManyRuns: there are more.
    """
    if count > max_runs:
        raise TooManyRuns(f"{count:,} runs, and max_runs is {max_runs:,}; {remedy}.")
