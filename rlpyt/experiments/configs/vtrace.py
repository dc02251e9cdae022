"""Presets of V-trace, also called IMPALA; ``presets`` puts them beside the others."""

from rlpyt.experiments.configs.compose import Parts
from rlpyt.experiments.configs.q_learning import MINATAR_NETWORK

# A2C's settings, but that the learning rate falls, as in the paper.
_CLASSIC: Parts = {
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
        "linear_lr_schedule": True,
    },
}
# Espeholt et al. 2018, appendix G: 20 steps of 32 environments, a learning rate that falls to zero.
# Their losses are sums over the batch, these are means, so their limit of the gradient is not used.
_ATARI: Parts = {
    "steps": 10_000_000,
    "torch_threads": 0,
    "log_interval_steps": 50_000,
    "checkpoint_interval_steps": 250_000,
    "sampler": {"batch_T": 20, "batch_B": 32},
    "algo": {
        "learning_rate": 6e-4,
        "discount": 0.99,
        "gae_lambda": 1.0,
        "value_loss_coeff": 0.5,
        "entropy_loss_coeff": 0.01,
        "clip_grad_norm": 0.5,
        "linear_lr_schedule": True,
    },
}
_MINATAR: Parts = {
    "steps": 1_000_000,
    "sampler": {"batch_T": 8, "batch_B": 16},
    "agent": MINATAR_NETWORK,
    "algo": {
        "learning_rate": 1e-3,
        "discount": 0.99,
        "gae_lambda": 0.95,
        "value_loss_coeff": 0.5,
        "entropy_loss_coeff": 0.01,
        "clip_grad_norm": 0.5,
        "normalize_advantage": True,
        "linear_lr_schedule": True,
    },
}
_MUJOCO: Parts = {
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
        "linear_lr_schedule": True,
    },
}


def _by_both_names(preset: Parts) -> dict[str, Parts]:
    return {"vtrace": preset, "impala": preset}


CLASSIC = _by_both_names(_CLASSIC)
ATARI = _by_both_names(_ATARI)
MINATAR = _by_both_names(_MINATAR)
MUJOCO = _by_both_names(_MUJOCO)
TUNED: dict[str, dict[str, Parts]] = {
    # Twice the family's rate, because it falls: with 1e-3, two seeds of three ended at 465.
    "CartPole-v1": _by_both_names({"algo": {"learning_rate": 2e-3, "discount": 0.98}}),
    "toy/memory": _by_both_names(
        {
            "sampler": {"batch_T": 10, "batch_B": 16},
            "algo": {"learning_rate": 1e-2, "entropy_loss_coeff": 0.01},
        }
    ),
}
