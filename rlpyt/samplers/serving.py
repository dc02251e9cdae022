"""The action server: chooses actions in the master for the environments of workers.

Workers step, the master acts. They share the step record, and two semaphores per worker
synchronize them at every step. Workers may form groups, so that one group steps while another
waits for its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlpyt.errors import WorkerError
from rlpyt.processes.group import POLL_S, Replied
from rlpyt.processes.status import STEP, Progress, fresh_progress
from rlpyt.samplers.env_batch import null_rows
from rlpyt.samplers.env_worker import agent_memory, load_agent_memory
from rlpyt.samplers.evaluation import eval_noise
from rlpyt.samplers.policy_source import (
    LocalPolicy,
    ServerChannel,
    StepBuffer,
    StepRecord,
    training_noise,
)
from rlpyt.samplers.tiles import ActingAgent, tiled
from rlpyt.utils.buffer import NumpyArrays, buffer_from_example, torchify_buffer
from rlpyt.utils.collections import AttrDict, NamedArrayTuple
from rlpyt.utils.files import naming
from rlpyt.utils.processes import explained_start_errors
from rlpyt.utils.shared import Arena
from rlpyt.utils.synchronize import SEMAPHORES, forget_names

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
    from rlpyt.samplers.env_worker import EnvWorkerSpec
    from rlpyt.samplers.layout import SamplerLayout

Array = np.ndarray[Any, Any]


def build_step_buffer(examples: AttrDict, B: int, memory: Arena | bool = True) -> tuple[Any, Any]:
    """Allocate the step record of workers and server in shared memory.

    Args:
        examples: complete examples of one step.
        B: number of environments.
        memory: arena to allocate in; ``True``: a new one.

    Returns:
        (torch tensors, numpy arrays) over the same memory: ``StepBuffer`` with leaves [B, ...].
    """
    example = StepBuffer(*(examples[name] for name in StepBuffer._fields))
    step_np = buffer_from_example(example, B, memory)
    return torchify_buffer(step_np), step_np


class ActionServer:
    """Chooses the actions of all workers with one agent.

    Args:
        agent: initialized agent.
        specs: specification of each worker, with examples of a step, and settings of the run.
        slots: the batch [T, B], or several batches that are filled in turn.
        layout: number of groups of workers, and whether they overlap, see ``serve``.
        context: multiprocessing context of the workers.
        progress: activity numbers of this process (``processes.status``).
    """

    def __init__(
        self,
        agent: BaseAgent,
        specs: Sequence[EnvWorkerSpec],
        slots: Sequence[Any],
        layout: SamplerLayout,
        context: BaseContext,
        progress: Progress | None = None,
    ) -> None:
        self.agent, self.slots, self._specs, self._layout = agent, slots, specs, layout
        self.seed, self.examples = specs[0].seed, specs[0].examples
        self.progress = fresh_progress() if progress is None else progress
        self.evaluations = 0
        self._slot = 0
        self._tiled: dict[tuple[int, bool], ActingAgent] = {}  # by (group, evaluation)
        self.channels = self._build_channels(context)
        self.groups = [self._group(i) for i in range(layout.groups)]
        self._eval_groups: list[Group] = []
        all_ranks = [rank for spec in specs for rank in spec.env_ranks]
        agent.collector_initialize(global_B=specs[0].global_B, env_ranks=all_ranks)
        agent.reset()

    def _build_channels(self, context: BaseContext) -> list[ServerChannel]:
        arena, W, first = Arena(), len(self._specs), self._specs[0]
        rows, eval_rows = len(first.env_ranks), len(first.eval_env_ranks)
        self.step_buffer_np = build_step_buffer(self.examples, W * rows, arena)[1]
        eval_step = build_step_buffer(self.examples, max(1, W * eval_rows), arena)[1]
        self._eval_step = eval_step
        self._final: NumpyArrays | None = None
        if "timeout_value" in self.slots[0].agent._fields:
            self._final = buffer_from_example(self.examples.observation, W * rows, arena)
        self._timed_out = arena.allocate((W * rows,), bool)
        abandoned = arena.allocate((1,), np.uint8)
        channels = []
        for i in range(W):
            worker_rows = slice(i * rows, (i + 1) * rows)
            with explained_start_errors("an action server"), naming(SEMAPHORES):
                obs_ready, act_ready = context.Semaphore(0), context.Semaphore(0)
            channel = ServerChannel(
                obs_ready=obs_ready,
                act_ready=act_ready,
                step=self.step_buffer_np[worker_rows],
                final_observation=None if self._final is None else self._final[worker_rows],
                timed_out=self._timed_out[worker_rows],
                abandoned=abandoned,
                eval_step=eval_step[i * eval_rows : (i + 1) * eval_rows],
            )
            channels.append(channel)
        return channels

    def _group(self, i: int, evaluation: bool = False) -> Group:
        """Build group i, the workers i * n to (i + 1) * n, whose rows are contiguous."""
        n = len(self.channels) // self._layout.groups
        workers = range(i * n, (i + 1) * n)
        specs = [self._specs[worker] for worker in workers]
        env_ranks = [spec.eval_env_ranks if evaluation else spec.env_ranks for spec in specs]
        ranks = [rank for own in env_ranks for rank in own]
        rows = slice(i * len(ranks), (i + 1) * len(ranks))
        shared = (self._eval_step if evaluation else self.step_buffer_np)[rows]
        step = StepRecord(env_info=None, **dict(shared.items()))
        agent: ActingAgent = self.agent
        if specs[0].deterministic_acting:
            key = i, evaluation
            if key not in self._tiled:
                self._tiled[key] = tiled(self.agent, ranks, rows.start)
            agent = self._tiled[key]
        if evaluation:
            noise = eval_noise(self.seed, self.evaluations, ranks)
            policy = LocalPolicy(agent, step, noise, None, i)
        else:
            noise = training_noise(agent, self.seed, ranks)
            policy = LocalPolicy(agent, step, noise, self.slots[0][:, rows], i)
        final = None if evaluation or self._final is None else self._final[rows]
        null_action = self.examples.spaces.action.null_value()
        channels = [self.channels[worker] for worker in workers]
        group = Group(policy, step, null_action, workers, channels, final, self._timed_out[rows])
        group.rows = rows
        return group

    def serve_actions(self, itr: int, slot: int, replied: Replied, may_end: bool = False) -> None:
        """Act for one batch, ``slots[slot]``; with ``may_end`` workers may be lost meanwhile."""
        self.agent.sample_mode(itr)
        samples = self.slots[slot]
        if slot != self._slot:
            for group in self.groups:
                group.policy.write_into(samples[:, group.rows])
            self._slot = slot
        with torch.inference_mode():
            T = len(samples.env.reward)
            serve(self.groups, T, replied, self._layout.overlap, may_end, note=self._note)

    def _note(self, t: int) -> None:
        self.progress[STEP] = t

    def serve_actions_evaluation(self, itr: int, n: int, first: bool, replied: Replied) -> None:
        """Act for n steps of an evaluation."""
        if first:
            self.evaluations += 1
            self.agent.deterministic = self._specs[0].eval_deterministic
            self.agent.eval_mode(itr)
            self._eval_groups = [self._group(i, True) for i in range(self._layout.groups)]
        with torch.inference_mode():
            serve(
                self._eval_groups, n, replied, self._layout.overlap, may_end=True, note=self._note
            )

    def drain(self) -> None:
        """Set all semaphores to zero after a command."""
        for group in self.groups:
            group.drain()

    def forget_names(self) -> None:
        """Remove the semaphores' names, once all workers have opened them or have ended."""
        forget_names([s for c in self.channels for s in (c.obs_ready, c.act_ready)])

    def abandon(self) -> None:
        """Tell the workers to end, and release those that wait for actions."""
        for channel in self.channels:
            if channel.abandoned is not None:
                channel.abandoned[0] = True
            channel.act_ready.release()

    def start_anew(self, seed: int) -> None:
        """Act for new episodes, with the noise of another seed."""
        self.seed = seed
        self.groups = [self._group(i) for i in range(self._layout.groups)]
        self.agent.reset()

    def state_dict(self) -> dict[str, Any]:
        """Return recurrent states and noise streams, for an exact resume."""
        return {
            "agent": agent_memory(self.agent),
            "noise": [group.policy.noise.state_dict() for group in self.groups],
            "evaluations": self.evaluations,
            "seed": self.seed,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        load_agent_memory(self.agent, state["agent"])
        for group, noise in zip(self.groups, state["noise"], strict=True):
            group.policy.noise.load_state_dict(noise)
        self.evaluations, self.seed = state["evaluations"], state["seed"]


class Group:
    """A group of workers for which the server acts at once: the server's side of the exchange.

    Args:
        policy: policy that reads and writes the group's rows of record and batch.
        step: step record of the group.
        null_action: previous action at the start of an episode.
        ranks: ranks of the workers.
        channels: channels of the workers, in the order of the group's rows.
        final_observation, timed_out: the group's rows of the shared memory of the channels.
    """

    def __init__(
        self,
        policy: LocalPolicy,
        step: NamedArrayTuple,
        null_action: NumpyArrays | int,
        ranks: Sequence[int],
        channels: Sequence[ServerChannel],
        final_observation: NumpyArrays | None = None,
        timed_out: Array | None = None,
    ) -> None:
        self.policy = policy
        self._step, self._null_action = step, null_action
        self._obs_ready = [(c.obs_ready, rank) for c, rank in zip(channels, ranks, strict=True)]
        self._channels = channels
        self._ended: set[int] = set()  # ranks
        self._releases = [c.act_ready.release for c in channels]
        self._final = final_observation
        self._timed_out = timed_out
        self.rows = slice(None)  # columns of the batch

    def wait(self, t: int, T: int, replied: Replied, may_end: bool = False) -> None:
        """Wait until every worker of the group has written its observations of step t.

        Raises:
            WorkerError: a worker failed, or ended before T steps although ``may_end`` is False.
        """
        for obs_ready, rank in self._obs_ready:
            while rank not in self._ended and not obs_ready.acquire(True, POLL_S):
                if replied(rank) and not obs_ready.acquire(False):  # may be released just now
                    if not may_end:
                        raise WorkerError(
                            f"worker {rank} ended its batch after {max(t - 1, 0)} of {T} steps: "
                            "its collector must release obs_ready once before the first step and "
                            "once after every step.",
                            worker=rank,
                            step=t - 1,
                        )
                    self._ended.add(rank)

    def begin(self, T: int) -> None:
        """Prepare a command of T steps."""
        self._ended = set()
        self.policy.begin(T)

    @property
    def ended(self) -> bool:
        """Return True if every worker of the group has ended its command early."""
        return len(self._ended) == len(self._obs_ready)

    def answer(self, t: int) -> None:
        """Choose the actions of step t."""
        self._finish_step(t - 1)
        self.policy.act(t)

    def release(self) -> None:
        """Let the workers continue."""
        for release in self._releases:
            release()

    def finish(self, T: int) -> None:
        """Record the bootstrap values after T steps."""
        self._finish_step(T - 1)
        self.policy.finish()

    def drain(self) -> None:
        """Set all semaphores to zero; the workers must be idle."""
        for channel in self._channels:
            for semaphore in (channel.obs_ready, channel.act_ready):
                while semaphore.acquire(False):
                    pass

    def _finish_step(self, t: int) -> None:
        """Record V of episodes that step t truncated; null action and reward after a done."""
        step = self._step
        null_rows(step.action, step.reward, self._null_action, np.flatnonzero(step.done))
        timed_out = self._timed_out
        if self._final is not None and timed_out is not None and timed_out.any():
            self.policy.record_timeout_values(t, np.flatnonzero(timed_out).tolist(), self._final)
            timed_out[...] = False


def serve(
    groups: Sequence[Group],
    T: int,
    replied: Replied,
    overlap: bool = True,
    may_end: bool = False,
    note: Callable[[int], None] | None = None,
) -> None:
    """Act for T steps of each group in turn, in the master.

    Args:
        groups: groups of workers; while the agent acts for one, the others step.
        T: number of steps.
        replied: function that returns True if a worker has ended its command, and raises if it
            failed.
        overlap: if False, a group waits until the other one has stepped, so that the two groups
            never step at the same time.
        may_end: workers may end their command before T steps.
        note: function called with the index of every step.
    """
    for group in groups:
        group.begin(T)
    held: Group | None = None
    for t in range(T):
        if all(group.ended for group in groups):
            break
        if note is not None:
            note(t)
        for group in groups:
            group.wait(t, T, replied, may_end)
            if held is not None:
                held.release()
                held = None
            group.answer(t)
            if overlap:
                group.release()
            else:
                held = group
    if held is not None:
        held.release()
    for group in groups:
        group.wait(T, T, replied, may_end)
        group.finish(T)
