"""Sampler of vector environments whose tensors stay on their device.

The environment is a batched torch program or a simulator on a GPU (`rlpyt.envs.tensor`). It steps
all rows in this process, the agent acts on its tensors, and the batch [T, B] is allocated on its
device. No step reads a number on the host: rewards and dones are copied there once per batch, for
the statistics of trajectories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import BaseAgent
from rlpyt.algos.episodes import null_after_done
from rlpyt.envs.tensor import TensorEnvs, make_tensor_envs
from rlpyt.envs.vector.base import vector_info
from rlpyt.errors import NonFiniteError
from rlpyt.processes.status import describe_env
from rlpyt.samplers.buffer import allocate_samples
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.env_batch import bounds_of
from rlpyt.samplers.env_worker import agent_memory, load_agent_memory, traj_info_factory
from rlpyt.samplers.environments import close_quietly
from rlpyt.samplers.evaluation import EvalCollector
from rlpyt.samplers.in_process import InProcess
from rlpyt.samplers.layout import Hardware
from rlpyt.samplers.policy_source import HeldNoise
from rlpyt.samplers.sampler import Sampler
from rlpyt.samplers.step_checks import FINITE_REMEDY, first_not_finite
from rlpyt.samplers.surroundings import Surroundings, mark_torch_seed
from rlpyt.samplers.traj_stats import BatchTrajStats
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer
from rlpyt.utils.collections import AttrDict, NamedArrayTuple
from rlpyt.utils.completion import warn_of_lost_state
from rlpyt.utils.seed import env_seed
from rlpyt.utils.tensor import generator_on, load_generator


class RowNoise:
    """Noise of the actions of n rows, drawn by a torch generator on their device.

    Args:
        seed: seed of the generator.
        n: number of rows, B.
        device: their device.
    """

    def __init__(self, seed: int, n: int, device: torch.device) -> None:
        self.n, self.device = n, device
        self.generator = generator_on(device, seed)

    def draw(self, T: int, spec: Any) -> Any:
        """Draw noise for T steps, [T, B, *spec.shape]; ``None`` without a specification."""
        if spec is None:
            return None
        draw = torch.rand if spec.kind == "uniform" else torch.randn
        return draw((T, self.n, *spec.shape), generator=self.generator, device=self.device)

    def start(self, seed: int) -> None:
        """Begin the stream of another seed, in new episodes."""
        if self.generator is not None:
            self.generator.manual_seed(seed)

    def reset_rows(self, done: Tensor) -> None:
        """Hook: episodes have ended in the rows where ``done`` [B] is true."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator."""
        return {"generator": None if self.generator is None else self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        load_generator(self.generator, state["generator"])


class HeldRowNoise(RowNoise):
    """Normal noise that each row keeps for several steps; see `HeldNoise`.

    Args:
        seed, n, device: see `RowNoise`.
        mu: exponent of the distribution of the number of steps.
    """

    def __init__(self, seed: int, n: int, device: torch.device, mu: float) -> None:
        super().__init__(seed, n, device)
        self._limits = torch.tensor(HeldNoise.limits(mu), device=device)
        self._left = torch.zeros(n, dtype=torch.int64, device=device)
        self._held = torch.zeros(n, 1, device=device)  # [B, A] after the first step

    def draw(self, T: int, spec: Any) -> HeldRowNoise:
        """Draw noise and numbers of steps for T steps; return itself, the noise by step."""
        drawn = super().draw(T, spec._replace(shape=(spec.shape[0] + 1,)))
        self._drawn = drawn[..., :-1]
        self._n_steps = 1 + torch.searchsorted(self._limits, drawn[..., -1].contiguous())
        return self

    def __getitem__(self, t: int) -> Tensor:
        """Return the noise [B, A] of step t; steps are read once, in order."""
        new = self._left == 0
        self._left = torch.where(new, self._n_steps[t], self._left) - 1
        self._held = torch.where(new.unsqueeze(1), self._drawn[t], self._held)
        return self._held

    def start(self, seed: int) -> None:
        """Begin the stream of another seed, in new episodes."""
        super().start(seed)
        self._left.zero_()

    def reset_rows(self, done: Tensor) -> None:
        """Begin with new noise where ``done`` [B] is true."""
        self._left.masked_fill_(done, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator, the noise of the rows and the steps it is kept."""
        held = {"held": self._held.to("cpu", copy=True), "left": self._left.to("cpu", copy=True)}
        return super().state_dict() | held

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``, also from that of `RowNoise`."""
        super().load_state_dict(state)
        if "held" in state:
            self._held = torch.as_tensor(state["held"]).to(self.device, copy=True)
            self._left.copy_(torch.as_tensor(state["left"]))


class TensorCollector:
    """Steps the environments, and writes a batch on their device.

    Args:
        envs: the environments, B rows.
        agent: the agent.
        rows: ``Samples`` [T + 1, B] on the device; the batch is the first T rows.
        new_info: function that makes an empty ``TrajInfo``.
        seed: seed of action noise.

    Attributes:
        samples: the batch, ``Samples`` [T, B].
        noise: noise of the actions.
        check_finite: True to end the run if observations or rewards are NaN or infinite. A subclass
            may set it to False.
    """

    mid_batch_reset = True
    records_final_observations = holds_noise = True
    check_finite = True

    def __init__(
        self,
        envs: TensorEnvs,
        agent: BaseAgent,
        rows: NamedArrayTuple,
        new_info: Callable[[], Any],
        seed: int,
    ) -> None:
        self.envs, self.agent, self._new_info = envs, agent, new_info
        self.T = rows.env.done.shape[0] - 1
        self.samples: Any = rows[: self.T]
        self._observation = rows.env.observation  # [T + 1, B, ...]
        self._final: Any = getattr(self.samples.env, "final_observation", None)
        self._given: list[int] = []  # steps of the batch that returned final observations
        device, space = envs.device, envs.spaces.action
        self._null_action = torch.as_tensor(space.null_value(), device=device)
        self._to_env = _to_env(space, device)
        self.noise = RowNoise(seed, envs.n, device)
        self.begin(envs.observation)

    def begin(self, observation: list[Tensor]) -> None:
        """Start episodes in all rows, with these first observations, leaves [B, ...]."""
        self._n = self.T  # steps of the last batch
        _write(self._observation[self._n], observation)
        B, device = self.envs.n, self.envs.device
        self._prev_action = self._null_action.expand(B, *self._null_action.shape).clone()
        self._prev_reward = torch.zeros(B, device=device)
        info = self._new_info()
        self._stats = BatchTrajStats([info] * B, info._discount)

    def collect_batch(self, T: int | None = None) -> list[Any]:
        """Fill T rows of the batch, by default all; return the trajectories that ended.

        Raises:
            NonFiniteError: an observation or a reward is NaN or infinite.
        """
        T = self.T if T is None else T
        self.run(T)
        env = self.samples[:T].env
        if self.check_finite:
            self._check_finite(T)
        self._record_truncations(T)
        reward, done = numpify_buffer((env.reward, env.done))  # the copy to the host
        return self._stats.add(reward, done, self._new_info)

    def run(self, T: int) -> None:
        """Take T steps and record them, without reading anything on the host."""
        agent, envs, observation, to_env = self.agent, self.envs, self._observation, self._to_env
        own, env, reset_rows = self.samples.agent, self.samples.env, agent.reset_rows
        end_noise = self.noise.reset_rows
        prev_action, prev_reward = self._prev_action, self._prev_reward
        agent.set_group(0)
        noise = self.noise.draw(T, agent.noise_spec)  # None: the agent draws it
        self._given.clear()
        _write(observation[0], leaves_of(observation[self._n]))
        own.prev_action[0] = prev_action
        env.prev_reward[0] = prev_reward
        for t in range(T):
            if noise is not None:
                agent.set_noise(noise[t])
            chosen, agent_info = agent.step(observation[t], prev_action, prev_reward)
            action, reward, done = own.action[t], env.reward[t], env.done[t]
            action.copy_(chosen)
            _write(own.agent_info[t], leaves_of(agent_info))
            step = envs.step(to_env(chosen))
            # Copied at once: the environment may overwrite what it has returned.
            _write(observation[t + 1], step.observation)
            reward.copy_(step.reward)
            done.copy_(step.done)
            self._note_truncations(t, step.timeout, step.final)
            ended = done.view(-1, *(1,) * (action.dim() - 1))
            prev_action = torch.where(ended, self._null_action, action)
            prev_reward = reward.masked_fill(done, 0)
            end_noise(done)
            reset_rows(done)
        self._n, self._prev_action, self._prev_reward = T, prev_action, prev_reward
        if "bootstrap_value" in own._fields:
            value = agent.value(observation[T], prev_action, prev_reward)
            own.bootstrap_value[0] = value

    def _note_truncations(self, t: int, timeout: Tensor | None, final: list[Tensor] | None) -> None:
        """Record which rows step t truncated, and the final observations."""
        env = self.samples.env
        if timeout is None:
            env.env_info.timeout[t] = False
        else:
            torch.logical_and(timeout, env.done[t], out=env.env_info.timeout[t])
        if final is not None:
            if self._final is None:
                self._final = buffer_func(env.observation, torch.empty_like)
            _write(self._final[t], final)
            self._given.append(t)

    def _record_truncations(self, T: int) -> None:
        """Record final observations of truncated episodes, and their values.

        Where the environment has returned no final observation, the last one before the reset takes
        its place, as in rsl_rl: the return is r + gamma V(s_t).
        """
        own, env = self.samples.agent, self.samples.env
        timeout = env.env_info.timeout
        missing = sorted({*range(T)} - {*self._given})
        if "timeout_value" in own._fields:
            value = self.agent.recorded_value(own.agent_info, env.observation)
            own.timeout_value.copy_(torch.where(timeout, value, 0))
            if self._given:
                known = timeout.clone()
                known[missing] = False
                where = known.nonzero(as_tuple=True)  # (T_idxs, B_idxs) [K]
                if len(where[0]):
                    own.timeout_value[where] = self._final_values(where)
        if "final_observation" in env._fields:
            pairs = zip(leaves_of(env.final_observation), leaves_of(self._observation), strict=True)
            for final, observation in pairs:
                final[missing] = observation[missing]
                row = env.done[T - 1].view(-1, *(1,) * (final.dim() - 2))
                final[T - 1] = torch.where(row, final[T - 1], observation[T])

    def _final_values(self, where: tuple[Tensor, ...]) -> Any:
        """Return V of K final observations [K], with the recurrent state before them."""
        agent, own, env = self.agent, self.samples.agent, self.samples.env
        kept = agent.prev_rnn_state
        if agent.recurrent:
            prev_action = null_after_done(own.prev_action, env.done, self._null_action)
            prev_reward = null_after_done(env.prev_reward, env.done)
            inputs = env.observation[where], prev_action[where], prev_reward[where]
            states = own.agent_info.prev_rnn_state[where]
            state = buffer_func(states, lambda x: x.transpose(0, 1).contiguous())  # [N, K, H]
            agent.prev_rnn_state = agent.greedy(*inputs, state)[1]
        value = agent.value(self._final[where], own.action[where], env.reward[where])
        if agent.recurrent:
            agent.prev_rnn_state = kept
        return value

    def _check_finite(self, T: int) -> None:
        """Raise NonFiniteError if an observation or reward of the batch is NaN or infinite."""
        env, next_observation = self.samples[:T].env, self._observation[T]
        leaves = leaves_of((self._observation[: T + 1], env.reward))
        finite = [torch.isfinite(x).all() for x in leaves if x.is_floating_point()]
        if not torch.stack(finite).all():
            t, b, message = first_not_finite(*numpify_buffer((env, next_observation)))
            raise NonFiniteError(f"{message}, in row {b} after step {t}. {FINITE_REMEDY}")

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the rows and of the random generator, without the environment."""
        state = [*leaves_of(self._observation[self._n]), self._prev_action, self._prev_reward]
        return {
            "inputs": [x.to("cpu", copy=True) for x in state],
            "stats": self._stats.state_dict(),
            **self.noise.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        *observation, prev_action, prev_reward = state["inputs"]
        _write(self._observation[self._n], [torch.as_tensor(x) for x in observation])
        self._prev_action.copy_(torch.as_tensor(prev_action))
        self._prev_reward.copy_(torch.as_tensor(prev_reward))
        self.noise.load_state_dict(state)
        self._stats.load_state_dict(state["stats"])


@dataclass
class TensorWorker:
    """Environments, agent and collectors of a `TensorSampler`, with the calls of an `EnvWorker`.

    Attributes:
        collector: collector of training batches.
        make_eval: function that makes the collector of evaluations.
        eval_quota: episodes that each evaluation environment runs; ``None``: no limit.
        eval_deterministic: take the most likely actions in evaluation.
        n_first_steps: steps to take before the first batch.
        first_rank: global rank of the first row.
        n_eval: number of evaluation environments.
    """

    collector: TensorCollector
    make_eval: Callable[[], TensorCollector]
    eval_quota: int | None
    eval_deterministic: bool
    n_first_steps: int
    first_rank: int
    n_eval: int
    eval_collector: TensorCollector | None = None
    agent_inputs = traj_infos = None
    _itr = 0

    def __post_init__(self) -> None:
        self.agent = self.collector.agent

    @torch.inference_mode()
    def collect(self, itr: int, slot: int = 0) -> list[Any]:
        """Fill a batch; return finished trajectories."""
        self._itr = itr
        self.agent.sample_mode(itr)
        device, T = self.collector.envs.device, self.collector.T
        if device.type != "cpu" and self.agent.device != device:
            raise ValueError(
                f"the agent must be on the device of the environments, {device}, got "
                f"{self.agent.device}. Train there: --device {device}, or "
                f"affinity=dict(cuda_idx={device.index})."
            )
        for t in range(0, self.n_first_steps, T):
            self.collector.collect_batch(min(T, self.n_first_steps - t))
        self.n_first_steps = 0
        return self.collector.collect_batch()

    @torch.inference_mode()
    def evaluate(self, itr: int, n_steps: int, first: bool) -> tuple[list[Any], bool]:
        """Start an evaluation, or continue it; see `EnvWorker.evaluate`."""
        self._itr = itr
        if first:
            self.agent.deterministic = self.eval_deterministic
            self.agent.eval_mode(itr)
            if self.eval_collector is None:
                self.eval_collector = self.make_eval()
            collector = self.eval_collector
            collector.begin(collector.envs.reset())
            self._missing = np.full(collector.envs.n, self.eval_quota or np.inf)
        assert self.eval_collector is not None
        infos = self.eval_collector.collect_batch(n_steps)
        done = numpify_buffer(self.eval_collector.samples.env.done[:n_steps])
        counted = []
        for b, info in zip(np.nonzero(done.T)[0], infos, strict=True):
            if self._missing[b] > 0:
                self._missing[b] -= 1
                counted.append(info)
        return counted, not (self._missing > 0).any()

    def where(self) -> str:
        """Return what the worker does, for messages."""
        return f"TensorSampler, {type(self.collector.envs.env).__name__}, iteration {self._itr}"

    def state_dict(self) -> dict[str, Any]:
        """Return the state of environments, agent and random generators."""
        env, evaluation = self.collector.envs.env, None
        has_state = hasattr(env, "state_dict") and hasattr(env, "load_state_dict")
        if not has_state:
            warn_of_lost_state(env, "A resumed run starts new episodes.")
        elif (own := self.eval_collector) is not None:
            state = {"env": own.envs.env.state_dict(), "noise": own.noise.state_dict()}
            evaluation = {"n": own.envs.n, **state}
        return {
            "envs": [env.state_dict() if has_state else None],
            "evaluation": evaluation,
            "statistics": self.statistics(),
            "collector": self.collector.state_dict(),
            "agent": agent_memory(self.agent),
        }

    def statistics(self) -> list[Any]:
        """Return nothing: tensor environments have no statistics apart from their state."""
        return []

    def load_statistics(self, statistics: list[Any]) -> None:
        """Do nothing."""

    @torch.inference_mode()
    def load_state_dict(self, state: dict[str, Any]) -> bool:
        """Load a state; return True if the environment continues exactly."""
        (saved,) = state["envs"]
        if saved is None:
            return False
        self.collector.envs.env.load_state_dict(saved)
        self.collector.load_state_dict(state["collector"])
        load_agent_memory(self.agent, state["agent"])
        evaluation = state.get("evaluation")
        if evaluation is not None and evaluation["n"] == self.n_eval:
            self.eval_collector = self.make_eval()
            self.eval_collector.envs.env.load_state_dict(evaluation["env"])
            self.eval_collector.noise.load_state_dict(evaluation["noise"])
        self.n_first_steps = 0
        return True

    @torch.inference_mode()
    def start_anew(self, seed: int, alone: bool) -> None:
        """Start new episodes in all rows, with the random streams of another seed."""
        collector = self.collector
        collector.begin(collector.envs.reset(env_seed(seed, self.first_rank)))
        collector.noise.start(env_seed(seed, self.first_rank, "action"))

    def close(self) -> None:
        """Close the environments."""
        made = [c.envs.env for c in (self.collector, self.eval_collector) if c is not None]
        close_quietly([env for env in made if hasattr(env, "close")])


class TensorSampler(Sampler):
    """A sampler of an environment that is one batched program on tensors, such as rsl_rl's.

    ``EnvCls`` makes one environment of ``batch_B`` rows (see `rlpyt.envs.tensor`), and another one
    of ``eval_n_envs`` rows if these are set. The batch [T, B] lives on its device, on which the
    agent must be trained. Actions are drawn by one torch generator there, seeded from the seed of
    the run, so they differ from those of the other samplers.

    Before the first batch, the untrained agent takes ``max_decorrelation_steps`` steps.

    Raises:
        ValueError, TypeError: an argument is set that needs single environments:
            ``curriculum``, ``deterministic_acting``, ``on_fault``, another ``TrajInfoCls``, lists
            of arguments.
    """

    CollectorCls: Any = TensorCollector
    eval_CollectorCls = EvalCollector

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if not issubclass(self.CollectorCls, TensorCollector):
            raise TypeError(
                f"CollectorCls must be a subclass of TensorCollector, got {self.CollectorCls}."
            )
        defaults: dict[str, Any] = dict(
            curriculum=None, deterministic_acting=False, on_fault=None, TrajInfoCls=TrajInfo
        )
        wrong = [name for name, default in defaults.items() if getattr(self, name) is not default]
        for name in ("env_kwargs", "eval_env_kwargs"):
            if not isinstance(getattr(self, name) or {}, Mapping):
                wrong.append(name)
        if wrong:
            raise ValueError(
                f"{wrong[0]} is for single environments, but the rows of a TensorSampler are one "
                f"program, got {getattr(self, wrong[0])!r:.80}. Leave it out (arguments of the "
                "environment: one dictionary), or use another sampler."
            )

    def _build(
        self,
        hardware: Hardware,
        bootstrap_value: bool,
        final_observation: bool,
        traj_info_kwargs: dict[str, Any],
        rank: int,
        world_size: int,
    ) -> None:
        self._initialized = True
        B, n_eval = self.batch_spec.B, self.eval_n_envs
        index, first_rank = hardware.cuda_idx, rank * B
        device = None if index is None else torch.device("cuda", index)
        new_info = traj_info_factory(self.TrajInfoCls, traj_info_kwargs)
        self._surroundings = Surroundings(describe_env(self.EnvCls, self.env_kwargs))
        mark_torch_seed()

        def make(kwargs: dict[str, Any], n: int, purpose: str) -> TensorEnvs:
            seed = env_seed(self.seed, first_rank, purpose)
            return make_tensor_envs(self.EnvCls, kwargs, n, seed, device)

        def collector(envs: TensorEnvs, rows: Any, purpose: str) -> TensorCollector:
            seed = env_seed(self.seed, first_rank, purpose)
            made: TensorCollector = self.CollectorCls(envs, self.agent, rows, new_info, seed)
            return made

        def make_eval() -> TensorCollector:
            given = self.eval_env_kwargs
            envs = make(self.env_kwargs if given is None else given, n_eval, "eval env")
            T = EvalCollector.CHUNK + 1
            rows = allocate_samples(self.examples, T, n_eval, False, envs.device)
            return collector(envs, rows, "eval action")

        with self._surroundings.checked(), torch.inference_mode():
            envs = make(self.env_kwargs, B, "env")
        self.examples = _examples(envs)
        if envs.device.type != "cpu":
            self.examples["device"] = envs.device
        self._initialize_agent(False, rank, world_size)
        rows = self._allocate_batch(envs.device, bootstrap_value, final_observation, extra_rows=1)
        # Every done is the end of a trajectory.
        info = rows.env.env_info._replace(traj_done=rows.env.done)
        rows = rows._replace(env=rows.env._replace(env_info=info))
        self.agent.acting_device = envs.device
        training = collector(envs, rows, "action")
        if self.agent.noise_hold is not None:
            seed = env_seed(self.seed, first_rank, "action")
            training.noise = HeldRowNoise(seed, B, envs.device, self.agent.noise_hold)
        self.slots, self.samples_pyt = [training.samples], training.samples
        self._eval_max_T = self._eval_steps_per_env(1)
        total = self.eval_max_trajectories
        quota = None if total is None or not n_eval else -(-total // n_eval)
        first_steps = self.max_decorrelation_steps
        deterministic = self.eval_deterministic
        worker = TensorWorker(
            training, make_eval, quota, deterministic, first_steps, first_rank, n_eval
        )
        self._worker_group = InProcess(worker, self._surroundings)
        self._finalizer = self._worker_group.shutdown
        ranks = list(range(first_rank, first_rank + B))
        self.agent.collector_initialize(global_B=B * world_size, env_ranks=ranks)
        self.agent.reset()
        self.agent.sample_mode(0)

    def shutdown(self) -> None:
        """Close the environments."""
        super().shutdown()
        if getattr(self, "agent", None) is not None:
            self.agent.acting_device = torch.device("cpu")


def _examples(envs: TensorEnvs) -> AttrDict:
    """Return examples of one step as numpy arrays, with the first observation of row 0."""
    return AttrDict(
        spaces=envs.spaces,
        observation=envs.first_row(envs.observation),
        action=envs.spaces.action.null_value(),
        reward=np.float32(0),
        done=np.bool_(False),
        env_info=vector_info()(np.bool_(False), np.bool_(False)),
    )


def _to_env(space: Any, device: torch.device) -> Callable[[Tensor], Tensor]:
    """Return a function that converts the agent's actions [B, ...] to the environment's form."""
    bounds = bounds_of(space)
    if bounds is not None:
        low, high = (torch.as_tensor(bound, device=device) for bound in bounds)
        return lambda action: action.clamp(low, high)
    start = getattr(space, "start", 0)
    if np.any(start):
        offset = torch.as_tensor(start, device=device)
        return lambda action: action + offset
    return lambda action: action


def _write(rows: Any, leaves: list[Tensor]) -> None:
    """Copy leaves into the leaves of a tree of tensors."""
    for row, leaf in zip(leaves_of(rows), leaves, strict=True):
        row.copy_(leaf)
