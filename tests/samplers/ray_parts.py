"""A Ray cluster on this machine for a module of tests, small enough for two cores."""

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent

from rlpyt.processes.ray import signals_kept
from rlpyt.samplers.ray_sampler import RaySampler
from rlpyt.utils.buffer import buffer_func

SMALL = dict(
    object_store_memory=100_000_000,
    include_dashboard=False,
    log_to_driver=False,
    logging_level="ERROR",
)


@pytest.fixture(scope="module")
def importable():
    """Actors of clusters that are started find what tests define."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parent)]))
        patch.delenv("RAY_ADDRESS", raising=False)
        yield


@pytest.fixture(scope="module")
def cluster(importable):
    """The connection that this program has, which samplers use and leave."""
    ray = pytest.importorskip("ray")
    with signals_kept():  # those of Ray would end later tests of signals
        ray.init(address="local", num_cpus=4, **SMALL)
    yield ray
    assert ray.is_initialized()
    ray.shutdown()


def copied(samples):
    return buffer_func(samples, lambda leaf: leaf.numpy().copy())


def started(agent, T, B, seed=11, workers=2, bootstrap_value=True, **kwargs):
    sampler = RaySampler(batch_T=T, batch_B=B, **{"max_decorrelation_steps": 0, **kwargs})
    sampler.initialize(
        agent, affinity=dict(n_workers=workers), seed=seed, bootstrap_value=bootstrap_value
    )
    return sampler
