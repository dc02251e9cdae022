"""Runs of continuous control: resumed ones, statistics of observations, rows and snapshots."""

import copy
import csv

import pytest
import torch

from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.algos.qpg.parts_qpg import AGENTS, NARROW, DriftEnv, assert_same_state
from tests.algos.qpg.test_sac_parts import make
from tests.runners.test_minibatch_rl import StopAfter

T, B, N_ITR = 8, 2, 12
SMALL = dict(
    batch_size=16, min_steps_learn=4 * T * B, replay_size=10 * T * B, replay_ratio=3,
    target_update_tau=0.1,
)  # fmt: skip
NORMALIZED = dict(normalize_observation=True, **NARROW)
EVERY = dict(model_kwargs=NORMALIZED, q_model_kwargs=NORMALIZED)
SEQUENCES = dict(batch_T=5, warmup_T=3, batch_B=4, store_rnn_state_interval=2)
MEMORY = dict(model_kwargs=dict(memory="gru", lstm_size=4, **NARROW))
PRIORITIES = dict(prioritized_replay=True, n_step_return=2, pri_beta_steps=150)

RUNS = {
    "ddpg": (DDPG, "ddpg", dict(PRIORITIES), {}),
    "td3": (TD3, "td3", {}, dict(pretrain_std=0.4)),
    "sac": (SAC, "sac", dict(PRIORITIES), {}),
    "sac_v": (SAC_V, "sac_v", {}, {}),
    "redq": (SAC, "sac", dict(n_target_critics=1, policy_update_interval=3), dict(n_critics=3)),
    "ddpg, normalized": (DDPG, "ddpg", {}, EVERY),
    "td3, normalized": (TD3, "td3", {}, EVERY),
    "sac, normalized": (SAC, "sac", {}, EVERY),
    "sac, parts": (SAC, "sac", dict(PRIORITIES), {}),
    "sac, memory": (SAC, "sac", dict(SEQUENCES), MEMORY),
    "td3, memory": (TD3, "td3", dict(SEQUENCES, **PRIORITIES), MEMORY),
}
DRIFT = dict(EnvCls=DriftEnv, env_kwargs=dict(pays=True))
PARTS = dict(EnvCls=make, env_kwargs=dict(action="nested", masked=True))


def run(name, Runner=MinibatchRl, Sampler=SerialSampler, train=True, settings=None, **kwargs):
    Algo, kind, algo_kwargs, agent_kwargs = RUNS[name]
    algo = Algo(**{**SMALL, **algo_kwargs, **(settings or {})})
    evaluation = dict(eval_n_envs=2, eval_max_steps=400, eval_max_trajectories=4)
    sampler = Sampler(
        batch_T=T, batch_B=B, **(PARTS if name == "sac, parts" else DRIFT),
        **(evaluation if Runner is MinibatchRlEval else {}),
    )  # fmt: skip
    runner = Runner(
        algo=algo, agent=AGENTS[kind](**agent_kwargs), sampler=sampler, n_steps=N_ITR * T * B,
        **{**dict(seed=4, log_interval_steps=2 * T * B, affinity=dict(n_workers=1)), **kwargs},
    )  # fmt: skip
    if train:
        runner.train()
    return runner


def assert_same_run(a, b):
    assert_same_state(a.agent.state_dict(), b.agent.state_dict())
    assert a.algo.update_counter == b.algo.update_counter > 0
    x, y = a.algo.replay_buffer.samples, b.algo.replay_buffer.samples
    for field in ("observation", "action", "reward", "done"):
        pairs = zip(leaves_of(getattr(x, field)), leaves_of(getattr(y, field)), strict=True)
        assert all((own == other).all() for own, other in pairs)
    states = [runner.algo.optim_state_dict() for runner in (a, b)]
    for key, own in states[0].items():
        if key == "log_alpha":
            assert torch.equal(own, states[1][key])
        else:
            assert_same_state(own["state"], states[1][key]["state"])


EARLY = ("sac", "sac, memory")  # also stopped while the replay fills


@pytest.mark.parametrize(
    "name, stops",
    [
        *((name, (1, 7) if name in EARLY else (7,)) for name in RUNS),
        *(pytest.param(name, (1,), marks=pytest.mark.slow) for name in RUNS if name not in EARLY),
    ],
)
def test_resumed_run_is_the_uninterrupted_one_bit_for_bit(name, stops, tmp_path):
    whole = run(name)
    for stop in stops:  # while the replay fills, and while learning goes on
        directory = tmp_path / str(stop)
        run(name, checkpoint_dir=directory, hooks=[StopAfter(stop)])
        resumed = run(name, resume_from=directory, checkpoint_dir=tmp_path / "other", seed=99)
        assert resumed.start_itr == stop + 1
        assert_same_run(whole, resumed)


@pytest.mark.parametrize("name", ["sac"])
def test_with_workers_too(name, tmp_path):
    whole = run(name, Sampler=CpuSampler)
    run(name, Sampler=CpuSampler, checkpoint_dir=tmp_path, hooks=[StopAfter(7)])
    resumed = run(name, Sampler=CpuSampler, resume_from=tmp_path, checkpoint_dir=tmp_path / "o")
    assert_same_run(whole, resumed)


@pytest.mark.parametrize("name", ["ddpg, normalized", "sac, normalized"])
def test_statistics_are_those_of_all_that_was_seen_and_come_back(name, tmp_path):
    seen = []

    class Watch(StopAfter):
        def on_iteration(self, runner, itr):
            seen.append(runner.sampler.samples_pyt.env.observation.clone())
            super().on_iteration(runner, itr)

    first = run(name, checkpoint_dir=tmp_path, hooks=[Watch(7)])
    data = torch.cat(seen).reshape(-1, 3).double()
    assert len(data) == 8 * T * B

    def check(agent):
        for network in (agent.model, *agent._networks().values()):
            kept = network.obs_rms.state_dict()
            assert float(kept["count"]) == len(data)
            torch.testing.assert_close(kept["mean"], data.mean(0))
            torch.testing.assert_close(kept["var"], data.var(0, correction=0))

    check(first.agent)
    state = load_checkpoint(tmp_path).state["agent"]
    other = AGENTS[RUNS[name][1]](**EVERY)
    other.initialize(DriftEnv().spaces)
    other.load_state_dict(copy.deepcopy(state))
    check(other)


@pytest.mark.parametrize("name", ["ddpg", "sac"])
def test_without_a_saved_replay_a_new_one_is_filled_before_learning_goes_on(name, tmp_path):
    settings = dict(save_replay=False)
    first = run(name, settings=settings, checkpoint_dir=tmp_path, hooks=[StopAfter(7)])
    assert load_checkpoint(tmp_path).state["algo"]["replay"] is None
    done = first.algo.update_counter
    assert done == 4 * first.algo.updates_per_optimize  # iterations 4 to 7
    counts = []

    class Count(StopAfter):
        def on_iteration(self, runner, itr):
            counts.append(runner.algo.update_counter - done)

    run(
        name, settings=settings, resume_from=tmp_path, checkpoint_dir=tmp_path / "other",
        hooks=[Count(None)],
    )  # fmt: skip
    assert counts == [0, 0, 0, 0]  # of iterations 8 to 11; it would go on in the next


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
@pytest.mark.parametrize("name", ["td3", "sac", "sac_v"])
def test_rows_have_the_algorithms_columns(name, Runner, tmp_path):
    with run_context(tmp_path / "run", 0, "qpg", snapshot_mode="last"):
        runner = run(name, Runner)
    with open(tmp_path / "run" / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    columns = {f"{field}Average" for field in runner.algo.opt_info_fields}
    assert columns <= set(rows[-1])
    assert all(float(rows[-1][column]) == float(rows[-1][column]) for column in columns)
    snapshot = torch.load(tmp_path / "run" / "params.pkl", weights_only=True)
    assert snapshot["agent_state_dict"].keys() == runner.agent.state_dict().keys()
    assert snapshot["optimizer_state_dict"].keys() == runner.algo.optim_state_dict().keys()


def test_another_agents_checkpoint_is_refused(tmp_path):
    run("sac", checkpoint_dir=tmp_path, hooks=[StopAfter(2)])
    with pytest.raises(ValueError, match="algo .*'SAC' .*'DDPG'"):
        run("ddpg", resume_from=tmp_path)
