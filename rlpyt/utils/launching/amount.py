"""Confirmation of large numbers of runs: a grid grows to a million by a slip."""

import sys

MAX_RUNS = 1000


class TooManyRuns(ValueError):
    """More runs than ``max_runs``, and nobody has said that they are meant.

    Attributes:
        count: how many.
    """

    def __init__(self, count: int, most: int, remedy: str) -> None:
        super().__init__(f"{count:,} runs, and max_runs is {most:,}; {remedy}.")
        self.count = count


def check_count(count: int, most: int, what: str, remedy: str) -> None:
    """Let so many runs pass, if they are not too many or somebody at a terminal means them.

    Args:
        count, most: runs, and how many need no question.
        what: asks for them.
        remedy: what to do if they are meant, where there is nobody to ask.

    Raises:
        TooManyRuns: there is nobody to ask.
        SystemExit: they are not meant.
    """
    if count > most and not are_meant(TooManyRuns(count, most, remedy), what):
        raise SystemExit("Nothing was begun.")


def are_meant(error: TooManyRuns, what: str) -> bool:
    """Return the answer given at the terminal; without a terminal, raise the error."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise error
    answer = input(f"{what} asks for {error.count:,} runs. Begin them? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
