"""Masks of actions are recorded and obeyed in every layout; invalid ones are named."""

import re
from itertools import product

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.vector.base import adapt
from rlpyt.envs.vector.serial import SerialVectorEnv
from rlpyt.errors import WorkerError
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import AlternatingSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import set_seed
from tests.hybrid_env import HybridEnv
from tests.masked_env import SIZES, MaskedEnv
from tests.samplers.test_matrix import collector_of

T, B = 9, 4
PARALLEL = [CpuSampler, GpuSampler, AlternatingSampler]


def make(**kwargs):
    return GymEnvWrapper(MaskedEnv(**kwargs))


def make_rows(num_envs, **kwargs):
    return SerialVectorEnv([make(**kwargs) for _ in range(num_envs)])


make_rows.batched = True


ENCODER = dict(channels=[4], kernel_sizes=[3], strides=[1])


def agent_of(kind, action="discrete", **env_kwargs):
    spaces = make(action=action, **env_kwargs).spaces
    model_kwargs = dict(hidden_sizes=[16], encoder=ENCODER) if env_kwargs else None
    if kind in ("ff", "lstm"):
        return agent_for(spaces, recurrent=kind == "lstm", model_kwargs=model_kwargs)
    kwargs = dict(eps_final=0.5, eps_init=0.5, model_kwargs=model_kwargs)
    return dqn_agent_for(kind, spaces, **kwargs)


def collect(SamplerCls, agent, env_kwargs=None, mid_batch_reset=True, EnvCls=make, **kwargs):
    """Batches, and the returns of an evaluation."""
    sampler = SamplerCls(
        EnvCls=EnvCls, env_kwargs=env_kwargs or {}, batch_T=T, batch_B=B,
        CollectorCls=collector_of(SamplerCls, mid_batch_reset), eval_n_envs=2, eval_max_steps=400,
        eval_max_trajectories=4, **{"max_decorrelation_steps": 6, **kwargs},
    )  # fmt: skip
    torch.manual_seed(5)
    pg = hasattr(agent, "value")
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=11, bootstrap_value=pg)
    try:
        batches = []
        for itr in range(1, 4):
            samples, _ = sampler.obtain_samples(itr)
            batches.append(buffer_func(samples, lambda x: x.numpy().copy()))
        return batches, sorted(info.Return for info in sampler.evaluate_agent(4))
    finally:
        sampler.shutdown()


def assert_valid(samples, sizes):
    mask, action = samples.env.observation.action_mask, samples.agent.action
    acting = mask.any(-1)  # waiting rows are zero
    columns = action.reshape(*acting.shape, -1) + np.cumsum((0, *sizes[:-1]))
    assert np.take_along_axis(mask, columns, -1)[acting].all()
    assert acting.mean() > 0.2


FAST = [  # every layout, kind of agent and way to reset; each trial of tiles takes a second
    ("ff", True, GpuSampler),
    ("lstm", False, CpuSampler),
    ("dqn", False, AlternatingSampler),
    ("r2d1", True, AlternatingSampler),
]
REST = {*product(("ff", "lstm", "dqn", "r2d1"), (True, False), PARALLEL)} - {*FAST}


@pytest.mark.parametrize(
    "kind, mid_batch_reset, SamplerCls",
    [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in sorted(REST, key=str))],
)
def test_layouts_collect_the_same_batches_of_valid_actions(kind, mid_batch_reset, SamplerCls):
    kwargs = dict(mid_batch_reset=mid_batch_reset, deterministic_acting=True)
    serial, returns = collect(SerialSampler, agent_of(kind), **kwargs)
    for samples in serial:
        assert_valid(samples, SIZES["discrete"])
    batches, own = collect(SamplerCls, agent_of(kind), **kwargs)
    for x, y in zip(leaves_of(tuple(serial)), leaves_of(tuple(batches)), strict=True):
        assert np.array_equal(x, y)
    assert own == returns


@pytest.mark.parametrize("action", ["several", "bits", "start"])
@pytest.mark.parametrize("EnvCls", [make, make_rows])
def test_every_kind_of_choice_and_vector_environments(EnvCls, action):
    batches, _ = collect(SerialSampler, agent_of("ff", action), dict(action=action), EnvCls=EnvCls)
    for samples in batches:
        assert_valid(samples, SIZES[action])


ENVS = dict(
    masked=(MaskedEnv, {}),
    part=(MaskedEnv, dict(source="part", action="several")),
    hybrid=(HybridEnv, dict(action="dict", masked=True)),
    nested=(HybridEnv, dict(action="nested", masked=True)),
)


def single(name):
    cls, kwargs = ENVS[name]
    return GymEnvWrapper(cls(**kwargs))


def native(num_envs, name, mode):
    """Make a vector environment of Gymnasium, which steps rows that wait for a reset, too."""
    cls, kwargs = ENVS[name]
    envs = SyncVectorEnv([lambda: cls(**kwargs)] * num_envs, autoreset_mode=AutoresetMode[mode])
    return adapt(envs)


native.batched = True


def by_name(tree, name=""):
    """Return {name: leaf}; Gymnasium's vector environments have another order of parts."""
    if not isinstance(tree, tuple):
        return {name: tree}
    parts = zip(tree._fields, tree, strict=True)
    return {key: x for field, part in parts for key, x in by_name(part, f"{name}.{field}").items()}


MODES = [mode.name for mode in AutoresetMode]
FAST_SOURCES = [
    *(("masked", mode, SerialSampler, True) for mode in MODES),
    ("hybrid", "SAME_STEP", SerialSampler, False),
]
ALL_SOURCES = [
    (name, mode, SamplerCls, wait)
    for name in ENVS
    for mode in MODES
    for SamplerCls in (SerialSampler, *PARALLEL)
    for wait in (False, True)
]


@pytest.mark.parametrize(
    "name, mode, SamplerCls, wait",
    [
        *FAST_SOURCES,
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ALL_SOURCES
            if case not in FAST_SOURCES
        ),
    ],
)
def test_every_autoreset_mode_gives_batches_of_valid_actions(name, mode, SamplerCls, wait):
    kwargs = dict(mid_batch_reset=not wait, deterministic_acting=True, max_decorrelation_steps=0)
    network = dict(model_kwargs=dict(hidden_sizes=[8]))
    agents = [agent_for(single(name).spaces, **network) for _ in range(2)]
    expected, returns = collect(SerialSampler, agents[0], dict(name=name), EnvCls=single, **kwargs)
    own, own_returns = collect(
        SamplerCls, agents[1], dict(name=name, mode=mode), EnvCls=native, **kwargs
    )
    # Waiting rows go on in the source, so that their next episodes are others.
    for one, other in zip(expected[:1] if wait else expected, own):
        x, y = by_name(one), by_name(other)
        for field in x.keys() & y.keys():
            assert np.array_equal(x[field], y[field]), field
        assert x.keys() ^ y.keys() <= {".env.env_info.t", ".env.env_info.traj_done"}
    np.testing.assert_allclose(own_returns, returns)  # of rewards in float32


@pytest.mark.parametrize("kind", ["ff", "dqn"])
def test_images_with_a_mask(kind):
    agent = agent_of(kind, image=True)
    batches, returns = collect(SerialSampler, agent, dict(image=True))
    for samples in batches:
        assert samples.env.observation.observation.dtype == np.uint8
        assert_valid(samples, SIZES["discrete"])
    assert len(returns) == 4


def test_other_entries_of_info_are_recorded_beside_a_mask():
    batches, _ = collect(SerialSampler, agent_of("ff"))
    for samples in batches:
        assert samples.env.env_info._fields == ("t", "timeout")
        steps, done = samples.env.env_info.t, samples.env.done
        assert (steps[1:][~done[:-1]] == steps[:-1][~done[:-1]] + 1).all()


@pytest.mark.parametrize(
    "SamplerCls, kind",
    [
        (SerialSampler, "ff"),
        (GpuSampler, "r2d1"),
        *(
            pytest.param(SamplerCls, kind, marks=pytest.mark.slow)
            for SamplerCls in (SerialSampler, *PARALLEL)
            for kind in ("ff", "lstm", "dqn")
        ),
    ],
)
def test_resumed_sampling_gives_the_same_bits(SamplerCls, kind):
    def batches_of(state=None, n=4):
        sampler = SamplerCls(make, {}, batch_T=T, batch_B=B)
        torch.manual_seed(2)
        seed = 9 if state is None else 1
        pg = kind in ("ff", "lstm")
        sampler.initialize(agent_of(kind), dict(n_workers=2), seed=seed, bootstrap_value=pg)
        try:
            if state is not None:
                assert sampler.load_state_dict(state)
            batches, between = [], None
            for itr in range(4 - n, 4):
                between = sampler.state_dict() if itr == 2 else between
                samples, _ = sampler.obtain_samples(itr)
                batches.append(buffer_func(samples, torch.clone))
            return batches, between
        finally:
            sampler.shutdown()

    whole, between = batches_of()
    resumed, _ = batches_of(between, 2)
    for x, y in zip(leaves_of(tuple(whole[2:])), leaves_of(tuple(resumed)), strict=True):
        assert x.numpy().tobytes() == y.numpy().tobytes()


FAULTS = {
    "empty": "action_mask must allow an action, but all its entries are 0",
    "large": "action_mask must have entries 0 or 1, got 3",
    "short": "must be a vector of 6 entries, one for each choice of",
    "missing": "info['action_mask'] is missing or None",
    "text": "must have entries 0 or 1",
    "object": "must have entries 0 or 1",
}
FAST_FAULTS = [
    *((SerialSampler, make, fault) for fault in FAULTS),
    (SerialSampler, make_rows, "empty"),
    (CpuSampler, make, "empty"),
    (GpuSampler, make, "missing"),
]
ALL_FAULTS = [
    (SamplerCls, EnvCls, fault)
    for SamplerCls in (SerialSampler, *PARALLEL)
    for EnvCls in (make, make_rows)
    for fault in FAULTS
]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "SamplerCls, EnvCls, fault",
    [
        *FAST_FAULTS,
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ALL_FAULTS
            if case not in FAST_FAULTS
        ),
    ],
)
def test_invalid_masks_are_named_with_environment_and_step(SamplerCls, EnvCls, fault, strict):
    if strict and fault != "empty":
        pytest.skip("only an empty mask makes the environment fail")
    kwargs = dict(fault=fault, fault_at=T + 3, length=50, strict=strict)
    sampler = SamplerCls(EnvCls, kwargs, batch_T=T, batch_B=2, max_decorrelation_steps=0)
    sampler.initialize(agent_of("ff"), affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    sampler.obtain_samples(0)
    with pytest.raises((ValueError, TypeError, WorkerError)) as caught:
        sampler.obtain_samples(1)
        sampler.obtain_samples(2)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert FAULTS[fault] in said
    assert re.search(r"(stepping|resetting) environment [01]", said)
    assert re.search(r"iteration 1, step [12] of the batch", said), said
    sampler.shutdown()


@pytest.mark.parametrize("EnvCls", [make, make_rows])
@pytest.mark.parametrize(
    "SamplerCls",
    [SerialSampler, *(pytest.param(SamplerCls, marks=pytest.mark.slow) for SamplerCls in PARALLEL)],
)
def test_final_observations_need_a_mask_if_they_are_recorded(SamplerCls, EnvCls):
    sampler = SamplerCls(EnvCls, dict(fault="final"), batch_T=T, batch_B=2)
    settings = dict(affinity=dict(n_workers=2), seed=1, final_observation=True)
    sampler.initialize(agent_of("ff"), **settings)
    with pytest.raises((ValueError, WorkerError), match="final observation") as caught:
        for itr in range(5):
            sampler.obtain_samples(itr)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(r"stepping environment [01]", said) and "all its entries are 0" in said
    sampler.shutdown()


@pytest.mark.parametrize("SamplerCls", [SerialSampler, CpuSampler])
def test_random_steps_name_the_environment_of_an_empty_mask(SamplerCls):
    sampler = SamplerCls(
        make, dict(fault="empty", fault_at=3, length=50), batch_T=T, batch_B=2,
        max_decorrelation_steps=30,
    )  # fmt: skip
    with pytest.raises((ValueError, WorkerError), match="action_mask .*allow") as caught:
        sampler.initialize(agent_of("ff"), affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(r"stepping environment [01].*step \d+ of the random steps", said)
    sampler.shutdown()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "SamplerCls, action",
    [
        (SerialSampler, "several"),
        (GpuSampler, "discrete"),
        *(pytest.param(cls, "several", marks=pytest.mark.slow) for cls in PARALLEL),
    ],
)
def test_evaluation_names_the_environment_of_an_empty_mask(SamplerCls, action, strict):
    fault = dict(fault="empty", fault_at=20, length=50, strict=strict)
    sampler = SamplerCls(
        make, dict(action=action), batch_T=T, batch_B=2, eval_n_envs=2, eval_max_steps=200,
        eval_env_kwargs=dict(action=action, **fault),
    )  # fmt: skip
    agent = agent_of("ff", action)
    sampler.initialize(agent, affinity=dict(n_workers=2), seed=1, bootstrap_value=True)
    with pytest.raises((ValueError, WorkerError), match="action_mask .*allow") as caught:
        sampler.evaluate_agent(1)
    said = " ".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert re.search(r"stepping evaluation environment [01].*step \d+ of the evaluation", said)
    sampler.shutdown()


def solve(algo, agent, source, n_itr, T=16, B=16):
    """Train; return the mean return per step of the last episodes."""
    sampler = SerialSampler(make, dict(source=source), batch_T=T, batch_B=B)
    sampler.initialize(agent, seed=1, bootstrap_value=True)
    algo.initialize(agent, n_itr, sampler.batch_spec, True, sampler.examples)
    infos = []
    for itr in range(n_itr):
        agent.sample_mode(itr)
        samples, completed = sampler.obtain_samples(itr)
        agent.train_mode(itr)
        algo.optimize_agent(itr, samples)
        infos += completed
    sampler.shutdown()
    last = infos[-200:]
    return sum(info.Return for info in last) / sum(info.Length for info in last)


@pytest.mark.slow
@pytest.mark.parametrize("recurrent", [False, True], ids=["ff", "lstm"])
def test_a_task_is_learned_with_the_mask_and_not_without(recurrent):
    def learn(source):
        set_seed(0)
        algo = PPO(learning_rate=1e-2, minibatches=2, epochs=4, entropy_loss_coeff=0.0)
        agent = agent_for(make(source=source).spaces, recurrent)
        return solve(algo, agent, source, n_itr=50)

    assert learn("info") > 0.9  # chance among valid actions: about 0.4
    assert learn("none") < 0.7


class CountsResets(MaskedEnv):
    made: list = []

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.n_resets = 0
        self.made.append(self)

    def reset(self, **kwargs):
        self.n_resets += 1
        return super().reset(**kwargs)


@pytest.mark.parametrize("source", ["info", "none"])
def test_environments_of_a_sampler_are_not_reset_to_look_for_masks(source):
    CountsResets.made = made = []
    sampler = SerialSampler(
        EnvCls=CountsResets, env_kwargs=dict(source=source), batch_T=T, batch_B=B,
        max_decorrelation_steps=0, eval_n_envs=2, eval_max_steps=40,
    )  # fmt: skip
    agent = agent_of("ff", source=source)
    sampler.initialize(agent, seed=1)
    try:
        sampled, evaluated = made[1 : 1 + B], made[1 + B :]  # after the one that is tried out
        assert [env.n_resets for env in sampled] == [1] * B
        assert [env.n_resets for env in evaluated] == [0] * 2
    finally:
        sampler.shutdown()
