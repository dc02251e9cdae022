"""Sources of actions: an agent in this process, an agent in a server, random actions.

Samplers call agents to act only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import torch

from rlpyt.agents.base import BaseAgent, FastPolicy
from rlpyt.processes.child import Abandoned
from rlpyt.processes.status import ACTIVITY, ROW, STEPPING
from rlpyt.samplers.env_batch import EnvBatch, null_rows
from rlpyt.spaces.action_mask import action_mask_of, next_valid
from rlpyt.utils.buffer import (
    NumpyArrays,
    buffer_func,
    leaves_of,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.seed import stream

if TYPE_CHECKING:
    from multiprocessing.synchronize import Semaphore

    from rlpyt.distributions.base import NoiseSpec
    from rlpyt.samplers.tiles import ActingAgent

Array = np.ndarray[Any, Any]

# Data exchanged between environments and agent at each step, leaves [B, ...], updated in place.
# Action and reward become the previous action and reward of the next step, so they are null after
# a done.
StepRecord = namedarraytuple(
    "StepRecord", ["observation", "action", "reward", "done", "env_info", "agent_info"]
)
# The fields that are shared with an action server.
StepBuffer = namedarraytuple(
    "StepBuffer", ["observation", "action", "reward", "done", "agent_info"]
)


class ActionNoise:
    """Noise for sampling actions, from a separate random stream for each environment.

    Each environment draws its own block for T steps, so its noise does not depend on the layout of
    the sampler.
    """

    def __init__(self, seed: int, purpose: str, env_ranks: Sequence[int]) -> None:
        self._streams = [stream(seed, purpose, rank) for rank in env_ranks]

    def draw(self, T: int, spec: NoiseSpec | None) -> Array | None:
        """Draw noise for T steps, [T, B, *spec.shape] float32; ``None`` without a specification."""
        if spec is None:
            return None
        noise = np.empty((T, len(self._streams), *spec.shape), np.float32)
        for b, rng in enumerate(self._streams):
            draw = rng.random if spec.kind == "uniform" else rng.standard_normal
            noise[:, b] = draw((T, *spec.shape), dtype=np.float32)
        return noise

    def state_dict(self) -> list[Any]:
        """Return the states of the streams."""
        return [rng.bit_generator.state for rng in self._streams]

    def load_state_dict(self, states: list[Any]) -> None:
        """Load saved states."""
        for rng, state in zip(self._streams, states, strict=True):
            rng.bit_generator.state = state


class HeldNoise(ActionNoise):
    """Normal noise that each environment keeps for n steps, or until its episode ends.

    n has a truncated zeta distribution: P(n) is proportional to n**-mu for n = 1 to ``LONGEST``.

    Args:
        seed, purpose, env_ranks: see `ActionNoise`.
        mu: exponent.
    """

    LONGEST = 16

    def __init__(self, seed: int, purpose: str, env_ranks: Sequence[int], mu: float) -> None:
        super().__init__(seed, purpose, env_ranks)
        self._limits = self.limits(mu)
        self._held: Array = np.zeros((len(env_ranks), 1), np.float32)  # [B, A] after the first step
        self._left = np.zeros(len(env_ranks), np.int64)  # [B], further steps of the held noise

    @classmethod
    def limits(cls, mu: float) -> list[float]:
        """Return ascending numbers: n - 1 of them are below a standard normal number."""
        weight = np.arange(1.0, cls.LONGEST + 1) ** -mu
        above = weight[::-1].cumsum()[-2::-1] / weight.sum()  # P(n > 1), P(n > 2), ...
        return [-NormalDist().inv_cdf(p) for p in above]

    def draw(self, T: int, spec: NoiseSpec | None) -> Array:
        """Draw noise and n for T steps; return the noise, in which ``hold`` replaces rows.

        A further normal number of each step determines n, if the noise of this step is used.
        """
        assert spec is not None
        drawn = super().draw(T, spec._replace(shape=(spec.shape[0] + 1,)))
        assert drawn is not None
        self._n_steps = 1 + np.searchsorted(self._limits, drawn[..., -1])  # [T, B]
        return np.ascontiguousarray(drawn[..., :-1])

    def hold(self, t: int, noise: Array, done: Array) -> None:
        """Replace the noise [B, A] of step t by that of the step before where it is held.

        Args:
            t: index of the step.
            noise: noise that was drawn for this step; changed in place.
            done: [B], True where an episode starts, with new noise.
        """
        new = done | (self._left == 0)
        self._left = np.where(new, self._n_steps[t], self._left) - 1
        self._held = np.where(new[:, None], noise, self._held)
        noise[...] = self._held

    def state_dict(self) -> list[Any]:
        """Return the states of the streams, each with the noise that its environment holds."""
        rows = zip(super().state_dict(), self._held.tolist(), self._left.tolist(), strict=True)
        return [{**state, "held": held, "left": left} for state, held, left in rows]

    def load_state_dict(self, states: list[Any]) -> None:
        """Load saved states, also those of an `ActionNoise`."""
        super().load_state_dict(states)
        self._held = np.array([state.get("held", [0]) for state in states], np.float32)
        self._left = np.array([state.get("left", 0) for state in states])


def training_noise(agent: ActingAgent, seed: int, env_ranks: Sequence[int]) -> ActionNoise:
    """Return the noise of training batches."""
    if agent.noise_hold is None:
        return ActionNoise(seed, "action", env_ranks)
    return HeldNoise(seed, "action", env_ranks, agent.noise_hold)


class LocalPolicy:
    """Actions from an agent in this process, for one group of environments.

    It is used by collectors that have the agent, and by the action server.

    Args:
        agent: the agent.
        step: step record [B]. ``done`` marks rows in which a new episode starts; their recurrent
            state is cleared before acting.
        noise: noise for sampling actions.
        samples: columns of the batch in which bootstrap values are recorded; ``None``: record none.
        group: index of the group, for the agent's recurrent memory.
    """

    def __init__(
        self,
        agent: ActingAgent,
        step: NamedArrayTuple,
        noise: ActionNoise,
        samples: NamedArrayTuple | None = None,
        group: int = 0,
    ) -> None:
        self.agent = agent
        self.noise = noise
        self.group = group
        self._step = step
        self._inputs = torchify_buffer((step.observation, step.action, step.reward))
        self._action_leaves = leaves_of(step.action)
        self._has_parts = isinstance(step.action, tuple)
        self._info_leaves = leaves_of(step.agent_info)
        self._noise: Array | None = None
        self._noise_torch: torch.Tensor | None = None
        self._policy: FastPolicy | None = None
        self._has_state = agent.recurrent or type(agent).reset_one is not BaseAgent.reset_one
        # Code of users may keep what it reads, such as the last observation.
        model: Any = getattr(agent, "model", None)
        parts = (agent, *getattr(model, "modules", tuple)())
        known = all(type(x).__module__.startswith(("rlpyt.", "torch.")) for x in parts)
        self._read: Any = tuple if known else _copied  # a tuple stays as it is
        if isinstance(noise, HeldNoise):
            self._hold = noise.hold
            self.act = self._act_with_held_noise  # type: ignore[method-assign]
        self.write_into(samples)

    def write_into(self, samples: NamedArrayTuple | None) -> None:
        """Record bootstrap values in these columns from now on; ``None``: record none."""
        self._samples, agent = samples, None if samples is None else samples.agent
        # Arrays, or named tuples of arrays.
        self._bootstrap: Any = getattr(agent, "bootstrap_value", None)
        self._timeout_value: Any = getattr(agent, "timeout_value", None)

    def begin(self, T: int) -> None:
        """Draw noise for a batch of T steps."""
        self.agent.set_group(self.group)
        self._policy = self.agent.fast_policy()
        self._noise = self.noise.draw(T, self.agent.noise_spec)
        self._noise_torch = None if self._noise is None else torch.from_numpy(self._noise)
        if self._noise is None:
            self._policy = None  # actions are drawn from torch's generator
        if self._timeout_value is not None:
            self._timeout_value[...] = 0

    def act(self, t: int) -> bool:
        """Write action and agent_info of step t into the record; return True."""
        if self._policy is not None:
            action, parameters, value = self._policy(self._step.observation, self._noise[t])  # type: ignore[index]
            if self._has_parts:
                for leaf, new in zip(self._action_leaves, leaves_of(action)):
                    leaf[...] = new
            else:
                self._action_leaves[0][...] = action
            for leaf, new in zip(self._info_leaves, (*parameters, value)):
                leaf[...] = new
            return True
        self.agent.set_group(self.group)
        if self._has_state:
            for b in np.flatnonzero(self._step.done).tolist():
                self.agent.reset_one(b)
        if self._noise_torch is not None:
            self.agent.set_noise(self._noise_torch[t])
        action, agent_info = self.agent.step(*self._read(self._inputs))
        for leaf, new in zip(self._action_leaves, leaves_of(action)):
            leaf[...] = new.numpy()
        for leaf, new in zip(self._info_leaves, leaves_of(agent_info)):
            leaf[...] = new.numpy()
        return True

    def _act_with_held_noise(self, t: int) -> bool:
        self._hold(t, self._noise[t], self._step.done)  # type: ignore[index]
        return LocalPolicy.act(self, t)

    def record_timeout_values(self, t: int, rows: Sequence[int], observation: NumpyArrays) -> None:
        """Record V of the final observations of episodes that step t truncated.

        The recurrent state still belongs to these episodes; the next ``act`` clears it.

        Args:
            t: index of the step.
            rows: rows of the environments.
            observation: observations [B, ...], with the true final ones in these rows.
        """
        if self._samples is None or self._timeout_value is None or not len(rows):
            return
        inputs = (observation, self._samples.agent.action[t], self._samples.env.reward[t])
        if self._has_state:  # of all rows
            self._timeout_value[t, rows] = self._value(torchify_buffer(inputs))[rows]
        else:
            chosen = buffer_func(inputs, lambda leaf: leaf[rows])
            self._timeout_value[t, rows] = self._value(torchify_buffer(chosen))

    def finish(self) -> None:
        """Record V of the observations after the last step."""
        if self._bootstrap is not None:
            self._bootstrap[...] = self._value(self._inputs)

    def _value(self, inputs: tuple[Any, ...]) -> Any:
        """Return V, [B] or [B, ...], or a named tuple of them."""
        self.agent.set_group(self.group)
        return numpify_buffer(self.agent.value(*self._read(inputs)))


def _copied(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(buffer_func(x, torch.clone) for x in inputs)


class WorkerSemaphores(Protocol):
    """Protocol of the two semaphores of a worker, also provided by samplers for rlpyt (2019)."""

    @property
    def obs_ready(self) -> Semaphore:
        """Return the semaphore that the worker releases after writing its rows."""

    @property
    def act_ready(self) -> Semaphore:
        """Return the semaphore that the server releases after writing actions."""


class ServerChannel(NamedTuple):
    """Memory and semaphores shared by one worker and the action server."""

    obs_ready: Semaphore  # released by the worker after writing its rows of the record
    act_ready: Semaphore  # released by the server after writing actions
    step: NamedArrayTuple | None = None  # StepBuffer [B]: record of the training environments
    final_observation: NumpyArrays | None = None  # [B, ...], of truncated episodes
    timed_out: Array | None = None  # [B] bool: rows of final_observation written in this step
    abandoned: Array | None = None  # [1] bool: the master has given up, so the worker exits
    eval_step: NamedArrayTuple | None = None  # record of the evaluation environments

    @property
    def stop_eval(self) -> SimpleNamespace:
        """Return rlpyt's (2019) flag for custom collectors; it is never set here."""
        return SimpleNamespace(value=False)


class ServedPolicy:
    """Actions from an agent in the action server: the worker's side of the exchange.

    Per batch the server reads T + 1 observations and writes T actions, as in rlpyt (2019).
    """

    def __init__(self, channel: WorkerSemaphores, evaluation: bool = False) -> None:
        self._post, self._wait = channel.obs_ready.release, channel.act_ready.acquire
        self._stop_eval: Any = None
        if not isinstance(channel, ServerChannel):  # in a sampler written for rlpyt (2019)
            self._stop_eval = getattr(channel, "stop_eval", None)
            channel = ServerChannel(channel.obs_ready, channel.act_ready)
        self._final = None if evaluation else channel.final_observation
        self._timed_out = channel.timed_out
        # A memoryview: read faster than an array.
        self._abandoned: Any = (False,) if channel.abandoned is None else channel.abandoned.data
        self._evaluation = evaluation

    def write_into(self, samples: NamedArrayTuple | None) -> None:
        """Do nothing: the server records values."""

    def begin(self, T: int) -> None:
        """Do nothing: the server draws noise."""

    def act(self, t: int) -> bool:
        """Wait for the server to write action and agent_info into the record.

        Returns:
            False if the server has ended the evaluation, and has written no actions.

        Raises:
            Abandoned: the master has given up.
        """
        self._post()
        self._wait()
        if self._abandoned[0]:
            raise Abandoned
        # ``stop_eval.value`` may be any false value, such as 0.
        return not (self._evaluation and self._stop_eval is not None and self._stop_eval.value)

    def record_timeout_values(self, t: int, rows: Sequence[int], observation: NumpyArrays) -> None:
        """Copy final observations for the server, which computes V before it acts again."""
        if self._final is not None and self._timed_out is not None:
            for b in rows:
                self._final[b] = observation[b]
                self._timed_out[b] = True

    def finish(self) -> None:
        """Signal the server that the last observations are written."""
        self._post()


class RandomPolicy:
    """Random actions, for a different number of steps in each environment.

    Single environments take the first n of T steps and are then held. Rows of a vector environment
    cannot be held, so they take the last n, after a reset.

    Args:
        env_batch: the environments [B].
        step: step record [B] to write actions into.
        seed: seed of the run.
        env_ranks: global indices of the environments.
        n_steps: number of steps of each environment [B].
    """

    def __init__(
        self,
        env_batch: EnvBatch,
        step: NamedArrayTuple,
        seed: int,
        env_ranks: Sequence[int],
        n_steps: Sequence[int],
    ) -> None:
        self._env_batch = env_batch
        self._step = step
        self._seed = seed
        self._env_ranks = env_ranks
        self._n_steps = np.asarray(n_steps)
        self._T = 0

    def begin(self, T: int) -> None:
        """Prepare T steps; T is at least the largest of ``n_steps``."""
        self._T = T

    def act(self, t: int) -> bool:
        """Write random actions of step t into the record; return True."""
        env_batch, first_step = self._env_batch, self._T - self._n_steps
        env_batch.release()
        if env_batch.can_hold:
            env_batch.hold(np.flatnonzero(self._n_steps <= t).tolist())
        else:
            env_batch.hold(np.flatnonzero(first_step > t).tolist())
            env_batch.reset(self._step.observation, np.flatnonzero(first_step == t).tolist())
        masks = action_mask_of(self._step.observation)
        for b in set(range(env_batch.B)) - env_batch.held:
            mask = None if masks is None else masks[b]
            if mask is not None:  # an error names the step that returned it
                env_batch.progress[ROW], env_batch.progress[ACTIVITY] = b, STEPPING
            action = env_batch.sample_action(b, self._seed, self._env_ranks[b], mask)
            self._step.action[b] = action
        if masks is not None and not env_batch.can_hold:  # held rows are stepped, too
            for b in env_batch.held:
                action = next_valid(env_batch.spaces.action, self._step.action[b], masks[b])
                self._step.action[b] = action
        return True

    def finish(self) -> None:
        """Reset rows of vector environments that took no step, and release all."""
        if not self._env_batch.can_hold:
            rows, step = np.flatnonzero(self._n_steps == 0).tolist(), self._step
            self._env_batch.reset(step.observation, rows)
            null_action = self._env_batch.spaces.action.null_value()
            null_rows(step.action, step.reward, null_action, rows)
        self._env_batch.release()
