"""Settings known to learn, per family of environments and algorithm.

A preset is a nested dictionary of ``RunOptions`` fields. It supplies the defaults that the command
line shows; every one can be overridden by a flag. ``FAMILIES`` are starting points for any
environment of their kind, ``TUNED`` adds what one environment needs.
"""

from collections.abc import Mapping
from typing import Any

from rlpyt.experiments.configs import continuous, evolution, q_learning, vtrace
from rlpyt.experiments.options import UnknownName

Preset = Mapping[str, Any]

FAMILIES: dict[str, dict[str, Preset]] = {
    "classic": {
        **q_learning.CLASSIC,
        **continuous.CLASSIC,
        **vtrace.CLASSIC,
        **evolution.CLASSIC,
        "ppo": {
            "steps": 500_000,
            "sampler": {"batch_T": 128, "batch_B": 8},
            "algo": {
                "learning_rate": 1e-3,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "epochs": 10,
                "minibatches": 4,
                "ratio_clip": 0.2,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.0,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
        "a2c": {
            "steps": 500_000,
            "sampler": {"batch_T": 8, "batch_B": 8},
            "algo": {
                "learning_rate": 1e-3,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.0,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
    },
    "atari": {
        **q_learning.ATARI,
        **vtrace.ATARI,
        "ppo": {
            "steps": 10_000_000,
            "torch_threads": 0,
            "log_interval_steps": 50_000,
            "checkpoint_interval_steps": 250_000,
            "sampler": {"batch_T": 128, "batch_B": 8},
            "algo": {
                "learning_rate": 2.5e-4,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "epochs": 4,
                "minibatches": 4,
                "ratio_clip": 0.1,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.01,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
        "a2c": {
            "steps": 10_000_000,
            "torch_threads": 0,
            "log_interval_steps": 50_000,
            "checkpoint_interval_steps": 250_000,
            "sampler": {"batch_T": 5, "batch_B": 32},
            "algo": {
                "learning_rate": 7e-4,
                "discount": 0.99,
                "gae_lambda": 1.0,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.01,
                "clip_grad_norm": 0.5,
            },
        },
    },
    "minatar": {
        **q_learning.MINATAR,
        **vtrace.MINATAR,
        "ppo": {
            "steps": 1_000_000,
            "sampler": {"batch_T": 128, "batch_B": 8},
            "agent": q_learning.MINATAR_NETWORK,
            "algo": {
                "learning_rate": 1e-3,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "epochs": 4,
                "minibatches": 4,
                "ratio_clip": 0.2,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.01,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
        "a2c": {
            "steps": 1_000_000,
            "sampler": {"batch_T": 8, "batch_B": 16},
            "agent": q_learning.MINATAR_NETWORK,
            "algo": {
                "learning_rate": 1e-3,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.01,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
    },
    "mujoco": {
        **continuous.MUJOCO,
        **vtrace.MUJOCO,
        **evolution.MUJOCO,
        "ppo": {
            "steps": 1_000_000,
            "sampler": {"batch_T": 256, "batch_B": 8},
            "agent": {"normalize_observation": True},
            "algo": {
                "learning_rate": 3e-4,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "epochs": 10,
                "minibatches": 32,
                "ratio_clip": 0.2,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.0,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
        "a2c": {
            "steps": 1_000_000,
            "sampler": {"batch_T": 16, "batch_B": 16},
            "agent": {"normalize_observation": True},
            "algo": {
                "learning_rate": 7e-4,
                "discount": 0.99,
                "gae_lambda": 0.95,
                "value_loss_coeff": 0.5,
                "entropy_loss_coeff": 0.0,
                "clip_grad_norm": 0.5,
                "normalize_advantage": True,
            },
        },
    },
}

TUNED: dict[str, dict[str, Preset]] = {
    "CartPole-v1": {
        **vtrace.TUNED["CartPole-v1"],
        **evolution.TUNED["CartPole-v1"],
        "ppo": {
            # Short batches used often: 500 of 500 for each of three seeds within 100k steps.
            "steps": 250_000,
            "sampler": {"batch_T": 32},
            "algo": {"discount": 0.98, "gae_lambda": 0.8, "epochs": 20, "minibatches": 1},
        },
    },
    "Pendulum-v1": {
        **evolution.TUNED["Pendulum-v1"],
        "ppo": {
            # Returns of -1500 at gamma = 0.99 drown the critic; a shorter horizon suffices here.
            "algo": {"discount": 0.9, "epochs": 10, "minibatches": 8},
        },
    },
    "HalfCheetah-v5": {
        "ppo": {
            # Unit deviations are too much noise to run with: 300k steps gave returns of about 500
            # with them, about 3000 with exp(-1).
            "agent": {"model": {"init_log_std": -1.0}},
        },
    },
    "toy/memory": {
        **q_learning.TUNED["toy/memory"],
        **vtrace.TUNED["toy/memory"],
        "a2c": {
            "sampler": {"batch_T": 10, "batch_B": 16},
            "algo": {"learning_rate": 1e-2, "entropy_loss_coeff": 0.01},
        },
    },
}


def layers(algo_name: str, env_id: str, family: str, preset: str | None = None) -> list[Preset]:
    """The presets for a run, to be applied in order.

    Args:
        algo_name: a key of ``ALGORITHMS``.
        env_id: looked up in ``TUNED``.
        family: what kind of environment it is, a key of ``FAMILIES``.
        preset: a family to use instead, and then without what is tuned for this environment.

    Raises:
        UnknownName: there is no such family, or it has no settings for this algorithm.
    """
    name = preset or family
    if name not in FAMILIES:
        raise UnknownName("preset", name, FAMILIES)
    if algo_name not in FAMILIES[name] and algo_name in continuous.CLASSIC:
        raise ValueError(
            f"{algo_name} is for continuous actions of vector environments, and {name} has images "
            f"and discrete actions; {name} takes {', '.join(FAMILIES[name])}. (Or name another "
            "preset.)"
        )
    if algo_name not in FAMILIES[name]:
        raise UnknownName(f"algorithm in preset {name!r}:", algo_name, FAMILIES[name])
    tuned = {} if preset else TUNED.get(env_id, {}).get(algo_name, {})
    return [FAMILIES[name][algo_name], tuned]
