"""Return functions as rlpyt called them; their home is `rlpyt.algos.returns`.

The forms ending in ``_tl`` need no value of the final observation: a step that ended in a time
limit is worth V(s_t) itself, so that the steps before it are bootstrapped, while the step itself
teaches nothing (its advantage is zero) and should be left out of training. The forms without,
given ``timeout_value``, need no such exception; our own algorithms use those.
"""

from typing import Any

import numpy as np
import torch

from rlpyt.algos.returns import (
    Array,
    discount_return,
    discount_return_n_step,
    generalized_advantage_estimation,
    valid_from_done,
)

__all__ = [
    "discount_return",
    "discount_return_n_step",
    "discount_return_tl",
    "generalized_advantage_estimation",
    "generalized_advantage_estimation_tl",
    "valid_from_done",
]


def discount_return_tl(
    reward: Any,
    done: Array,
    bootstrap_value: Array | float,
    discount: float,
    timeout: Array,
    value: Array,
    return_dest: Any = None,
) -> Any:
    """Compute ``discount_return``, where a step ended by a time limit returns V(s_t).

    Args:
        reward, done, bootstrap_value, discount, return_dest: of ``discount_return``.
        timeout: [T, B] bool, uint8 or float; true where step t ended in a time limit. ``done``
            must be true there too. The last row counts like the others.
        value: [T, B], V(s_t) of the observations before each step.
    """
    reward = _worth_their_value(reward, timeout, value)
    return discount_return(reward, _either(done, timeout), bootstrap_value, discount, return_dest)


def generalized_advantage_estimation_tl(
    reward: Any,
    value: Any,
    done: Array,
    bootstrap_value: Array | float,
    discount: float,
    gae_lambda: float,
    timeout: Array,
    advantage_dest: Any = None,
    return_dest: Any = None,
) -> tuple[Any, Any]:
    """Compute GAE, where a step ended by a time limit has advantage zero and returns V(s_t).

    Args:
        reward, value, done, bootstrap_value, discount, gae_lambda, advantage_dest, return_dest:
            of ``generalized_advantage_estimation``.
        timeout: [T, B] bool, uint8 or float; true where step t ended in a time limit, the last
            row included.
    """
    return generalized_advantage_estimation(
        _worth_their_value(reward, timeout, value),
        value,
        _either(done, timeout),
        bootstrap_value,
        discount,
        gae_lambda,
        advantage_dest,
        return_dest,
    )


def _worth_their_value(reward: Any, timeout: Any, value: Any) -> Any:
    if isinstance(reward, torch.Tensor):
        return torch.where(torch.as_tensor(timeout) != 0, torch.as_tensor(value).detach(), reward)
    return np.where(np.asarray(timeout) != 0, value, reward)


def _either(done: Any, timeout: Any) -> Any:
    return (done != 0) | (timeout != 0)
