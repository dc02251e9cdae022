"""Clusters: one of the sampler's own, and one of several nodes, of which one is lost."""

import signal
from pathlib import Path

import pytest

from tests.samplers.ray_parts import SMALL, copied, importable  # noqa: F401

ray = pytest.importorskip("ray")
from rlpyt.envs.toy import CountEnv
from rlpyt.processes.call import run_in_child
from rlpyt.samplers.ray_sampler import RaySampler
from tests.oracles.leaks import left_since, take_stock
from tests.parts import EchoAgent

pytestmark = pytest.mark.usefixtures("importable")
T, B = 5, 4


class Resident(CountEnv):
    """Notes the node that it is on."""

    def __init__(self, directory):
        super().__init__(length=30, fixed=True)
        if ray.is_initialized():
            node = ray.get_runtime_context().get_node_id()
            (Path(directory) / node).touch()


def sampler_on(address, directory, **kwargs):
    return RaySampler(
        Resident, dict(directory=str(directory)), T, B, max_decorrelation_steps=0, n_actors=2,
        address=address, **kwargs,
    )  # fmt: skip


@pytest.mark.slow
def test_actors_spread_over_nodes_and_survive_the_loss_of_one(tmp_path):
    from ray.cluster_utils import Cluster

    head = dict(num_cpus=0, object_store_memory=SMALL["object_store_memory"])
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        size = dict(num_cpus=2, object_store_memory=SMALL["object_store_memory"])
        first, second = nodes.add_node(**size), nodes.add_node(**size)
        nodes.wait_for_nodes()
        spread = dict(actor_options=dict(scheduling_strategy="SPREAD"))
        sampler = sampler_on(
            nodes.address, tmp_path, ray_init_kwargs=dict(log_to_driver=False), **spread
        )
        sampler.initialize(EchoAgent(), affinity=dict(n_workers=1), seed=3)
        try:
            before = copied(sampler.obtain_samples(0)[0])
            both = {first.node_id, second.node_id}
            assert {path.name for path in tmp_path.iterdir()} == both
            nodes.remove_node(second)
            after = copied(sampler.obtain_samples(1)[0])
            assert sampler.interrupted
            assert sampler.statistics() == {"ActorRestarts": 1, "DroppedEpisodes": 2}
            began = (after.env.observation[0, :, 2] == 0).tolist()
            assert began in ([True, True, False, False], [False, False, True, True])
            same = (before.env.observation[0, :, 0] == after.env.observation[0, :, 0]).tolist()
            assert same == [not anew for anew in began]
        finally:
            sampler.shutdown()
        assert not ray.is_initialized()
    finally:
        nodes.shutdown()


@pytest.mark.slow
def test_without_a_cluster_one_is_started_and_nothing_of_it_is_left(tmp_path):
    run_in_child(str)  # multiprocessing's helpers are there from now on
    before, handler = take_stock(), signal.getsignal(signal.SIGTERM)
    sampler = sampler_on(None, tmp_path, ray_init_kwargs=SMALL)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=1), seed=3)
    try:
        assert ray.is_initialized() and signal.getsignal(signal.SIGTERM) is handler
        sampler.obtain_samples(0)
    finally:
        sampler.shutdown()
        sampler.shutdown()
    assert not ray.is_initialized()
    del sampler
    for _ in range(20):
        left = left_since(before, patience_s=0.5)
        files = left.pop("files", [])  # sockets and a log of ray's, as long as this process
        if not left:
            break
    assert not left and not [name for name in files if "rlpyt" in name]
