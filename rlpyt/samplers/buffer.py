"""Example steps of environment and agent, and batches [T, B] allocated from them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlpyt.agents.base import AgentInputs, BaseAgent
from rlpyt.agents.pg.agent import PgAgent
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.base import Env, EnvSpaces, EnvStep
from rlpyt.errors import NonFiniteError
from rlpyt.models.utils import unwrap_ddp
from rlpyt.samplers.collections import (
    AgentSamples,
    AgentSamplesTlv,
    BatchSpec,
    EnvSamples,
    EnvSamplesFinal,
    Samples,
)
from rlpyt.samplers.env_batch import is_batch
from rlpyt.samplers.step_checks import (
    FINITE_REMEDY,
    all_finite,
    check_info,
    check_observation,
    check_parts,
    check_reward_and_done,
    fields_of,
    float_leaves,
)
from rlpyt.spaces.action_mask import action_mask_of, sample_valid
from rlpyt.spaces.elements import check_first
from rlpyt.utils.buffer import (
    NumpyArrays,
    _named_leaves,
    buffer_from_example,
    buffer_func,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, with_fields
from rlpyt.utils.completion import completed
from rlpyt.utils.shared import Arena

if TYPE_CHECKING:
    from rlpyt.envs.vector.base import VectorEnv
    from rlpyt.samplers.tiles import ActingAgent
    from rlpyt.spaces.base import Space

SUM_TOLERANCE = 0.02  # for a sum of probabilities; a softmax in bfloat16 is within 0.01


def env_examples(env: Env | VectorEnv, action_space: Space | None = None) -> AttrDict:
    """Take one random step; return the environment's spaces and examples of its outputs.

    Args:
        env: the environment.
        action_space: space of the action; ``None``: the environment's.

    Raises:
        ValueError, TypeError: an output has the wrong type or shape.
    """
    if action_space is None:
        action_space = env.action_space
    action, first_observation, step = _one_step(env, action_space)
    check_parts(step)
    next_observation, reward, done, env_info = step
    _check_observation(env, next_observation)
    check_first(env.observation_space, next_observation)
    check_reward_and_done(reward, done)
    check_info(env_info)
    observation = buffer_func(next_observation, np.array)  # environments may reuse their arrays
    record = buffer_from_example(observation, 1)
    check_observation(first_observation, record, "observation after reset")
    check_first(env.observation_space, first_observation)
    return AttrDict(
        spaces=EnvSpaces(env.observation_space, env.action_space),
        observation=observation,
        action=action,
        reward=np.float32(reward),
        done=np.bool_(done),
        env_info=env_info,
    )


def _one_step(env: Env | VectorEnv, action_space: Space) -> tuple[Any, Any, Any]:
    """Return an action, the first observation and a step; of a vector environment, its first row's.

    The action is random, among the valid ones if there is a mask.
    """
    action = action_space.sample()
    batch = env.reset()
    masks = action_mask_of(batch)
    if not is_batch(env):
        if masks is not None:
            action = sample_valid(env.action_space, masks)
        return action, batch, env.step(action)
    first_observation = buffer_func(batch, lambda x: x[0].copy())
    actions = buffer_from_example(action, env.n)
    actions[:] = action
    for b, mask in enumerate(() if masks is None else masks):
        actions[b] = sample_valid(env.action_space, mask)
    step = env.step(actions)
    row = EnvStep(*(buffer_func(leaf, lambda x: x[0]) for leaf in step))
    return action, first_observation, row


def _check_observation(env: Env | VectorEnv, observation: object) -> None:
    shape = getattr(env.observation_space, "shape", None)
    if fields_of(observation) is not None or fields_of(shape) or not isinstance(shape, tuple):
        return
    try:
        check_observation(observation, np.empty((1, *shape)))
    except (ValueError, TypeError) as error:
        name = type(getattr(env, "unwrapped", env)).__name__
        error.args = (
            f"{error} {name}'s observation_space expects this. Correct the space, or what reset "
            "and step return.",
        )
        raise


def agent_examples(agent: ActingAgent, examples: dict[str, Any]) -> None:
    """Add ``action`` and ``agent_info`` of a step of the initialized agent, and check them.

    Raises:
        ValueError: the action does not have the shape of the space, an output lacks the leading
            dimension, or a categorical policy does not return probabilities.
        NonFiniteError: the agent's first action, or its distribution, is not finite.
        TypeError: the model does not accept the agent's arguments; a note names them.
    """
    agent = completed(agent, BaseAgent, BaseAgent())
    example = AgentInputs(*(examples[name] for name in ("observation", "action", "reward")))
    inputs = buffer_from_example(example, 2)
    inputs[0] = inputs[1] = example
    with torch.no_grad():
        try:
            action, agent_info = agent.step(*torchify_buffer(tuple(inputs)))
        except TypeError as error:
            _explain_model_call(agent, error)
            raise
        agent.reset()
    try:
        _check_agent_output(agent, examples["action"], numpify_buffer((action, agent_info)))
    except NonFiniteError:
        if all_finite(float_leaves(tuple(inputs))):
            raise
        raise NonFiniteError(
            "observation and reward must be finite, got NaN or an infinite number in the first "
            f"step of the environment: {inputs.observation[0]}, {inputs.prev_reward[0]}. "
            f"{FINITE_REMEDY}"
        ) from None
    # A scalar output is recorded for each environment.
    first_row = buffer_func((action, agent_info), lambda leaf: leaf[0] if leaf.ndim else leaf)
    action_example, agent_info_example = numpify_buffer(first_row)
    examples.update(action=action_example, agent_info=agent_info_example)


def _explain_model_call(agent: ActingAgent, error: TypeError) -> None:
    """Add a note if the error is about the inputs of the model's ``forward``, or its outputs."""
    model = unwrap_ddp(agent.model)
    if not isinstance(model, torch.nn.Module):
        return
    if re.match(r"(\w+\.)?(__new__|summarize)\(\) ", str(error)):  # of records of outputs
        error.add_note(
            f"{type(model).__name__}.forward must return the outputs that {type(agent).__name__} "
            "reads, as a tuple; see docs/custom_model.md, 'What a model returns'."
        )
    if not str(error).startswith(f"{type(model).forward.__qualname__}() "):
        return
    state = ", rnn_state" if agent.recurrent else ""
    error.add_note(
        f"The agent calls its model with (observation, prev_action, prev_reward{state}). "
        "forward must accept these arguments; see docs/sampling.md, 'Custom models'."
    )


def _check_agent_output(
    agent: ActingAgent, env_action: NumpyArrays, output: tuple[Any, Any]
) -> None:
    name = type(agent).__name__
    for path, leaf in _named_leaves(AgentSamples(output[0], None, output[1])):
        used = path.startswith(("action", "agent_info.value", "agent_info.dist_info"))
        if (used or leaf.ndim) and leaf.shape[:1] != (2,):
            raise ValueError(
                f"every output of {name}.step must have the leading dimension [B] of its inputs, "
                f"got '{path}' of shape {leaf.shape} for 2 environments."
            )
        if used and leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            raise NonFiniteError(
                f"'{path}' must be finite, got {leaf[0]} in the first output of {name}. Check the "
                "model's head of that name, its initialization, and the scale of observations."
            )
    _check_heads(agent, output[1])
    if not isinstance(env_action, tuple) and output[0].shape[1:] != np.shape(env_action):
        raise ValueError(
            f"actions must have the shape of the action space, {np.shape(env_action)}, got "
            f"{output[0].shape[1:]} from {name}."
        )


def _check_heads(agent: ActingAgent, agent_info: NamedArrayTuple) -> None:
    """Check the shapes of the parameters of rlpyt's distributions."""
    distribution = agent.distribution
    ours = type(distribution).__module__.startswith("rlpyt.")
    outputs = dict(_named_leaves(agent_info))
    for name in ("prob", "mean"):
        head = outputs.get(f"dist_info.{name}")
        if ours and head is not None and head.shape != (2, distribution.dim):
            raise ValueError(
                f"the policy head '{name}' must have shape (2, {distribution.dim}) for 2 "
                f"environments and this action space, got {head.shape}."
            )
    cls, prob = type(agent), outputs.get("dist_info.prob")
    plain = isinstance(agent, PgAgent) and cls.step is PgAgent.step and cls.choose is PgAgent.choose
    if plain and type(distribution) is Categorical and prob is not None:
        _check_probabilities(np.asarray(prob, np.float64))


def _check_probabilities(prob: np.ndarray[Any, Any]) -> None:
    """Raise ValueError if the rows of ``prob`` [B, A] are not probability vectors."""
    sums, lowest = prob.sum(-1), prob.min()
    if lowest < 0 or (np.abs(sums - 1) > SUM_TOLERANCE).any():
        worst = sums[np.abs(sums - 1).argmax()]
        raise ValueError(
            f"pi of the model must be probabilities that sum to 1, got a sum of {worst:.4g} and a "
            f"smallest entry of {lowest:.4g}. End it with softmax."
        )


def allocate_samples(
    examples: dict[str, Any],
    T: int,
    B: int,
    bootstrap_value: bool,
    memory: Arena | bool | torch.device,
    final_observation: bool = False,
    void: bool = False,
) -> Any:
    """Allocate ``Samples`` [T, B] from complete examples, as tensors if ``memory`` is a device.

    ``agent.action`` and ``agent.prev_action`` are shifted views of one array [T + 1, B], so an
    action is also the previous action of the next step. The same holds for rewards.
    """
    all_action = buffer_from_example(examples["action"], (T + 1, B), memory)
    all_reward = buffer_from_example(examples["reward"], (T + 1, B), memory)
    agent_info = buffer_from_example(examples["agent_info"], (T, B), memory)
    agent = AgentSamples(all_action[1:], all_action[:-1], agent_info)
    if bootstrap_value:
        value = getattr(examples["agent_info"], "value", 0)
        value = buffer_func(value, lambda leaf: np.zeros(np.shape(leaf), np.float32))
        more = [buffer_from_example(value, (n, B), memory) for n in (1, T)]
        agent = AgentSamplesTlv(*agent, *more)
    env = EnvSamples(
        observation=buffer_from_example(examples["observation"], (T, B), memory),
        reward=all_reward[1:],
        prev_reward=all_reward[:-1],
        done=buffer_from_example(examples["done"], (T, B), memory),
        env_info=buffer_from_example(examples["env_info"], (T, B), memory),
    )
    if final_observation:
        final = buffer_from_example(examples["observation"], (T, B), memory)
        env = EnvSamplesFinal(*env, final)
    if void:
        env = with_fields(env, void=buffer_from_example(np.bool_(False), (T, B), memory))
    samples = Samples(agent=agent, env=env)
    if os.environ.get("RLPYT_DEBUG") and not isinstance(memory, torch.device):
        _poison(samples)
    return samples


def _poison(samples: NamedArrayTuple) -> None:
    """Fill with NaN and extreme values, so that entries that were not written are noticed."""
    for path, leaf in _named_leaves(samples):
        # Zero means "no time limit", and need not be written.
        if path.startswith("agent.timeout_value"):
            continue
        if leaf.dtype.kind == "f":
            leaf[...] = np.nan
        elif leaf.dtype.kind in "iu":
            leaf[...] = np.iinfo(leaf.dtype).max


def get_example_outputs(
    agent: BaseAgent, env: Env | VectorEnv, examples: AttrDict, subprocess: bool = False
) -> None:
    """Fill ``examples`` with one step of environment and agent.

    Args:
        agent: initialized agent.
        env: environment, stepped once.
        examples: dictionary to which observation, action, reward, done, env_info, agent_info and
            the environment's ``spaces`` are added.
        subprocess: ignored, an argument of rlpyt (2019).
    """
    examples.update(env_examples(env))
    agent_examples(agent, examples)


def build_samples_buffer(
    agent: BaseAgent,
    env: Env | VectorEnv,
    batch_spec: BatchSpec,
    bootstrap_value: bool = False,
    agent_shared: bool = True,
    env_shared: bool = True,
    subprocess: bool = True,
    examples: AttrDict | None = None,
) -> tuple[Any, Any, Any]:
    """Return (samples_pyt, samples_np, examples) for an initialized agent.

    Args:
        agent: the agent.
        env: environment for an example step, not used if ``examples`` are given.
        batch_spec: T and B.
        bootstrap_value: allocate the field ``bootstrap_value``.
        agent_shared, env_shared: put the batch into shared memory if either is True.
        subprocess: ignored, an argument of rlpyt (2019).
        examples: complete examples; ``None``: take them from one step of ``env``.
    """
    if examples is None:
        examples = AttrDict()
        get_example_outputs(agent, env, examples)
    memory = Arena() if agent_shared or env_shared else False
    T, B = batch_spec
    samples_np = allocate_samples(examples, T, B, bootstrap_value, memory)
    return torchify_buffer(samples_np), samples_np, examples
