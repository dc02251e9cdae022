"""Two processes that train together hold the same networks, targets and temperature."""

from pathlib import Path

import pytest
import torch

from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.runners.distributed import Ranks
from rlpyt.utils.processes import start_context
from tests.algos.qpg.parts_qpg import AGENTS, CROSSQ, NARROW, SMALL, fill, one_update, prepared

MEMORY = dict(model_kwargs=dict(memory="gru", lstm_size=4, **NARROW))
SEQUENCES = dict(batch_T=4, batch_B=4, warmup_T=2, store_rnn_state_interval=2)
ALGOS = {
    "ddpg": (DDPG, "ddpg", {}, {}),
    "td3": (TD3, "td3", {}, {}),
    "sac": (SAC, "sac", {}, {}),
    "sac_v": (SAC_V, "sac_v", {}, {}),
    "crossq": (SAC, "sac", dict(joint_critics=True), CROSSQ),
    "xqc": (SAC, "sac", dict(joint_critics=True), CROSSQ | dict(target_critics=True)),
    "td3 with memory": (TD3, "td3", SEQUENCES, MEMORY),
    "sac with memory": (SAC, "sac", SEQUENCES, MEMORY),
}
UPDATES = 6


def train_all(rank, results):
    """Train all kinds in turn, in a process of its own."""
    torch.set_num_threads(1)
    for kind in ALGOS:
        train(rank, kind, results)


def train(rank, kind, results):
    """Begin with parameters that differ between ranks, and draw from replays that differ."""
    ranks = Ranks(rank, 2)
    ranks.store = torch.distributed.FileStore(f"{results}/meet-{kind}", 2)
    ranks.connect("gloo", timeout_s=60)
    Algo, name, settings, agent_kwargs = ALGOS[kind]
    algo, agent = Algo(**SMALL, **settings), AGENTS[name](**agent_kwargs)
    try:
        sampler = prepared(algo, agent)
        algo.world_size = 2
        with torch.no_grad():
            for network in (agent.model, *agent._networks().values()):
                for parameter in network.parameters():
                    parameter.add_(0.1 * (rank + 1) * torch.randn_like(parameter))
        agent.data_parallel()
        algo.optim_initialize(rank)
        fill(algo, sampler)
        torch.manual_seed(rank)
        for _ in range(UPDATES):
            one_update(algo)
        state = {f"{a}.{b}": x for a, s in agent.state_dict().items() for b, x in s.items()}
        if hasattr(algo, "log_alpha"):
            state["log_alpha"] = algo.log_alpha.detach()
        torch.save(state, f"{results}/{kind}-{rank}.pt")
    finally:
        ranks.leave(agent)
    assert not communication_threads(), "they may abort the process when it ends"


def communication_threads():
    names = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    return [name for name in names if "gloo" in name]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return the directory with the final state of each rank, of all kinds."""
    path = tmp_path_factory.mktemp("ranks")
    start_context("forkserver")  # which imports torch once for both
    torch.multiprocessing.start_processes(train_all, (str(path),), 2, start_method="forkserver")
    return path


@pytest.mark.parametrize("kind", ALGOS)
def test_ranks_stay_together(kind, results):
    first, second = (torch.load(results / f"{kind}-{rank}.pt") for rank in (0, 1))
    assert first.keys() == second.keys()
    for name, values in first.items():
        torch.testing.assert_close(values, second[name], rtol=1e-5, atol=1e-6, msg=name)
