"""Replay on a device: batches of the ordinary replay for the same rows, and no host in its way."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.base import BatchSpec
from rlpyt.errors import ReplayNotReady
from rlpyt.replays import device
from rlpyt.replays.device import DeviceReplayBuffer
from rlpyt.replays.memory import ReplayTooLarge
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.samplers.tensor_sampler import TensorSampler
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.collections import namedarraytuple
from tests.samplers.test_tensor_sampler import Bounded, Discrete, HostReads, runner_of

B, GAMMA = 3, 0.9
Samples = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])
Parts = namedarraytuple("Parts", ["place", "speed"])
EXAMPLE = Samples(
    Parts(np.zeros((2, 2), np.float32), np.float32(0)), np.int64(0), np.float32(0), np.bool_(False)
)


def batches(n: int, T: int = 4, seed: int = 0, device: str = "cpu") -> Any:
    """Yield (samples, the sampler's batch): many steps are done, half of them truncated."""
    torch.manual_seed(seed)

    def parts() -> Any:
        return Parts(torch.rand(T, B, 2, 2, device=device), torch.rand(T, B, device=device))

    for _ in range(n):
        done = torch.rand(T, B, device=device) < 0.4
        action = torch.randint(5, (T, B), device=device)
        samples = Samples(parts(), action, torch.rand(T, B, device=device), done)
        info = SimpleNamespace(timeout=done & (torch.rand(T, B, device=device) < 0.5))
        yield (
            samples,
            SimpleNamespace(
                env=SimpleNamespace(done=done, env_info=info, final_observation=parts())
            ),
        )


def filled(n_batches: int, n: int, size: int = 30, finals: bool = True) -> tuple[Any, Any]:
    kwargs: Any = dict(discount=GAMMA, n_step_return=n, null_action=4)
    ours = DeviceReplayBuffer(EXAMPLE, size, B, **kwargs)
    ordinary = UniformReplayBuffer(EXAMPLE, size, B, **kwargs)
    for samples, batch in batches(n_batches):
        for replay in (ours, ordinary):
            replay.append_samples(replay.with_finals(samples, batch) if finals else samples)
    return ours, ordinary


def assert_equal_windows(ours: Any, ordinary: Any) -> None:
    low, high = ordinary.valid()
    rows = np.arange(low, high)
    T_idxs, B_idxs = np.repeat(rows % ours.T, B), np.tile(np.arange(B), len(rows))
    expected = ordinary.extract_batch(T_idxs, B_idxs)
    found = ours.extract_batch(torch.as_tensor(T_idxs * B + B_idxs))
    assert found._fields == expected._fields
    torch.testing.assert_close(found.discount_n, expected.discount_n)
    for name in found._fields[:-1]:
        for a, b in zip(
            leaves_of(getattr(found, name)), leaves_of(getattr(expected, name)), strict=True
        ):
            torch.testing.assert_close(a, b, msg=name)
    bootstrapped = ~expected.done_n  # what the others' target is, does not matter
    assert bootstrapped.any() and expected.done_n.any()
    pairs = zip(leaves_of(found.target_inputs), leaves_of(expected.target_inputs), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a[bootstrapped], b[bootstrapped])


@pytest.mark.parametrize("finals", [True, False])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("n_batches", [2, 5, 11])
def test_windows_are_those_of_the_ordinary_replay(n_batches: int, n: int, finals: bool) -> None:
    ours, ordinary = filled(n_batches, n, finals=finals)
    assert (ours.T, ours.min_rows) == (ordinary.T, ordinary.min_rows)
    assert any(leaf.any() for leaf in leaves_of(ours.final)) == finals
    assert_equal_windows(ours, ordinary)


@pytest.mark.parametrize("n", [1, 3])
def test_an_interruption_truncates_the_open_episodes(n: int) -> None:
    ours, ordinary = filled(7, n)
    assert not ours.samples.done[ours.ring.t - 1].all()
    assert ours.interrupt() == ordinary.interrupt() == 1
    assert_equal_windows(ours, ordinary)
    for samples, batch in batches(1, seed=1):
        for replay in (ours, ordinary):
            replay.append_samples(replay.with_finals(samples, batch))
    assert_equal_windows(ours, ordinary)


def test_only_and_all_valid_rows_are_drawn() -> None:
    ours, ordinary = filled(11, n=2)
    low, high = ordinary.valid()
    valid = ordinary.samples.reward[np.arange(low, high) % ours.T].ravel()
    drawn = ours.sample_batch(2000)
    rewards = ours.extract_batch(torch.arange(ours.size)).agent_inputs
    assert rewards.observation.place.shape == (30, 2, 2)
    stored = {float(ours.rows.observation.speed[i]) for i in range(ours.size)}
    known = ordinary.samples.observation.speed[np.arange(low, high) % ours.T].ravel()
    found = set(drawn.agent_inputs.observation.speed.tolist())
    assert found == set(known.tolist()) < stored
    assert len(valid) == len(found)


def test_it_cannot_be_sampled_before_its_first_window() -> None:
    replay = DeviceReplayBuffer(EXAMPLE, 30, B, n_step_return=2)
    rows = next(batches(1))[0]
    replay.append_samples(rows[:3])
    with pytest.raises(ReplayNotReady):
        replay.sample_batch(4)
    replay.append_samples(rows[3:])
    assert replay.sample_batch(4).return_.shape == (4,)


def test_a_loaded_state_continues_with_the_same_batches() -> None:
    ours, _ = filled(11, 2)
    other = DeviceReplayBuffer(EXAMPLE, 30, B, discount=GAMMA, n_step_return=2, null_action=4)
    other.load_state_dict(ours.state_dict())
    for _ in range(3):
        assert all(map(torch.equal, *map(leaves_of, (ours.sample_batch(5), other.sample_batch(5)))))
    state = ours.state_dict()
    state["rows"][0] = state["rows"][0][:, :1]
    with pytest.raises(ValueError, match="rows of the saved replay"):
        other.load_state_dict(state)
    with pytest.raises(ValueError, match="settings must be those"):
        DeviceReplayBuffer(EXAMPLE, 60, B).load_state_dict(ours.state_dict())


def test_ranks_have_streams_of_their_own() -> None:
    ours, _ = filled(5, 1)
    drawn = []
    for rank in (0, 1, 0):
        ours.set_seed(7, rank)
        drawn.append(ours.sample_batch(8).return_)
    assert torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])
    ours.set_seed(None)


@pytest.mark.parametrize(
    ("size", "samples", "message"),
    [(6, None, "size must be at least 9"), (30, (2, 1), "at most 10 rows"), (9, (4, 3), "3 rows")],
)
def test_what_does_not_fit_is_refused(size: int, samples: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replay = DeviceReplayBuffer(EXAMPLE, size, B)
        replay.append_samples(next(batches(1))[0][: samples[0], : samples[1]])


def test_storing_and_sampling_never_read_the_device_on_the_host() -> None:
    replay = DeviceReplayBuffer(EXAMPLE, 30, B, n_step_return=2)
    given = [replay.with_finals(*batch) for batch in batches(4)]
    with HostReads() as mode:
        for samples in given:
            replay.append_samples(samples)
        replay.sample_batch(16)
    assert mode.n > 100
    assert not mode.found


def test_it_works_on_a_gpu_without_reading_it(monkeypatch: Any) -> None:
    """Fake tensors refuse operations between devices, and those that need a number on the host."""

    def copied(self: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        torch.where(
            torch.ones_like(self, dtype=torch.bool), source, self
        )  # refuses other devices and shapes
        return self

    monkeypatch.setattr(device, "generator_on", lambda *of: None)  # both need a GPU
    monkeypatch.setattr(torch.Tensor, "copy_", copied)
    example = EXAMPLE._replace(action=np.zeros(3, np.float32))
    with FakeTensorMode():
        replay = DeviceReplayBuffer(
            example, 30, B, n_step_return=2, null_action=np.ones(3), device=torch.device("cuda:0")
        )
        for samples, batch in batches(4, device="cuda:0"):
            actions = torch.rand(4, B, 3, device="cuda:0")
            replay.append_samples(replay.with_finals(samples._replace(action=actions), batch))
        found = leaves_of((replay.sample_batch(8), replay.rows, replay.final))
        assert {tensor.device.type for tensor in found} == {"cuda"}
        with pytest.raises(DataDependentOutputException):  # what would be found
            bool(replay.rows.done.any())


def test_a_run_continues_on_another_kind_of_device(capsys: Any) -> None:
    """A generator of a GPU has another state, and replays in host memory store other things."""
    ours, ordinary = filled(11, 2)
    state = ours.state_dict()
    state["generator"] = torch.zeros(16, dtype=torch.uint8)
    ours.load_state_dict(state)
    assert ours.sample_batch(4).return_.shape == (4,)
    for cls, other in ((UniformReplayBuffer, ours), (DeviceReplayBuffer, ordinary)):
        algo = DQN(replay_size=100, batch_size=4, min_steps_learn=50, ReplayBufferCls=cls)
        agent = DqnMlpAgent()
        examples = TensorSampler(Discrete, {}, 2, 4).initialize(agent, seed=0)
        algo.initialize(agent, 100, BatchSpec(2, 4), True, examples)
        algo.load_state_dict({**algo.state_dict(), "replay": other.state_dict()})
        assert "replay" in capsys.readouterr().out
        assert (algo.batches_in_replay, algo.replay_buffer.ring.written) == (0, 0)


def test_a_device_without_the_memory_is_named(monkeypatch: Any) -> None:
    def allocate(*of: Any) -> Any:
        raise torch.OutOfMemoryError("Tried to allocate 3 GiB")

    monkeypatch.setattr(device, "buffer_from_example", allocate)
    with pytest.raises(ReplayTooLarge, match="0 MB for 30 transitions.* cpu .*replay_size"):
        DeviceReplayBuffer(EXAMPLE, 30, B)


def test_rows_stay_on_the_meta_device() -> None:
    replay = DeviceReplayBuffer(EXAMPLE, 30, B, n_step_return=2, device=torch.device("meta"))
    for samples, batch in batches(4, device="meta"):
        replay.append_samples(replay.with_finals(samples, batch))
    tensors = leaves_of((replay.sample_batch(8), replay.rows, replay.final))
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize(
    ("settings", "device", "chosen"),
    [
        ({}, "meta", DeviceReplayBuffer),
        (dict(ReplayBufferCls=DeviceReplayBuffer), None, DeviceReplayBuffer),
        ({}, None, UniformReplayBuffer),
        (dict(ReplayBufferCls=UniformReplayBuffer), "meta", UniformReplayBuffer),
        (dict(prioritized_replay=True), "meta", PrioritizedReplayBuffer),
    ],
)
def test_algorithms_choose_it_for_samplers_of_a_device(
    settings: Any, device: Any, chosen: Any
) -> None:
    algo, agent = DQN(replay_size=100, batch_size=4, **settings), DqnMlpAgent()
    examples = TensorSampler(Discrete, {}, 2, 4).initialize(agent, seed=0)
    assert "device" not in examples  # the environment is on the CPU
    if device is not None:
        examples["device"] = torch.device(device)
    algo.plan(agent, 100, BatchSpec(2, 4), True, 1)
    algo.initialize_replay_buffer(examples, BatchSpec(2, 4))
    assert type(algo.replay_buffer) is chosen
    on_device = (device, chosen) == ("meta", DeviceReplayBuffer)
    assert algo.replay_buffer.device.type == ("meta" if on_device else "cpu")


@pytest.mark.parametrize(
    ("settings", "async_", "message"),
    [
        (dict(prioritized_replay=True), False, "has no priorities"),
        ({}, True, "is not in shared memory"),
    ],
)
def test_algorithms_refuse_it_for_what_it_cannot_do(
    settings: Any, async_: bool, message: str
) -> None:
    algo, agent = DQN(ReplayBufferCls=DeviceReplayBuffer, **settings), DqnMlpAgent()
    examples = TensorSampler(Discrete, {}, 2, 4).initialize(agent, seed=0)
    algo.plan(agent, 100, BatchSpec(2, 4), True, 1)
    with pytest.raises(ValueError, match=message):
        algo.initialize_replay_buffer(examples, BatchSpec(2, 4), async_)


def test_sac_trains_from_it_as_from_the_ordinary_replay() -> None:
    """Same settings and rows; the draws differ."""
    replays = []
    for cls in (DeviceReplayBuffer, UniformReplayBuffer):
        algo = SAC(
            batch_size=32, min_steps_learn=480, replay_ratio=1, replay_size=1600,
            ReplayBufferCls=cls,
        )  # fmt: skip
        small: Any = dict(hidden_sizes=[16])
        agent = SacAgent(model_kwargs=small, q_model_kwargs=small)
        runner = runner_of(algo, agent, Bounded, 640)
        runner.train()
        assert runner.algo.update_counter == 5
        replays.append(runner.algo.replay_buffer)
    ours, ordinary = replays
    assert ours.ring.written == ordinary.ring.written == 40
    before_learning = 480 // 16
    for a, b in zip(leaves_of(ours.samples), leaves_of(ordinary.samples)):
        np.testing.assert_array_equal(a[:before_learning], b[:before_learning])
