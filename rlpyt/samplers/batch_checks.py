"""Checks of a batch after it was collected, and of what has caused an error meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlpyt.errors import NonFiniteError
from rlpyt.models.utils import module_not_finite
from rlpyt.processes import status
from rlpyt.samplers.context import CollectorContext
from rlpyt.samplers.env_batch import needs_reset
from rlpyt.samplers.step_checks import (
    FINITE_REMEDY,
    all_finite,
    first_not_finite,
    float_leaves,
)
from rlpyt.spaces.action_mask import action_mask_of, mask_error, mask_sizes
from rlpyt.spaces.elements import too_large
from rlpyt.utils.buffer import NumpyArrays, _named_leaves, torchify_buffer
from rlpyt.utils.collections import NamedArrayTuple

if TYPE_CHECKING:
    from rlpyt.agents.base import BaseAgent
    from rlpyt.samplers.collectors import BaseCollector

Array = np.ndarray[Any, Any]
WITHOUT_GRADIENTS = (
    "(Environments and wrappers are stepped in torch.inference_mode. One that trains a network of "
    "its own does it inside `with torch.inference_mode(False):`.)"
)


class BatchChecks:
    """Checks that the batches of a process are finite and that their action masks are valid.

    Args:
        slots: columns of the process in each batch, numpy leaves [T, B, ...].
        context: context of the collector, in which the step is noted that an error is about.
        agent: the agent, for the name of a module that is not finite; ``None`` if it is elsewhere.
        action_space: action space of the environments.
    """

    def __init__(
        self,
        slots: Sequence[Any],
        context: CollectorContext,
        agent: BaseAgent | None,
        action_space: Any,
    ) -> None:
        self.slots, self.context, self.agent = slots, context, agent
        self._bootstraps = "bootstrap_value" in slots[0].agent._fields
        self._floats: dict[int, Any] = {}  # slot -> (next observations, leaves to check)
        masked = action_mask_of(slots[0].env.observation) is not None
        self._mask_sizes = mask_sizes(action_space) if masked else ()

    def check(
        self, collector: BaseCollector, slot: int, agent_inputs: Any, n_taken: int | None
    ) -> None:
        """Check a complete batch.

        Args:
            collector: collector that has filled it.
            slot: index of the batch.
            agent_inputs: inputs of the agent at the next step.
            n_taken: steps taken by a custom collector; ``None``: all.

        Raises:
            NonFiniteError: an observation or a reward is NaN or infinite.
            ValueError: a mask is invalid.
        """
        if collector.check_finite:
            self._check_finite(slot, agent_inputs, n_taken)
        if self._mask_sizes and (error := self._mask_error(slot, self.slots[slot].env.done)):
            raise error

    def raise_cause(self, collector: BaseCollector, slot: int, error: Exception) -> None:
        """Raise the cause of an error of the collector instead of it, if a check finds one.

        An error of gradients gets a note, since environments are stepped without them.

        Raises:
            NonFiniteError: observations, rewards or the agent's distribution were not finite.
            ValueError: a mask is invalid.
        """
        self._raise_not_finite_cause(collector, slot, error)
        self._raise_mask_cause(slot, error)
        self._raise_agent_cause(collector, slot, error)
        if type(error) is RuntimeError:  # torch's; ``str`` of a custom one may fail
            text = str(error)
            if "does not require grad" in text or "Inference tensors" in text:
                error.add_note(WITHOUT_GRADIENTS)

    def _check_finite(self, slot: int, agent_inputs: Any, n_taken: int | None) -> None:
        """Check that observations and rewards of this batch are finite."""
        samples, next_observation = self.slots[slot], None
        # If a custom collector stops early, its last rows are not set; the server reports it.
        if n_taken is not None and n_taken < len(samples.env.done):
            samples = samples[:n_taken]
            if not all_finite(float_leaves(samples.env.observation, samples.env.reward)):
                raise self._not_finite(samples)
            return
        if self._bootstraps:  # otherwise they are checked with the next batch
            next_observation = getattr(agent_inputs, "observation", None)
        if slot not in self._floats or self._floats[slot][0] is not next_observation:
            if not self._floats:  # the first batch
                self.context.warn(too_large("reward", samples.env.reward, "Samples hold it"))
            leaves = float_leaves(samples.env.observation, samples.env.reward, next_observation)
            self._floats[slot] = next_observation, leaves
        if not all_finite(self._floats[slot][1]):
            raise self._not_finite(samples, next_observation)

    def _mask_error(self, slot: int, done: Array) -> ValueError | None:
        """Return the error about an invalid mask in the rows of ``done`` [T, B], and note its step.

        The step before, or a reset, has returned the mask of row t.
        """

        def used() -> Array:
            rows = np.ones_like(done, dtype=np.bool_)
            rows[1:] = ~(done[1:] & done[:-1])  # not in rows that wait for a reset
            if "void" in env._fields:  # zeros
                rows &= ~env.void[: len(done)]
            return rows

        samples = self.slots[slot]
        env = samples.env
        masks = action_mask_of(env.observation)
        found = mask_error(masks[: len(done)], self._mask_sizes, used)
        if found is None:
            return None
        (t, b), message = found
        self.context.actions = samples.agent.action[t - 1]
        self._note_step(t - 1, b, t == 0 or bool(needs_reset(env)[t - 1, b]))
        return ValueError(message)

    def _raise_mask_cause(self, slot: int, error: Exception) -> None:
        """Raise ValueError instead of this error if an environment failed after an invalid mask.

        Environments may reject the actions that an agent takes if no action is valid.
        """
        t = self.context.progress[status.STEP]
        if not self._mask_sizes or t < 0:
            return
        done = self.slots[slot].env.done[: t + 1].copy()
        done[t] = True  # not written yet; if True the step before, the row may wait for a reset
        if clear_error := self._mask_error(slot, done):
            raise clear_error from error

    def _raise_not_finite_cause(
        self, collector: BaseCollector, slot: int, error: Exception
    ) -> None:
        """Raise NonFiniteError instead of this error if NaN observations or rewards caused it.

        An agent that receives NaN returns actions that environments reject.
        """
        t = self.context.progress[status.STEP]
        env = self.slots[slot].env
        leaves = float_leaves(env.observation[: t + 1], env.reward[:t])
        if t >= 0 and collector.check_finite and not all_finite(leaves):
            raise self._not_finite(self.slots[slot][: t + 1]) from error

    def _raise_agent_cause(self, collector: BaseCollector, slot: int, error: Exception) -> None:
        """Raise NonFiniteError instead of this error if the agent's distribution was NaN before it.

        Environments reject the actions that are drawn from it.
        """
        step, t = getattr(collector, "step", None), self.context.progress[status.STEP]
        info = getattr(getattr(step, "agent_info", None), "dist_info", None)  # of step t
        for path, leaf in _named_leaves(info, "agent_info.dist_info"):
            if t < 0 or leaf.dtype.kind != "f" or np.isfinite(leaf).all():
                continue
            b = int(np.argwhere(~np.isfinite(leaf))[0, 0])
            self._note_step(t, b, False)
            raise NonFiniteError(
                f"'{path}' must be finite, got {leaf[b]} from the agent, whose inputs are finite"
                f"{self._non_finite_module(self.slots[slot], t)}. Check its model."
            ) from error

    def _non_finite_module(self, samples: NamedArrayTuple, t: int) -> str:
        """Return the first module of the model whose output is not finite, for a message."""
        acting = self.agent
        if acting is None or not isinstance(acting.model, torch.nn.Module):
            return ""
        agent, env = samples.agent, samples.env
        inputs = env.observation[t], agent.prev_action[t], env.prev_reward[t]
        step = partial(acting.step, *torchify_buffer(inputs))
        found = module_not_finite({"": acting.model}, step)
        return f" (the first is {found})" if found else ""

    def _not_finite(
        self, samples: NamedArrayTuple, next_observation: NumpyArrays | None = None
    ) -> NonFiniteError:
        """Return the error about the first NaN or infinite number, and record its step."""
        t, b, message = first_not_finite(samples.env, next_observation)
        by_reset = message.startswith("observation") and (t < 0 or needs_reset(samples.env)[t, b])
        self._note_step(t, b, by_reset)
        self.context.actions = actions = samples.agent.action[t]
        if t >= 0 and not by_reset and not all_finite(float_leaves(actions[b])):
            return NonFiniteError(
                f"the action must be finite, got {actions[b]} from the agent, whose inputs are "
                f"finite{self._non_finite_module(samples, t)}. Check its model."
            )
        return NonFiniteError(f"{message}. {FINITE_REMEDY}")

    def _note_step(self, t: int, b: int, by_reset: bool) -> None:
        """Record the step of row b, or the reset after it, that an error is about."""
        progress = self.context.progress
        progress[status.ROW], progress[status.STEP] = b, t
        progress[status.ACTIVITY] = status.RESETTING if by_reset else status.STEPPING


def check_final_observations(
    observation: NumpyArrays, rows: Sequence[int], context: CollectorContext
) -> None:
    """Check final observations [len(rows), ...] of truncated episodes.

    Raises:
        NonFiniteError: an observation is NaN or infinite.
    """
    if all_finite(float_leaves(observation)):
        return
    for i, b in enumerate(rows):
        if not all_finite(float_leaves(observation[i])):
            context.progress[status.ROW] = b
            raise NonFiniteError(
                "the final observation of a truncated episode must be finite, got "
                f"{observation[i]}. {FINITE_REMEDY}"
            )


def check_final_masks(
    observation: NumpyArrays, rows: Sequence[int], context: CollectorContext, action_space: Any
) -> None:
    """Check the masks in final observations [len(rows), ...] of truncated episodes.

    Raises:
        ValueError: a mask is invalid.
    """
    masks = action_mask_of(observation)
    found = None if masks is None else mask_error(masks, mask_sizes(action_space))
    if found is not None:
        (i,), message = found
        context.progress[status.ROW] = rows[i]
        raise ValueError(f"in the final observation of a truncated episode, {message}")
