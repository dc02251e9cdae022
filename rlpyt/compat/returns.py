"""rlpyt's return functions; the implementations are in `rlpyt.algos.returns`.

The functions ending in ``_tl`` need no value of the final observation: the return of a step that
ended by a time limit is V(s_t), so that earlier steps are bootstrapped. The step itself has
advantage zero and should be masked in training. rlpyt's algorithms use the other functions with
``timeout_value``, which need no mask.
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
    """Compute ``discount_return``; the return of a step that ended by a time limit is V(s_t).

    Args:
        reward, done, bootstrap_value, discount, return_dest: see ``discount_return``.
        timeout: [T, B] bool, uint8 or float; true where step t ended by a time limit, also in the
            last row. ``done`` must be true there too.
        value: [T, B], V(s_t).
    """
    reward = _replace_by_value(reward, timeout, value)
    return discount_return(
        reward, _logical_or(done, timeout), bootstrap_value, discount, return_dest
    )


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
    """Compute GAE; a step that ended by a time limit has advantage zero and return V(s_t).

    Args:
        reward, value, done, bootstrap_value, discount, gae_lambda, advantage_dest, return_dest:
            see ``generalized_advantage_estimation``.
        timeout: [T, B] bool, uint8 or float; true where step t ended by a time limit, also in the
            last row.
    """
    return generalized_advantage_estimation(
        _replace_by_value(reward, timeout, value),
        value,
        _logical_or(done, timeout),
        bootstrap_value,
        discount,
        gae_lambda,
        advantage_dest,
        return_dest,
    )


def _replace_by_value(reward: Any, timeout: Any, value: Any) -> Any:
    if isinstance(reward, torch.Tensor):
        return torch.where(torch.as_tensor(timeout) != 0, torch.as_tensor(value).detach(), reward)
    return np.where(np.asarray(timeout) != 0, value, reward)


def _logical_or(done: Any, timeout: Any) -> Any:
    return (done != 0) | (timeout != 0)
