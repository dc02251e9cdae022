"""Environments of tensors behind one interface."""

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlpyt.envs.tensor import TensorEnvs, TensorRow, is_tensor_env, make_tensor_envs
from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from tests.tensor_envs import Facade, Groups, Images, Reach


class Given:
    """Environment of 3 rows that returns what it was given.

    Args:
        observation: what ``reset`` returns.
        step: what ``step`` returns.
        **attributes: its attributes.
    """

    num_envs, num_actions = 3, 2

    def __init__(self, observation: Any, step: Any = None, **attributes: Any) -> None:
        self.observation, self.result = observation, step
        vars(self).update(attributes)

    def reset(self) -> Any:
        return self.observation

    def step(self, actions: Any) -> Any:
        return self.result


class Keyed:
    """A TensorDict, which is no Mapping."""

    def __init__(self, **parts: Any) -> None:
        self._parts = parts

    def keys(self) -> Any:
        return self._parts.keys()

    def __getitem__(self, key: str) -> Any:
        return self._parts[key]


class Dlpack:
    """Array of another library."""

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


OBSERVATION = torch.arange(6.0).reshape(3, 2)
REWARD, DONE = torch.tensor([1.0, 2, 3]), torch.tensor([True, False, True])


def test_spaces_follow_from_the_first_observation_and_num_actions() -> None:
    nested = {"b": torch.zeros(3, 4, dtype=torch.uint8), "a": Keyed(c=torch.zeros(3, 5).double())}
    spaces_ = TensorEnvs(Given(Keyed(image=torch.zeros(3, 1, 8, 8), other=nested)), 0).spaces
    shape = spaces_.observation.shape
    assert (shape.image, shape.other.a.c, shape.other.b) == ((1, 8, 8), (5,), (4,))
    assert spaces_.observation.dtype.other.b == np.uint8
    assert spaces_.observation.dtype.other.a.c == np.float32
    assert spaces_.action.shape == (2,) and np.isinf(spaces_.action.high).all()


def test_declared_spaces_come_first() -> None:
    env = Given(OBSERVATION, single_action_space=spaces.Discrete(3), action_space="not this one")
    assert TensorEnvs(env, 0).spaces.action.n == 3
    env = Given(OBSERVATION, action_space=IntBox(0, 5), observation_space=FloatBox(-9, 9, 2))
    found = TensorEnvs(env, 0).spaces
    assert found.action.n == 5 and found.observation.high[0] == 9


def test_leaves_have_the_order_of_the_space() -> None:
    for order in ("ab", "ba"):
        parts = {"a": torch.zeros(3, 1), "b": torch.ones(3, 2)}
        space = spaces.Dict({key: spaces.Box(-1, 1, parts[key].shape[1:]) for key in order})
        envs = TensorEnvs(Given({"other": None, **parts}, observation_space=space), 0)
        names = envs.spaces.observation.shape._fields
        assert [leaf.shape[1] for leaf in envs.observation] == [
            {"a": 1, "b": 2}[name] for name in names
        ]


def test_steps_of_four_values() -> None:
    extras = {"time_outs": torch.tensor([0, 0, 1]), "terminal_observation": 2 * OBSERVATION}
    step = TensorEnvs(Given(OBSERVATION, (OBSERVATION, REWARD, DONE.long(), extras)), 0).step(None)
    assert torch.equal(step.observation[0], OBSERVATION) and torch.equal(step.reward, REWARD)
    assert step.done.tolist() == [1, 0, 1] and step.timeout.tolist() == [0, 0, 1]
    assert torch.equal(step.final[0], 2 * OBSERVATION)
    plain = TensorEnvs(Given(OBSERVATION, (OBSERVATION, REWARD, DONE, {})), 0).step(None)
    assert plain.timeout is None and plain.final is None


@pytest.mark.parametrize("wrap", [torch.from_numpy, Dlpack])
def test_steps_of_five_values(wrap: Any) -> None:
    terminated, truncated = np.array([1, 0, 1], bool), np.array([0, 1, 1], bool)
    observation, reward = wrap(OBSERVATION.numpy()), wrap(REWARD.numpy())
    result = observation, reward, wrap(terminated), wrap(truncated), {"final_obs": observation}
    env = Given((observation, {}), result, metadata={"autoreset_mode": "SameStep"})
    step = TensorEnvs(env, 0).step(None)
    assert step.done.tolist() == [True, True, True]
    assert step.timeout.tolist() == [False, True, False]
    assert torch.equal(step.observation[0], OBSERVATION)
    assert torch.equal(step.final[0], OBSERVATION)


@pytest.mark.parametrize("mode", ["NextStep", "Disabled", None])
def test_other_modes_of_reset_are_refused(mode: Any) -> None:
    step = (OBSERVATION, REWARD, DONE, DONE, {})
    env = Given(OBSERVATION, step, metadata={"autoreset_mode": mode} if mode else None)
    with pytest.raises(UnsupportedVectorEnv, match="Construct it in this mode"):
        TensorEnvs(env, 0).step(None)


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        (Given(OBSERVATION, num_envs=None), TypeError, "num_envs must be the number of rows, got"),
        (Given(OBSERVATION, num_envs=4), ValueError, r"shape \[4, 2\].*got \[3, 2\]"),
        (
            Given(OBSERVATION, num_actions=None),
            TypeError,
            "must have action_space .*or num_actions",
        ),
        (Given([[1, 2]] * 3), TypeError, "must be a tensor, or an array that supports DLPack, got"),
        (
            Given({"a": OBSERVATION}, observation_space=spaces.Dict(b=spaces.Box(0, 1, (2,)))),
            ValueError,
            r"must have the key 'b'.*got \['a'\]",
        ),
        (
            Given(OBSERVATION, observation_space=spaces.Box(0, 255, (2,), np.uint8)),
            TypeError,
            "observation of Given must have a dtype that can be recorded as torch.uint8",
        ),
        (
            Given(OBSERVATION, action_space=spaces.Dict(a=spaces.Discrete(2))),
            TypeError,
            "action space of Given must be a Box, Discrete",
        ),
        (type("Bare", (), {"num_envs": 3})(), TypeError, "Bare must have the methods step"),
    ],
)
def test_bad_environments_are_refused(env: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        TensorEnvs(env, 0)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ((OBSERVATION, REWARD), TypeError, "must return .*got 2 values"),
        (None, TypeError, "must return .*got NoneType"),
        ((OBSERVATION, REWARD[:, None], DONE, {}), ValueError, r"reward of Given .*got \[3, 1\]"),
        (
            (OBSERVATION, REWARD, DONE[:1], {}),
            ValueError,
            r"done of Given .*shape \[3\].*got \[1\]",
        ),
        (
            (OBSERVATION, REWARD.to("meta"), DONE, {}),
            ValueError,
            "must be on the device .* got meta",
        ),
        ((OBSERVATION, REWARD * 1j, DONE, {}), TypeError, "reward of Given must have a dtype"),
        ((OBSERVATION, 1.0, DONE, {}), TypeError, "reward must be a tensor, or an array"),
        ((OBSERVATION, REWARD, DONE, {"time_outs": DONE[:2]}), ValueError, "time_outs of Given"),
        ((OBSERVATION, REWARD, DONE, {"final_obs": REWARD}), ValueError, "final_obs of Given"),
    ],
)
def test_bad_steps_are_refused(step: Any, error: Any, message: str) -> None:
    envs = TensorEnvs(Given(OBSERVATION, step), 0)
    with pytest.raises(error, match=message):
        envs.step(None)


def test_seeds_are_passed_to_reset_or_to_seed() -> None:
    class ByReset(Given):
        def reset(self, seed: Any = None) -> Any:
            self.given = seed
            return self.observation

    by_reset = ByReset(OBSERVATION)
    TensorEnvs(by_reset, 7)
    assert by_reset.given == 7
    a, b, c = (TensorEnvs(Reach(3), seed).observation[0] for seed in (1, 1, 2))
    assert torch.equal(a, b) and not torch.equal(a, c)


def test_environments_with_get_observations_alone_cannot_be_reset() -> None:
    class Simulator:
        num_envs, num_actions = 3, 2

        def get_observations(self) -> Any:
            return OBSERVATION, {}

        def step(self, actions: Any) -> Any: ...

    envs = TensorEnvs(Simulator(), 0)
    assert torch.equal(envs.observation[0], OBSERVATION)
    with pytest.raises(TypeError, match="must have the method reset, to be evaluated"):
        envs.reset()


def test_factories_get_rows_and_device_if_they_take_them() -> None:
    cuda = torch.device("cuda", 1)
    given: dict[str, Any] = {}

    def make(num_envs: int, device: Any = "cpu") -> Any:
        given.update(num_envs=num_envs, device=device)
        return Given(OBSERVATION)

    make_tensor_envs(make, {}, 3, 0)
    assert given == dict(num_envs=3, device="cpu")
    make_tensor_envs(make, {}, 3, 0, cuda)
    assert given == dict(num_envs=3, device=cuda)
    make_tensor_envs(lambda: Given(OBSERVATION), {}, 3, 0, cuda)
    with pytest.raises(ValueError, match=r"num_envs of Given must be 4.*Set batch_B=3"):
        make_tensor_envs(lambda: Given(OBSERVATION), {}, 4, 0)


def test_classes_of_the_protocol_are_recognized() -> None:
    def factory() -> Any: ...

    assert is_tensor_env(Reach) and is_tensor_env(Images) and is_tensor_env(Groups)
    assert not is_tensor_env(Facade) and not is_tensor_env(factory)
    factory.tensors = True  # type: ignore[attr-defined]
    assert is_tensor_env(factory)


def test_categories_begin_at_the_start_of_their_space():
    two = spaces.MultiDiscrete([2, 3], start=[5, 7])
    parts = {"kind": spaces.Discrete(4, start=-1), "two": two}
    seen = {"kind": torch.tensor([-1, 0, 2]), "two": torch.tensor([[5, 7], [6, 9], [5, 8]])}
    zeros, no = torch.zeros(3), torch.zeros(3, dtype=torch.bool)
    step = (seen, zeros, no, {"final_observation": seen})
    envs = TensorEnvs(Given(seen, step, observation_space=spaces.Dict(parts)), 0)
    read = envs.step(zeros)
    for kind, two in (envs.observation, read.observation, read.final):
        assert kind.tolist() == [0, 1, 3] and two.tolist() == [[0, 0], [1, 2], [0, 1]]


def test_observations_of_a_row_may_be_kept() -> None:
    class Reusing(Reach):
        """Returns one tensor, which it changes."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.shown = torch.zeros_like(self.place)

        def get_observations(self) -> Any:
            return self.shown.copy_(self.place)

        def step(self, actions: torch.Tensor) -> Any:
            _, *rest = super().step(actions)
            return (self.get_observations(), *rest)

    env = TensorRow(Reusing, {})
    first = env.reset()
    kept = np.array(first)
    env.step(np.ones(2, np.float32))
    assert (first == kept).all()
