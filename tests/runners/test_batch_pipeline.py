"""Batches between an asynchronous sampler and the replay while the pipeline pauses."""

import threading
import time

import numpy as np
import pytest

from rlpyt.runners.batch_pipeline import BatchPipeline

N_SLOTS = 4


class Sampler:
    """Fills every slot at once."""

    def __init__(self):
        self.slots = [np.zeros((2, 1))] * N_SLOTS
        self.policy_updates = 0

    def obtain_samples(self, itr, slot):
        return []

    def should_stop(self):
        return False


@pytest.mark.parametrize("after_failure, in_replay", [(False, [0, 1, 2, 3]), (True, [0])])
def test_a_pause_ends_at_a_whole_batch(after_failure, in_replay):
    """After a failure, with what is being stored; else with all that has been collected."""
    stored, may_store = [], threading.Event()

    def store(batch):
        may_store.wait()
        stored.append(batch.itr)

    feed = BatchPipeline(Sampler(), 0, 100, store, keep_slots=True)
    feed.start()
    try:
        while feed.next_itr < N_SLOTS:
            time.sleep(0.01)
        threading.Timer(0.1, may_store.set).start()
        with feed.paused(after_failure):
            for _ in range(10):
                time.sleep(0.02)
                state = feed.state_dict()
            assert stored == in_replay
            assert state["next_itr"] == len(in_replay)
            assert [batch["itr"] for batch in state["ready"]] == in_replay
    finally:
        feed.stop()
