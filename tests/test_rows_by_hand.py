"""Rows of docs/coming_from.md whose replacement is ours, or works inside ours, untested elsewhere.

What our own parts do is tested beside them; `test_coming_from` knows that every name is there.
"""

import pickle

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces, wrappers

from rlpyt.agents.base import AlternatingRecurrentAgentMixin, RecurrentAgentMixin
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.layers import wrappers_of
from rlpyt.envs.vector.make import make_vec
from rlpyt.models.mlp import HIDDEN_GAIN, MlpModel, init_orthogonal
from rlpyt.models.observation import flatten_observation
from rlpyt.runners import async_rl
from rlpyt.samplers.collections import AgentSamplesTlv
from rlpyt.samplers.trajectories import StepType, TimeStep
from rlpyt.utils.logging.console import Message, colorize
from rlpyt.utils.seed import stream
from rlpyt.utils.serialize import ByValue
from rlpyt.vis.style import shorten_ticks


def test_images_are_flattened():
    images = torch.arange(24, dtype=torch.uint8).reshape(2, 3, 2, 2)  # [B, C, H, W]
    flat = flatten_observation(images, (3, 2, 2))
    assert flat.tolist() == [list(range(12)), list(range(12, 24))]


class Pixels(gymnasium.Env):
    """Pictures of one colour, whose red is the number of the step."""

    observation_space = spaces.Box(0, 255, (8, 6, 3), np.uint8)
    action_space = spaces.Box(-2, 4, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.taken = 0, []
        return self._picture(), {}

    def step(self, action):
        self.t += 1
        self.taken.append(float(action[0]))
        return self._picture(), 10.0 * self.t, self.t == 3, False, {}

    def _picture(self):
        return np.full((8, 6, 3), (self.t, 0, 0), np.uint8)


WRAPPED = {
    "ClipAction": (wrappers.ClipAction, (8, 6, 3)),
    "NormalizeAction": (lambda env: wrappers.RescaleAction(env, *np.float32([-1, 1])), (8, 6, 3)),
    "ClipReward": (lambda env: wrappers.ClipReward(env, -1, 15), (8, 6, 3)),
    "ScaleReward": (lambda env: wrappers.TransformReward(env, lambda r: 0.1 * r), (8, 6, 3)),
    "FlattenObservation": (wrappers.FlattenObservation, (144,)),
    "FrameStack": (lambda env: wrappers.FrameStackObservation(env, 4), (4, 8, 6, 3)),
    "GrayScaleObservation": (wrappers.GrayscaleObservation, (8, 6)),
    "ResizeObservation": (lambda env: wrappers.ResizeObservation(env, (4, 4)), (4, 4, 3)),
    "ScaledFloatFrame": (
        lambda env: wrappers.TransformObservation(
            env, lambda x: np.float32(x) / 255, spaces.Box(0, 1, (8, 6, 3))
        ),
        (8, 6, 3),
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_of_gymnasium_work_inside_ours(name):
    wrap, shape = WRAPPED[name]
    if name == "ResizeObservation":
        pytest.importorskip("cv2")
    inner = Pixels()
    env = GymEnvWrapper(wrap(inner))
    first = env.reset()
    assert first.shape == shape == env.observation_space.shape
    _, reward, done, _ = env.step(np.array([0.5], np.float32))
    observation, _, done, _ = env.step(np.array([9.0], np.float32))
    assert not done and wrappers_of(env)[-1] is inner
    # [-2, 4] is what actions lie in; ours are within [-1, 1] of it where it was rescaled.
    assert reward == {"ClipReward": 10, "ScaleReward": 1}.get(name, 10)
    if name == "ClipAction":
        assert inner.taken == [0.5, 4.0]
    elif name == "NormalizeAction":
        assert inner.taken[0] == pytest.approx(1 + 3 * 0.5)
    elif name == "ScaledFloatFrame":
        assert observation.max() == pytest.approx(2 / 255) and observation.dtype == np.float32
    elif name == "FrameStack":
        assert observation[:, 0, 0, 0].tolist() == [0, 0, 1, 2]


def test_time_and_seeds_of_batches():
    envs = make_vec("CartPole-v1", 3, wrappers=[wrappers.TimeAwareObservation])
    envs.seed([4, 5, 4])
    first = envs.reset()
    assert first.shape == (3, 5) and np.array_equal(first[0], first[2])
    assert not np.array_equal(first[0], first[1])
    envs.close()
    envs.close()


def test_streams_of_other_names_differ_and_functions_travel_by_value():
    assert stream(1, "mine").random() == stream(1, "mine").random()
    assert stream(1, "mine").random() != stream(1, "yours").random()
    assert pickle.loads(pickle.dumps(ByValue(lambda x: x + 1))).value(2) == 3


def test_messages_are_coloured_and_mark_blocks(capsys):
    assert "lagom" in colorize("lagom", "green", bold=True)

    @Message("training")
    def work():
        return 7

    with Message("training"):
        assert work() == 7
    assert capsys.readouterr().out.count("training") >= 2


def test_ticks_are_short():
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    matplotlib.use("agg")
    axes = Figure().subplots()
    axes.set(xlim=(0, 3e6), ylim=(0, 40_000))
    shorten_ticks(axes.xaxis, 3, integer=True)
    shorten_ticks(axes.yaxis, 4)
    texts = [
        [axis.get_major_formatter()(value, 0) for value in axis.get_majorticklocs()]
        for axis in (axes.xaxis, axes.yaxis)
    ]
    assert texts == [["0", "1M", "2M", "3M"], ["0", "10k", "20k", "30k", "40k"]]


def test_rlpyts_own_changes():
    assert issubclass(AlternatingRecurrentAgentMixin, RecurrentAgentMixin)
    assert "timeout_value" in AgentSamplesTlv._fields
    for name, n_args in (("run_async_sampler", 5), ("memory_copier", 4)):
        with pytest.raises(NotImplementedError, match=name):
            getattr(async_rl, name)(*[None] * n_args)


def test_whole_models_are_initialised_orthogonally():
    model = MlpModel(4, [3], 2)
    init_orthogonal(model, HIDDEN_GAIN)
    weight = next(model.parameters()).detach()  # [3, 4]
    torch.testing.assert_close(weight @ weight.T, HIDDEN_GAIN**2 * torch.eye(3))


def test_time_steps_say_what_they_are():
    fields = dict(observation=None, reward=1.0, done=True)
    end = TimeStep(StepType.LAST, info={"timeout": True}, **fields)
    assert end.last() and end.time_limit() and not (end.terminal() or end.first() or end.mid())
    assert TimeStep(StepType.LAST, info={}, **fields).terminal()
