"""Presets of actor-critic algorithms with replay: continuous control, and SAC for any actions."""

from rlpyt.experiments.presets.compose import Parts, with_parts

# Small bounded tasks such as Pendulum: one environment, one update per step, small networks.
_CLASSIC: Parts = {
    "steps": 20_000,
    "sampler": {"kind": "serial", "batch_T": 1, "batch_B": 1, "max_decorrelation_steps": 0},
    "agent": {"hidden_sizes": [64, 64]},
    "algo": {
        "discount": 0.98,
        "learning_rate": 1e-3,
        "batch_size": 256,
        "replay_ratio": 256,
        "min_steps_learn": 1_000,
        "replay_size": 200_000,
    },
}
# Haarnoja et al. 2018 and Fujimoto et al. 2018, with the usual network sizes. The learning rate of
# 1e-3 scores higher than SAC's 3e-4 after 50,000 steps, see docs/results/mujoco.md.
_MUJOCO = with_parts(
    _CLASSIC,
    steps=1_000_000,
    agent={"hidden_sizes": [256, 256]},
    algo={"discount": 0.99, "min_steps_learn": 5_000, "replay_size": 1_000_000},
)


# SAC with other networks: what differs from its preset, by name. Policies and critics share
# ``model``; ``q_model_kwargs`` are the critics' own.
_VARIANTS: dict[str, Parts] = {
    # Bhatt et al. 2024, with critics of 1024 as in Stable-Baselines3 Contrib instead of 2048. The
    # temperature also has Adam's beta of 0.5, instead of 0.9.
    "crossq": {
        "agent": {
            "model": {"normalization": "batch_renorm"},
            "args": {"target_critics": False, "q_model_kwargs": {"hidden_sizes": [1024, 1024]}},
        },
        "algo": {
            "joint_critics": True,
            "policy_update_interval": 3,
            "optim_kwargs": {"betas": (0.5, 0.999)},
        },
    },
    # Palenicek et al. 2026, in the form of its code, with two updates per step.
    "xqc": {
        "agent": {
            "hidden_sizes": [256, 256, 256, 256],
            "model": {"normalization": {"kind": "batch", "before": True, "unit_weights": "all"}},
            "args": {"q_model_kwargs": {"hidden_sizes": [512, 512, 512, 512], "n_atoms": 101}},
        },
        "algo": {
            "joint_critics": True,
            "normalize_reward": True,
            "fit_returns": False,
            "discount": 0.995,
            "learning_rate": "linear:3e-4:3e-5",
            "replay_ratio": 512,
            "policy_update_interval": 3,
            "initial_alpha": 0.01,
            "box_entropy": -0.5,
        },
    },
    # Lee et al. 2025.
    "simba": {
        "agent": {
            "hidden_sizes": [128],
            "normalize_observation": True,
            "model": {"residual": "simba"},
            "args": {"q_model_kwargs": {"hidden_sizes": [512, 512]}},
        },
        "algo": {
            "OptimCls": "AdamW",
            "optim_kwargs": {"weight_decay": 0.01},
            "learning_rate": 1e-4,
            "initial_alpha": 0.01,
            "box_entropy": -0.5,
        },
    },
    # Kim et al. 2026.
    "flashsac": {
        "agent": {
            "hidden_sizes": [128, 128],
            "model": {"residual": "flashsac"},
            "args": {
                "noise_hold": 2,
                "q_model_kwargs": {"hidden_sizes": [256, 256], "n_atoms": 101},
            },
        },
        "algo": {
            "joint_critics": True,
            "normalize_reward": True,
            "policy_update_interval": 2,
            "learning_rate": "cosine:3e-4:1.5e-4",
            "batch_size": 512,
            "replay_ratio": 512,
            "min_steps_learn": 10_000,
            "target_update_tau": 0.01,
            "initial_alpha": 0.01,
            "box_entropy": -0.478,  # that of a standard deviation of 0.15
        },
    },
}


def _family(base: Parts, ddpg: Parts, td3: Parts, variants: dict[str, Parts]) -> dict[str, Parts]:
    changed = {name: with_parts(base, **parts) for name, parts in _VARIANTS.items()}
    changed |= {name: with_parts(changed[name], **parts) for name, parts in variants.items()}
    ddpg, td3 = with_parts(base, **ddpg), with_parts(base, **td3)
    return {"sac": base, "sac_v": base, "ddpg": ddpg, "td3": td3, **changed}


CLASSIC = _family(
    _CLASSIC,
    ddpg={"steps": 40_000, "algo": {"q_learning_rate": 1e-3, "target_update_tau": 0.005}},
    td3={"algo": {"q_learning_rate": 1e-3}},
    variants={
        "crossq": {"agent": {"args": {"target_critics": False}}},
        "xqc": {
            "agent": {
                "hidden_sizes": [64, 64],
                "args": {"q_model_kwargs": {"n_atoms": 101}},
            },
            "algo": {"discount": 0.98, "learning_rate": 1e-3, "replay_ratio": 256},
        },
        "simba": {
            "agent": {"hidden_sizes": [64], "args": {}},
            "algo": {"learning_rate": 1e-3},
        },
        "flashsac": {
            "agent": {
                "hidden_sizes": [32],
                "args": {"noise_hold": 2, "q_model_kwargs": {"n_atoms": 101}},
            },
            "algo": {
                "learning_rate": 1e-3,
                "batch_size": 256,
                "replay_ratio": 256,
                "min_steps_learn": 1_000,
            },
        },
    },
)
MUJOCO = _family(
    _MUJOCO,
    ddpg={"algo": {"q_learning_rate": 1e-3, "target_update_tau": 0.005}},
    td3={"algo": {"q_learning_rate": 1e-3}},
    variants={},
)
# Toys in which no action influences later rewards.
_ONE_STEP: Parts = {
    "steps": 3_000,
    "agent": {"hidden_sizes": [32]},
    "algo": {
        "discount": 0.0,
        "learning_rate": 3e-3,
        "batch_size": 64,
        "replay_ratio": 64,
        "min_steps_learn": 200,
    },
}
TUNED: dict[str, dict[str, Parts]] = {
    # Episodes are long, so the discount is higher than that of the family, and targets are faster.
    "CartPole-v1": {
        "sac": {
            "algo": {
                "discount": 0.99,
                "batch_size": 128,
                "replay_ratio": 128,
                "target_update_tau": 0.02,
            }
        }
    },
    **{f"toy/{name}": {"sac": _ONE_STEP} for name in ("mask", "hybrid")},
}
