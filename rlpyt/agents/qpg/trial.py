"""Check that several critics in one model are independent of each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.seed import undisturbed

TRIAL_ROWS = 3


def try_critics(agent: Any) -> None:
    """Raise ValueError unless several critics in one model are independent of each other.

    The outputs of single critics and of policies are checked where an algorithm uses them, because
    a custom agent may change the inputs and a custom algorithm may interpret the outputs.

    Args:
        agent: a `QpgAgent` whose networks are built.
    """
    E = agent.n_joined
    if E is None:
        return
    for name, parameter in agent.q_model.named_parameters():
        if not parameter.dim() or len(parameter) != E:
            raise ValueError(
                f"{agent.QModelCls.__name__} takes n_critics, so every parameter must have the "
                f"{E} critics first; {name} is {list(parameter.shape)}. Or take n_critics out "
                "of its constructor: then each critic is a model of its own."
            )
    if not type(agent).__module__.startswith("rlpyt."):
        return
    N, A = TRIAL_ROWS, agent.scale.size
    null = agent.env_spaces.observation.null_value()
    observation = buffer_func(null, lambda x: torch.from_numpy(np.stack([np.asarray(x)] * N)))
    action = torch.linspace(-0.5, 0.5, N)[:, None].expand(N, A)
    inputs = (observation, torch.zeros(N, A), torch.zeros(N), action)
    with torch.no_grad(), undisturbed(), evaluating(agent.q_model):
        q, own = agent.q_model(*inputs), agent.q_model(*inputs, member=0)
    both = isinstance(q, torch.Tensor) and isinstance(own, torch.Tensor)
    if both and len(q) == E and not torch.allclose(own, q[0], rtol=1e-3, atol=1e-4):
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
