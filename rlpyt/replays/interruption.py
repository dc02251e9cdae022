"""Where rows stop following each other: what was written ends before what comes next."""

from typing import Any

import numpy as np

from rlpyt.replays.batch import FinalObservations
from rlpyt.utils.buffer import buffer_func, leaves_of


def interrupt(replay: Any) -> int:
    """End all episodes that go on in the newest row; returns how many rows this takes.

    How a row went on is known if it has a next one. So the newest row goes, and the one before it
    ends like an episode that was cut off by a limit, the observation of the row that went being
    its final one. n-step windows then end there exactly, memories are cleared, older frames begin
    anew, and no other part has to know. Where recurrent states are stored, the cut is at the last
    of these, so that sequences keep their places in the sampler's batches.

    Args:
        replay: a ``ReplayBuffer`` that nobody uses meanwhile.
    """
    ring, storage, B = replay.ring, replay.storage, replay.B
    written = ring.written
    if not written or storage.samples.done[(written - 1) % ring.T].all():
        return 0
    stop = (written - 1) // replay.every * replay.every
    if stop > ring.oldest:
        place = stop % ring.T * B + np.arange(B)
        observation = storage.observations(storage.rows.cut(place[None]), 0)
        storage.finals.forget_from(stop * B)
        _cut_off(replay, stop - 1, observation)
        ring.move(stop - 1)
        replay.compute_returns(1)
    else:
        storage.finals.forget_from(stop * B)
    ring.move(stop)
    replay.selection.retreat(replay.valid)
    return int(written - stop)


def _cut_off(replay: Any, row: int, observation: Any) -> None:
    """Let all episodes end with absolute row ``row``, seeing ``observation`` [B, ...] at last."""
    storage, B, t = replay.storage, replay.B, row % replay.T
    samples, truncated = storage.samples, storage.extra.truncated[t]
    goes_on, B_idxs = ~samples.done[t].astype(bool), truncated.nonzero()[0]
    if len(B_idxs):  # these were cut off as it is
        seen = storage.final_observations(row * B + B_idxs, t * B + B_idxs)
        for leaf, own in zip(leaves_of(observation), leaves_of(seen)):
            leaf[B_idxs] = own
    samples.done[t] = True
    if replay.time_limits:
        samples.timeout[t, goes_on] = True
    ends = (truncated | goes_on).nonzero()[0]
    final = FinalObservations(0 * ends, ends, buffer_func(observation, lambda leaf: leaf[ends]))
    storage.finals.forget_from(row * B)
    storage.write_truncations(row, replay.ring.places(row, 1), final)
