"""Allocates a batch [T, B] after one example step, and makes that example."""

import os
from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AgentInputs, BaseAgent
from rlpyt.agents.pg.agent import PgAgent
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.base import EnvSpaces, EnvStep
from rlpyt.errors import NonFiniteError
from rlpyt.models.utils import unwrap_ddp
from rlpyt.samplers.collections import (
    AgentSamples,
    AgentSamplesTlv,
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
    float_leaves,
)
from rlpyt.utils.buffer import (
    _named_leaves,
    buffer_from_example,
    buffer_func,
    numpify_buffer,
    torchify_buffer,
)
from rlpyt.utils.collections import AttrDict
from rlpyt.utils.completion import completed
from rlpyt.utils.shared import Arena

SUM_TOLERANCE = 0.02  # of probabilities; a softmax in bfloat16 is within 0.01


def env_examples(env: Any) -> AttrDict:
    """Take one random step and return the spaces and examples of what the environment gives.

    Raises:
        ValueError, TypeError: something is not of the kind or shape that it should be.
    """
    action = env.action_space.sample()
    first_observation, step = _one_step(env, action)
    check_parts(step)
    next_observation, reward, done, env_info = step
    _check_observation(env, next_observation)
    check_reward_and_done(reward, done)
    check_info(env_info)
    record = buffer_from_example(_as_recorded(next_observation), 1)
    check_observation(first_observation, record, "observation after reset")
    return AttrDict(
        spaces=EnvSpaces(env.observation_space, env.action_space),
        observation=_as_recorded(next_observation),
        action=action,
        reward=np.float32(reward),
        done=np.bool_(done),
        env_info=env_info,
    )


def _one_step(env: Any, action: Any) -> tuple[Any, Any]:
    """First observation, and a step with this action; of a batch, those of its first row."""
    if not is_batch(env):
        return env.reset(), env.step(action)
    first_observation = buffer_func(env.reset(), lambda x: x[0].copy())
    actions = buffer_from_example(action, env.n)
    actions[:] = action
    step = env.step(actions)
    return first_observation, EnvStep(*(buffer_func(leaf, lambda x: x[0]) for leaf in step))


def _check_observation(env: Any, observation: Any) -> None:
    promised = getattr(env.observation_space, "shape", None)
    if isinstance(observation, tuple) or not isinstance(promised, tuple):
        return
    try:
        check_observation(observation, np.empty((1, *promised)))
    except (ValueError, TypeError) as error:
        error.add_note(f"(as the observation_space of {type(env).__name__} says)")
        raise


def _as_recorded(observation: Any) -> Any:
    """An example that owns its memory, whether the environment reuses buffers or not."""
    return buffer_func(observation, np.array)


def agent_examples(agent: Any, examples: dict[str, Any]) -> None:
    """Add ``action`` and ``agent_info`` as the (initialized) agent gives them, and check them.

    Raises:
        ValueError: the agent's action does not have the space's shape, or a leading dimension is
            missing; the message names the field. Or a categorical policy gives no probabilities.
        NonFiniteError: the agent's first action, or what it was drawn from, is not finite.
        TypeError: the model takes other arguments than it is called with; a note names these.
    """
    inputs = _batch_of(examples, 2)
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
    # A number is the same for every environment: it is recorded for each.
    first = buffer_func((action, agent_info), lambda leaf: leaf[0] if leaf.ndim else leaf)
    one = numpify_buffer(first)
    examples.update(action=one[0], agent_info=one[1])


def _explain_model_call(agent: Any, error: TypeError) -> None:
    """Add a note if the error says that the model's ``forward`` does not take its inputs."""
    forward = getattr(type(unwrap_ddp(getattr(agent, "model", None))), "forward", None)
    if forward is None or not str(error).startswith(f"{forward.__qualname__}() "):
        return
    state = ", rnn_state" if getattr(agent, "recurrent", False) else ""
    error.add_note(
        f"The agent calls its model with (observation, prev_action, prev_reward{state}). Let "
        "forward take these arguments, used or not; see docs/sampling.md, 'Your own model'."
    )


def _batch_of(examples: dict[str, Any], B: int) -> Any:
    example = AgentInputs(*(examples[name] for name in ("observation", "action", "reward")))
    batch = buffer_from_example(example, B)
    for b in range(B):
        batch[b] = example
    return batch


def _check_agent_output(agent: Any, env_action: Any, output: Any) -> None:
    name = type(agent).__name__
    for path, leaf in _named_leaves(AgentSamples(output[0], None, output[1])):
        drawn_from = path.startswith(("action", "agent_info.value", "agent_info.dist_info"))
        if (drawn_from or leaf.ndim) and leaf.shape[:1] != (2,):
            raise ValueError(
                f"{name}.step was given 2 environments and returned '{path}' of shape "
                f"{leaf.shape}; every output needs the leading dimension [B] of its inputs."
            )
        if drawn_from and leaf.dtype.kind == "f" and not np.isfinite(leaf).all():
            raise NonFiniteError(
                f"'{path}' is not finite in the first output of {name}: {leaf[0]}. Look at the "
                "model's head of that name, its initialisation, and the scale of observations."
            )
    _check_heads(agent, output[1])
    if not isinstance(env_action, tuple) and output[0].shape[1:] != np.shape(env_action):
        raise ValueError(
            f"{name} chooses actions of shape {output[0].shape[1:]}; the environment's action "
            f"space has {np.shape(env_action)}."
        )


def _check_heads(agent: Any, agent_info: Any) -> None:
    """Check the shapes of the distribution's parameters, if it is one of ours."""
    distribution = getattr(agent, "distribution", None)
    ours = type(distribution).__module__.startswith("rlpyt.")
    dim = getattr(distribution, "dim", None) if ours else None
    dist_info = getattr(agent_info, "dist_info", None)
    for name in ("prob", "mean"):
        head = getattr(dist_info, name, None)
        if dim is not None and head is not None and head.shape != (2, dim):
            raise ValueError(
                f"the policy head '{name}' gives shape {head.shape} for 2 environments; the action "
                f"space asks for (2, {dim})."
            )
    cls, prob = type(agent), getattr(dist_info, "prob", None)
    plain = isinstance(agent, PgAgent) and cls.step is PgAgent.step and cls.choose is PgAgent.choose
    if plain and type(distribution) is Categorical and prob is not None:
        _check_probabilities(np.asarray(prob, np.float64))


def _check_probabilities(prob: Any) -> None:
    """Raise ValueError if ``prob`` [B, A] does not hold probabilities of A actions."""
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
    memory: Arena | bool,
    final_observation: bool = False,
) -> Any:
    """Allocate ``Samples`` [T, B] from complete examples.

    ``agent.action`` and ``agent.prev_action`` are shifted views of one block [T + 1, B], rewards
    alike: writing an action is writing the next step's previous one.
    """
    all_action = buffer_from_example(examples["action"], (T + 1, B), memory)
    all_reward = buffer_from_example(examples["reward"], (T + 1, B), memory)
    action, prev_action = all_action[1:], all_action[:-1]
    agent_info = buffer_from_example(examples["agent_info"], (T, B), memory)
    if bootstrap_value:
        value = np.zeros(np.shape(getattr(examples["agent_info"], "value", 0)), np.float32)
        agent = AgentSamplesTlv(
            action=action,
            prev_action=prev_action,
            agent_info=agent_info,
            bootstrap_value=buffer_from_example(value, (1, B), memory),
            timeout_value=buffer_from_example(value, (T, B), memory),
        )
    else:
        agent = AgentSamples(action=action, prev_action=prev_action, agent_info=agent_info)
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
    samples = Samples(agent=agent, env=env)
    if os.environ.get("RLPYT_DEBUG"):
        _poison(samples)
    return samples


def _poison(samples: Any) -> None:
    """Fill with NaN and extremes, so that what no collector wrote cannot pass for data."""
    for path, leaf in _named_leaves(samples):
        if (
            path == "agent.timeout_value"
        ):  # zero means "no time limit here", and need not be written
            continue
        if leaf.dtype.kind == "f":
            leaf[...] = np.nan
        elif leaf.dtype.kind in "iu":
            leaf[...] = np.iinfo(leaf.dtype).max


def get_example_outputs(agent: Any, env: Any, examples: Any, subprocess: bool = False) -> None:
    """Fill ``examples`` with one step of environment and agent.

    Args:
        agent: initialized.
        env: an environment, stepped once.
        examples: a dictionary, to which observation, action, reward, done, env_info, agent_info
            and the environment's ``spaces`` are added.
        subprocess: accepted and ignored; rlpyt could do this in a process of its own.
    """
    agent = completed(agent, BaseAgent, BaseAgent())
    examples.update(env_examples(env))
    agent_examples(agent, examples)


def build_samples_buffer(
    agent: Any,
    env: Any,
    batch_spec: Any,
    bootstrap_value: bool = False,
    agent_shared: bool = True,
    env_shared: bool = True,
    subprocess: bool = True,
    examples: Any = None,
) -> tuple[Any, Any, Any]:
    """Return (samples_pyt, samples_np, examples) for an initialized agent.

    Args:
        agent: the agent.
        env: an environment to take an example step in, unless ``examples`` are given.
        batch_spec: T and B.
        bootstrap_value: whether to allocate for it.
        agent_shared, env_shared: put the batch into shared memory (both or neither).
        subprocess: accepted for rlpyt's sake.
        examples: complete examples, if at hand.
    """
    if examples is None:
        examples = AttrDict()
        get_example_outputs(agent, env, examples)
    memory = Arena() if agent_shared or env_shared else False
    T, B = batch_spec
    samples_np = allocate_samples(examples, T, B, bootstrap_value, memory)
    return torchify_buffer(samples_np), samples_np, examples
