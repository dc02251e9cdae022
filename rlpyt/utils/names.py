"""Names: of settings and directories, suggestions for unknown ones, and of fields."""

import difflib
import hashlib
import keyword
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rlpyt.utils.collections import RESERVED_NAMES

LONGEST = 80  # characters of a directory name; file systems allow 255


# Names of settings in other libraries.
OTHER_NAMES = {
    **dict.fromkeys(("lr", "step_size"), "learning_rate"),
    **dict.fromkeys(("total_timesteps", "timesteps", "num_env_steps", "max_steps"), "steps"),
    **dict.fromkeys(("n_envs", "num_envs", "n_env", "num_env"), "batch_B"),
    **dict.fromkeys(("n_steps", "num_steps", "rollout_length", "nsteps"), "batch_T"),
    **dict.fromkeys(("num_workers", "num_env_runners", "workers"), "n_workers"),
    **dict.fromkeys(("clip_range", "clip_coef", "clip_param", "eps_clip"), "ratio_clip"),
    **dict.fromkeys(("n_epochs", "update_epochs", "num_epochs", "num_sgd_iter"), "epochs"),
    **dict.fromkeys(("num_minibatches", "n_minibatches", "nminibatches"), "minibatches"),
    **dict.fromkeys(("max_grad_norm", "grad_clip", "clip_grad"), "clip_grad_norm"),
    **dict.fromkeys(("ent_coef", "entropy_coeff", "entropy_coef"), "entropy_loss_coeff"),
    **dict.fromkeys(("vf_coef", "vf_loss_coeff", "value_loss_coef"), "value_loss_coeff"),
    **dict.fromkeys(("tau", "polyak"), "target_update_tau"),
    **dict.fromkeys(("buffer_size", "replay_capacity", "memory_size"), "replay_size"),
    **dict.fromkeys(("learning_starts", "start_steps", "warmup_steps"), "min_steps_learn"),
    **dict.fromkeys(("norm_adv", "normalize_advantages"), "normalize_advantage"),
    **dict.fromkeys(("norm_obs", "normalize_obs"), "normalize_observation"),
    **dict.fromkeys(("norm_reward", "normalize_rewards"), "normalize_reward"),
    **dict.fromkeys(("net_arch", "hidden_size", "hiddens"), "hidden_sizes"),
    **dict.fromkeys(("gamma", "discount_factor"), "discount"),
    **dict.fromkeys(("lambda_", "lam", "lambd"), "gae_lambda"),
    **dict.fromkeys(("random_seed", "rng_seed"), "seed"),
    **dict.fromkeys(("batch_size", "minibatch_size", "sgd_minibatch_size"), "minibatches"),
    **dict.fromkeys(("policy_kwargs", "network_kwargs", "activation_fn", "activation"), "model"),
    **dict.fromkeys(("train_freq", "train_frequency", "gradient_steps"), "replay_ratio"),
    **dict.fromkeys(("exploration_fraction", "eps_decay"), "eps_steps"),
    **dict.fromkeys(("policy_delay", "policy_frequency"), "policy_update_interval"),
    "target_network_frequency": "target_update_interval",
    "anneal_lr": "linear_lr_schedule",
    "alpha": "fixed_alpha",
    "cuda": "device",
    "eval_freq": "eval_interval_steps",
}
# Differences in meaning between such a name and rlpyt's.
DIFFERENCES = {
    **dict.fromkeys(
        ("batch_size", "minibatch_size", "sgd_minibatch_size"),
        "the number of minibatches, not a size",
    ),
    **dict.fromkeys(
        ("train_freq", "train_frequency", "gradient_steps"),
        "samples trained on per step, batch_size * gradient_steps / train_freq",
    ),
    "exploration_fraction": "a number of steps, not a fraction",
    "eps_decay": "a number of steps, not a factor",
    "polyak": "the new parameters' share, 1 - polyak in Spinning Up",
    "n_steps": "of a batch; of the n-step return: n_step_return",
    "target_network_frequency": "in updates, not in steps",
}


class UnknownName(ValueError):
    """Unknown name. The message suggests the nearest known name and lists all."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = sorted(known)
        listed, meant = ", ".join(known), suggestion(str(name), known)
        super().__init__(f"unknown {kind} {name!r}{meant} Known: {listed}.")


def warn_if_meant(owner: object, name: str, known: Iterable[str], kind: str) -> None:
    """Warn if a new attribute has another library's or a misspelt name of a setting or argument."""
    meant = nearest(name, known, 1, cutoff=0.85)
    if meant and not name.startswith("_") and not hasattr(type(owner), name):
        warnings.warn(
            f"{type(owner).__name__} has no {kind} {name}, so assigning it changes nothing. Its "
            f"name in rlpyt: {meant[0]}."
        )


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or ``"."`` if none is near."""
    close = nearest(name, known, 1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else "."


def nearest(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.5) -> list[str]:
    """Return up to ``n`` similar known names, most similar first, ignoring case.

    Names with the meaning that ``name`` has in other libraries come first.
    """
    by_lower = {item.lower(): item for item in known}
    meant = OTHER_NAMES.get(re.split(r"[.]", name.lower().replace("-", "_"))[-1])
    same = [item for item in by_lower.values() if re.split(r"[.]", item)[-1] == meant]
    if meant is not None and same:
        return same[:n]
    close = difflib.get_close_matches(name.lower(), by_lower, n, cutoff)
    return [by_lower[item] for item in close]


def flattened(
    settings: Any, is_leaf: Callable[[Mapping[str, Any]], bool] = lambda inner: not inner
) -> dict[str, Any]:
    """Return nested or dotted settings, such as ``{"sampler": {"batch_B": 8}}``, as dotted ones.

    Args:
        settings: dictionary of settings.
        is_leaf: returns True for a dictionary that is a value.

    Raises:
        TypeError: ``settings`` is not a dictionary.
        ValueError: a setting is given twice.
    """
    if not isinstance(settings, Mapping):
        raise TypeError(f"settings must be a dictionary, got {settings!r}.")
    found: dict[str, Any] = {}
    for key, value in settings.items():
        inner = {"": value}
        if isinstance(value, Mapping) and not is_leaf(value):
            inner = flattened(value, is_leaf)
        for rest, leaf in inner.items():
            name = f"{key}.{rest}" if rest else str(key)
            if name in found:
                raise ValueError(f"{name} is given twice.")
            found[name] = leaf
    return found


def labels(keys: Collection[str]) -> dict[str, str]:
    """Return a short name for each dotted key: as many of its last parts as make it unique.

    >>> labels(["algo.learning_rate", "env"])
    {'algo.learning_rate': 'learning_rate', 'env': 'env'}
    >>> labels(["agent.args.size", "agent.model.size"])
    {'agent.args.size': 'args.size', 'agent.model.size': 'model.size'}
    """
    found = {}
    for key in keys:
        parts = key.split(".")
        tails = [".".join(parts[-n:]) for n in range(1, len(parts) + 1)]
        others = [f".{other}" for other in keys if other != key]
        unlike = (tail for tail in tails if not any(o.endswith(f".{tail}") for o in others))
        found[key] = next(unlike, key)
    return found


def dir_names(changes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a directory name for each set of changes: ``learning_rate_0.001-epochs_4``.

    Names are unique, ignoring case: repeated names get a number.

    >>> dir_names([{"env": "ALE/Pong-v5"}, {"env": "ALE-pong-v5"}, {"env": "x"}])
    ['env_ALE-Pong-v5', 'env_ALE-pong-v5-2', 'env_x']
    """
    found: list[str] = []
    taken: set[str] = set()
    for one in changes:
        name = first = shortened("-".join(f"{key}_{_text(value)}" for key, value in one.items()))
        again = 1
        while name.lower() in taken:
            again += 1
            name = f"{first}-{again}"
        taken.add(name.lower())
        found.append(name)
    return found


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "-".join(f"{key}_{_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return "-".join(map(_text, value))
    return str(value)


def shortened(name: str) -> str:
    """Return a name of up to ``LONGEST`` safe characters, which ends with a hash if it was cut."""
    safe = re.sub(r"[^A-Za-z0-9._+=-]+", "-", name)
    if len(safe) <= LONGEST:
        return safe
    return f"{safe[: LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def field_names(keys: Iterable[Any]) -> list[str]:
    """Return a unique valid field name for each key; the key itself if it is valid.

    >>> field_names(["arm", "my-key", 1, "_x", "class", "get"])
    ['arm', 'my_key', 'field_1', 'field__x', 'field_class', 'field_get']
    """
    names: list[str] = []
    for key in keys:
        name = re.sub(r"\W", "_", str(key))
        reserved = name.startswith("_") or keyword.iskeyword(name) or name in RESERVED_NAMES
        if reserved or not name.isidentifier():
            name = f"field_{name}"
        while name in names:
            name += "_"
        names.append(name)
    return names
