"""Policies and critics of continuous control, tried out before anything is learned with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import buffer_func, leaves_of
from rlpyt.utils.seed import undisturbed

TRIAL_ROWS = 3


def try_networks(agent: Any) -> None:
    """Raise ValueError unless policy and critics give what they should for a few rows.

    Critics that forget to drop a last dimension, say, would train on without a word.

    Args:
        agent: a `QpgAgent` whose networks are built.
    """
    N, A, E = TRIAL_ROWS, agent.scale.size, agent.n_critics
    null = agent.env_spaces.observation.null_value()
    observation = buffer_func(null, lambda x: torch.from_numpy(np.stack([np.asarray(x)] * N)))
    action = torch.linspace(-0.5, 0.5, N)[:, None].expand(N, A)
    inputs = (observation, torch.zeros(N, A), torch.zeros(N))
    with torch.no_grad(), undisturbed(), evaluating(agent.model, agent.q_model):
        mean = leaves_of(agent.model(*inputs))[0]
        q = agent.q_model(*inputs, action)
        own = None if agent.n_joined is None else agent.q_model(*inputs, action, member=0)
    check_shape(agent.ModelCls, "actions", mean, (N, A))
    each = () if agent.n_quantiles is None else (agent.n_quantiles,)
    expected = (*(() if E is None else (E,)), N, *each)
    check_shape(agent.QModelCls, "values", q, expected)
    if own is None:
        return
    for name, parameter in agent.q_model.named_parameters():
        if not parameter.dim() or len(parameter) != E:
            raise ValueError(
                f"{agent.QModelCls.__name__} takes n_critics, so every parameter must have the "
                f"{E} critics first; {name} is {list(parameter.shape)}. Or take n_critics out "
                "of its constructor: then each critic is a model of its own."
            )
    if not torch.allclose(own, q[0], rtol=1e-3, atol=1e-4):
        raise ValueError(
            f"the first of {E} critics gives other values alone (member=0) than among them: a "
            f"layer of {agent.QModelCls.__name__} mixes critics or samples. Its nonlinearity "
            "must act on every number by itself."
        )


@contextmanager
def evaluating(*networks: Any) -> Iterator[None]:
    """Networks in evaluation mode; afterwards in the mode that each part was in."""
    modes = [(m, m.training) for network in networks for m in network.modules()]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def check_shape(ModelCls: Any, what: str, found: Any, expected: tuple[int, ...]) -> None:
    """Raise ValueError if a model's output has another shape than it should."""
    if tuple(found.shape) == expected:
        return
    hint = ", for instance by squeeze(-1)" if tuple(found.shape) == (*expected, 1) else ""
    raise ValueError(
        f"{getattr(ModelCls, '__name__', ModelCls)} gave {what} {list(found.shape)} for "
        f"{TRIAL_ROWS} rows; it must give {list(expected)}{hint}."
    )
