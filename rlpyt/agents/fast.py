"""What agents need to act through numpy instead of torch."""

from collections.abc import Callable
from typing import Any

from rlpyt.models.utils import bare

# (observation, noise) -> (action, leaves of agent_info but the last, its last leaf), numpy [B, ...]
FastPolicy = Callable[[Any, Any], tuple[Any, tuple[Any, ...], Any]]


def has_twin(distribution: Any) -> bool:
    """Whether the class that defines ``sample`` defines its twin in numpy as well."""
    definer = next((c for c in type(distribution).__mro__ if "sample" in vars(c)), object)
    return "sample_numpy" in vars(definer)


def numpy_forward(model: Any) -> Any:
    """The model's numpy function with its parameters as they are now; asked for once a batch.

    ``None`` where the model does not offer one.
    """
    make = getattr(bare(model), "numpy_forward", None)
    if make is None:
        return None
    try:
        return make(live=False)
    except TypeError:  # a user's model, always live
        return make()
