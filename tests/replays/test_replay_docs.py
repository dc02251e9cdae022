"""The page about replays says what its program prints."""

import contextlib
import io
import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()


def test_bytes_per_transition_are_those_that_are_printed():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(next(block for block in blocks if "bytes_per_transition" in block), {})
    lines = printed.getvalue().splitlines()
    assert len(lines) == 6
    for line in lines:
        what, number = line.rsplit(None, 1)
        assert f"| {what.strip()} | {number} |" in PAGE
