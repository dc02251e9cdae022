"""Numbers and programs of docs/replay.md."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np

from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.utils.collections import namedarraytuple
from tests.oracles.plain_replay import Episodes

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


def test_the_example_of_a_selection_draws_the_newer_half():
    block = next(b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def draw" in b)
    scope = {}
    exec(block, scope)
    episodes = Episodes(2, seed=3)
    replay = scope["algo"].ReplayBufferCls(example=episodes.example, size=24, B=2, seed=0)
    for _ in range(3):  # 21 rows, of which 9 to 20 are stored
        replay.append_samples(episodes.steps(7)[0])
    batch = replay.sample_batch(200)
    rows = (batch.agent_inputs.observation[:, -1].numpy().astype(int) - 1) // 100
    low, high = replay.valid()
    assert set(rows) == set(range((low + high) // 2, high))


def test_the_example_of_use_runs():
    block = next(b for b in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "ticket" in b)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block, {})
    assert printed.getvalue() == "torch.Size([256, 4]) torch.float32\n"


def test_a_million_atari_frames_take_what_the_page_says():
    step = namedarraytuple("Step", ["observation", "action", "reward", "done"])
    end = (np.int64(0), np.float32(0), np.bool_(False))
    for shape, said in (((84, 84), "7.1 GB at 84x84"), ((104, 80), "8.3 GB at `AtariEnv`")):
        example = step(np.zeros((4, *shape), np.uint8), *end)
        replay = UniformReplayFrameBuffer(example=example, size=100, B=2)
        assert f"{replay.bytes_per_transition / 1e3:.1f} GB" == said[:6] and said in PAGE
