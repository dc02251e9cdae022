"""Record of the spaces with which an agent was trained, kept beside its parameters."""

import warnings
from typing import Any

import numpy as np

from rlpyt.errors import DamagedFile
from rlpyt.spaces.action_mask import mask_sizes
from rlpyt.spaces.elements import IMAGE_DIM, leaf_spaces

Leaf = dict[str, Any]
OTHER_BOUNDS = {
    "observation": "Observations must have the scale of training: wrap the environment as there.",
    "action": "The policy's actions are scaled to the new bounds.",
}
KINDS = {"f": "float", "u": "unsigned integer", "i": "integer", "b": "boolean"}


def record_of(env_spaces: Any) -> dict[str, list[Leaf]]:
    """Return the parts of observations and actions in order, as lists of plain data.

    Args:
        env_spaces: ``EnvSpaces(observation, action)``; ``None``: of an agent that keeps none.
    """
    if env_spaces is None:
        return {}
    observations = leaf_spaces(env_spaces.observation, "observation")
    actions = leaf_spaces(env_spaces.action, "action")
    return {
        "observation": [{**_leaf(name, space), **_scale(space)} for name, space in observations],
        "action": [{**_leaf(name, space), **_bounds(space)} for name, space in actions],
    }


def _leaf(name: str, space: Any) -> Leaf:
    dtype = KINDS.get(np.dtype(space.dtype).kind, "other")
    choices = list(mask_sizes(space))
    return {"name": name, "shape": list(space.shape), "dtype": dtype, "choices": choices}


def _scale(space: Any) -> dict[str, Any]:
    """Return the bounds of a vector of real numbers; images are divided by theirs."""
    is_vector = np.dtype(space.dtype).kind == "f" and len(space.shape) < IMAGE_DIM
    return _bounds(space) if is_vector else {}


def _bounds(space: Any) -> dict[str, Any]:
    """Return the bounds of a Box, or the first of a Discrete's choices."""
    inner = getattr(space, "space", space)
    found = {key: getattr(inner, key, None) for key in ("low", "high", "start")}
    return {key: np.asarray(x).ravel().tolist() for key, x in found.items() if x is not None}


def check_spaces(saved: Any, env_spaces: Any, whose: str) -> None:
    """Compare the spaces with which an agent was trained with those of its environment.

    Other bounds of actions are told in one warning: the policy's actions are scaled to them. So are
    those of vectors of observations, which a normalizing wrapper may have changed.

    Args:
        saved: result of `record_of` for the saved agent; empty: an older version saved it.
        env_spaces: the environment's spaces.
        whose: name of the saved agent, for messages.

    Raises:
        DamagedFile: ``saved`` is not such a result.
        ValueError: parts have another order, or a part has another shape, kind of numbers or number
            of choices.
    """
    own = record_of(env_spaces)
    if not saved or not own:
        return
    try:
        pairs = [(saved[part], own[part]) for part in ("observation", "action")]
        orders = [
            ([leaf["name"] for leaf in old], [leaf["name"] for leaf in new]) for old, new in pairs
        ]
        differing = [
            (OTHER_BOUNDS[part], text, is_error)
            for part, (old, new) in zip(own, pairs, strict=True)
            for leaves in zip(old, new)
            for text, is_error in _differences(*leaves)
        ]
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DamagedFile(f"the spaces saved with {whose} are damaged ({error!r}).") from error
    for before, now in orders:
        if before != now:
            raise ValueError(
                f"{whose} was trained with {', '.join(before)}, in this order, but the environment "
                f"has {', '.join(now)}: the networks would take one for the other. Give the space "
                "the parts of the saved agent, in their order."
            )
    for advice, text, is_error in differing:
        if is_error:
            raise ValueError(
                f"{text} when {whose} was trained. Use an environment with its spaces."
            )
        warnings.warn(f"{text} when {whose} was trained. {advice}")


def _differences(old: Leaf, new: Leaf) -> list[tuple[str, bool]]:
    """Return (text, True if the agent cannot act) for each difference of two parts."""
    return [
        (f"{key} of {new['name']} is {_short(new.get(key))}, but was {_short(old.get(key))}", wrong)
        for keys, wrong in (
            (("shape", "dtype", "choices"), True),
            (("low", "high", "start"), False),
        )
        for key in keys
        if old.get(key, new.get(key)) != new.get(key)  # older versions saved fewer
    ]


def _short(value: Any) -> str:
    alike = isinstance(value, list) and len(value) > 1 and len({*value}) == 1
    return f"{value[0] if alike else value}"[:60]
