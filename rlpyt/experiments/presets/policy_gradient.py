"""Presets of A2C, PPO and V-trace (also called IMPALA)."""

from rlpyt.experiments.presets.compose import Parts, with_parts
from rlpyt.experiments.presets.q_learning import MINATAR_NETWORK

# Common settings of A2C and PPO, overridden by presets.
_ALGO = {
    "learning_rate": 1e-3,
    "discount": 0.99,
    "gae_lambda": 0.95,
    "value_loss_coeff": 0.5,
    "entropy_loss_coeff": 0.0,
    "clip_grad_norm": 0.5,
    "normalize_advantage": True,
}
_ENTROPY = {"entropy_loss_coeff": 0.01}
_ANNEALED = {"linear_lr_schedule": True}


def _family(base: Parts, a2c: Parts, ppo: Parts, vtrace: Parts | None = None) -> dict[str, Parts]:
    """Return the presets of one family of environments, by algorithm.

    V-trace has A2C's settings with a decreasing learning rate, as in the paper.

    Args:
        base: common settings of all algorithms, in addition to ``_ALGO``.
        a2c, ppo, vtrace: specific settings; those of V-trace extend those of A2C.
    """
    base = {**base, "algo": {**_ALGO, **base.get("algo", {})}}
    a2c_preset = with_parts(base, **a2c)
    annealed = with_parts(a2c_preset, algo=_ANNEALED)
    return {
        "a2c": a2c_preset,
        "ppo": with_parts(base, **ppo),
        **_by_both_names(with_parts(annealed, **(vtrace or {}))),
    }


def _by_both_names(preset: Parts) -> dict[str, Parts]:
    return {"vtrace": preset, "impala": preset}


CLASSIC = _family(
    {"steps": 500_000},
    a2c={"sampler": {"batch_T": 8, "batch_B": 8}},
    ppo={
        "sampler": {"batch_T": 128, "batch_B": 8},
        "algo": {"epochs": 10, "minibatches": 4, "ratio_clip": 0.2},
    },
)
ATARI = _family(
    {
        "steps": 10_000_000,
        "torch_threads": 0,
        "algo": _ENTROPY,
    },
    a2c={
        "sampler": {"batch_T": 5, "batch_B": 32},
        "algo": {"learning_rate": 7e-4, "gae_lambda": 1.0, "normalize_advantage": False},
    },
    ppo={
        "sampler": {"batch_T": 128, "batch_B": 8},
        "algo": {"learning_rate": 2.5e-4, "epochs": 4, "minibatches": 4, "ratio_clip": 0.1},
    },
    # Espeholt et al. 2018, appendix G: 20 steps of 32 environments. Their losses are sums over the
    # batch, these are means, so their limit on the gradient norm is not used.
    vtrace={"sampler": {"batch_T": 20, "batch_B": 32}, "algo": {"learning_rate": 6e-4}},
)
MINATAR = _family(
    {"steps": 1_000_000, "agent": MINATAR_NETWORK, "algo": _ENTROPY},
    a2c={"sampler": {"batch_T": 8, "batch_B": 16}},
    # Chosen on seed 0 of Asterix, Seaquest, Breakout and SpaceInvaders. A decreasing rate can begin
    # high, with minibatches of many environments.
    ppo={
        "sampler": {"batch_T": 32, "batch_B": 128},
        "algo": {
            "learning_rate": "linear:5e-3",
            "epochs": 4,
            "minibatches": 16,
            "ratio_clip": 0.2,
        },
    },
)
MUJOCO = _family(
    {"steps": 1_000_000, "agent": {"normalize_observation": True}},
    a2c={"sampler": {"batch_T": 16, "batch_B": 16}, "algo": {"learning_rate": 7e-4}},
    ppo={
        "sampler": {"batch_T": 256, "batch_B": 8},
        "algo": {"learning_rate": 3e-4, "epochs": 10, "minibatches": 32, "ratio_clip": 0.2},
    },
)

_MEMORY: Parts = {
    "sampler": {"batch_T": 10, "batch_B": 16},
    "algo": {"learning_rate": 1e-2, "entropy_loss_coeff": 0.01},
}
_SMALL_IMAGE = {
    "channels": [8], "kernel_sizes": [3], "strides": [2], "paddings": [1], "feature_size": 32,
}  # fmt: skip
# No action influences later rewards, which a discount of 0.99 would add as noise.
_PUZZLE: Parts = {
    "sampler": {"batch_T": 20, "batch_B": 16},
    "agent": {"hidden_sizes": [64], "model": {"encoder": _SMALL_IMAGE}},
    "algo": {"learning_rate": 3e-3, "discount": 0.0, "epochs": 4, "entropy_loss_coeff": 0.01},
}
TUNED: dict[str, dict[str, Parts]] = {
    "CartPole-v1": {
        # Short batches with many epochs learn from few steps.
        "ppo": {
            "steps": 250_000,
            "sampler": {"batch_T": 32},
            "algo": {"discount": 0.98, "gae_lambda": 0.8, "epochs": 20, "minibatches": 1},
        },
        # Twice the family's rate, because it decreases.
        **_by_both_names({"algo": {"learning_rate": 2e-3, "discount": 0.98}}),
    },
    "Pendulum-v1": {
        # At gamma = 0.99 returns of -1500 dominate the value loss; a shorter horizon suffices.
        "ppo": {"algo": {"discount": 0.9, "epochs": 10, "minibatches": 8}},
    },
    "LunarLander-v3": {
        "ppo": {
            "steps": 1_000_000,
            "sampler": {"kind": "serial", "batch_T": 512, "batch_B": 16},
            "algo": {
                "learning_rate": 3e-4,
                "discount": 0.999,
                "gae_lambda": 0.98,
                "entropy_loss_coeff": 0.01,
                "epochs": 4,
                "minibatches": 128,
            },
        },
    },
    # A fall costs 100 and comes late, hence a long horizon.
    "BipedalWalker-v3": {
        "ppo": {
            "steps": 2_000_000,
            "sampler": {"kind": "serial", "batch_T": 512, "batch_B": 16},
            "agent": {"normalize_observation": True},
            "algo": {
                "learning_rate": "linear:3e-4",
                "discount": 0.999,
                "epochs": 10,
                "minibatches": 64,
            },
        },
    },
    # Unit standard deviations are too noisy.
    **{
        f"HalfCheetah-{version}": {"ppo": {"agent": {"model": {"init_log_std": -1.0}}}}
        for version in ("v4", "v5")
    },
    "toy/mask": {"ppo": {**_PUZZLE, "steps": 10_000}},
    "toy/hybrid": {"ppo": {**_PUZZLE, "steps": 20_000}},
    # A rate that decreases lets the policy become deterministic.
    "toy/puzzle": {"ppo": with_parts(_PUZZLE, steps=80_000, algo=_ANNEALED)},
    # The small encoder and the fewer epochs of the puzzle do not suffice.
    "toy/parts": {
        "ppo": {
            "steps": 60_000,
            "sampler": _PUZZLE["sampler"],
            "algo": {
                "learning_rate": 3e-3,
                "discount": 0.0,
                "entropy_loss_coeff": 0.01,
                **_ANNEALED,
            },
        },
    },
    "toy/memory": {
        "a2c": _MEMORY,
        # Once the task is solved, advantages are near zero and normalizing them amplifies noise.
        **_by_both_names(with_parts(_MEMORY, algo={"normalize_advantage": False})),
    },
}
