"""Where environments get their actions from: the only place that asks an agent to act."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import leaves_of, torchify_buffer
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.seed import stream

Array = np.ndarray[Any, Any]

# What environments and agent exchange at every step, leaves [B, ...], written in place. After a
# done, action and reward are null: they are the previous ones of the next step.
StepRecord = namedarraytuple(
    "StepRecord", ["observation", "action", "reward", "done", "env_info", "agent_info"]
)


class ActionNoise:
    """The randomness of actions, from streams that belong to environments.

    Each environment draws its own block for T steps, so the same environment gets the same noise
    whoever runs it, beside whatever others.
    """

    def __init__(self, seed: int, purpose: str, env_ranks: Sequence[int]) -> None:
        self._streams = [stream(seed, purpose, rank) for rank in env_ranks]

    def draw(self, T: int, spec: Any) -> Array | None:
        """Noise for the next T steps, [T, B, *spec.shape] float32; ``None`` if there is no spec."""
        if spec is None:
            return None
        noise = np.empty((T, len(self._streams), *spec.shape), np.float32)
        for b, rng in enumerate(self._streams):
            draw = rng.random if spec.kind == "uniform" else rng.standard_normal
            noise[:, b] = draw((T, *spec.shape), dtype=np.float32)
        return noise

    def state_dict(self) -> list[Any]:
        """States of the streams."""
        return [rng.bit_generator.state for rng in self._streams]

    def load_state_dict(self, states: list[Any]) -> None:
        """Go on from saved states."""
        for rng, state in zip(self._streams, states, strict=True):
            rng.bit_generator.state = state


class LocalActions:
    """Actions from an agent in this process.

    Args:
        agent: the agent; its memory's group 0 means these environments.
        step: the record to read from and write to.
        noise: where sampled actions get their randomness.
    """

    def __init__(self, agent: Any, step: Any, noise: ActionNoise) -> None:
        self.agent = agent
        self.noise = noise
        self._step = step
        self._inputs = torchify_buffer((step.observation, step.action, step.reward))
        self._action_leaves = leaves_of(step.action)
        self._info_leaves = leaves_of(step.agent_info)
        self._done_rows: list[int] = []
        self._noise: Array | None = None
        self._noise_torch: torch.Tensor | None = None
        self._policy: Any = None

    def begin(self, T: int) -> None:
        """Before a batch of T steps."""
        self._policy = self.agent.fast_policy()
        self._noise = self.noise.draw(T, self.agent.noise_spec)
        if self._noise is not None:
            self._noise_torch = torch.from_numpy(self._noise)
        elif self._policy is not None:
            self._policy = None  # without noise of its own, only torch's generator will do

    def reset_rows(self, rows: list[int]) -> None:
        """These environments begin an episode: their memory is cleared before the next action."""
        self._done_rows = rows

    def act(self, t: int) -> None:
        """Fill in the record's action and agent_info for step t of the batch."""
        if self._done_rows:
            for b in self._done_rows:
                self.agent.reset_one(b)
            self._done_rows = []
        if self._policy is not None:
            action, parameters, value = self._policy(self._step.observation, self._noise[t])  # type: ignore[index]
            self._action_leaves[0][...] = action
            for own, new in zip(self._info_leaves, (*parameters, value)):
                own[...] = new
            return
        if self._noise_torch is not None:
            self.agent.set_noise(self._noise_torch[t])
        action, agent_info = self.agent.step(*self._inputs)
        for own, new in zip(self._action_leaves, leaves_of(action)):
            own[...] = new.numpy()
        for own, new in zip(self._info_leaves, leaves_of(agent_info)):
            own[...] = new.numpy()

    def value(self, observation: Any) -> Array:
        """V(observation) [B], given the record's action and reward as the previous ones."""
        _, action, reward = self._inputs
        values: Array = self.agent.value(torchify_buffer(observation), action, reward).numpy()
        return values
