"""Presets of deep Q-learning."""

from rlpyt.experiments.presets.compose import Parts, with_parts

# 3-step returns, double Q-learning and a low learning rate make it rarer that DQN forgets CartPole
# late in training. Quantile losses are smaller, so those algorithms have a higher rate.
_CLASSIC: Parts = {
    "steps": 100_000,
    "sampler": {"kind": "serial", "batch_T": 16, "batch_B": 4},
    "agent": {"args": {"eps_final": 0.04}},
    "algo": {
        "discount": 0.99,
        "learning_rate": 2.5e-4,
        "optim_kwargs": {"eps": 1e-8},
        "batch_size": 64,
        "n_step_return": 3,
        "min_steps_learn": 1000,
        "replay_size": 100_000,
        "replay_ratio": 32,
        "target_update_interval": 250,
        "eps_steps": 15_000,
        "double_dqn": True,
        "pri_beta_steps": None,
        "clip_grad_norm": 10.0,
    },
}
_DISTRIBUTIONAL = {"V_min": -100.0, "V_max": 100.0}
_RAINBOW = {"double_dqn": True, "prioritized_replay": True, "n_step_return": 3}

# PQN as in purejaxql, config/alg/pqn_{cartpole,minatar,atari}.yaml. Epsilon is final after a fifth
# (CartPole) or a tenth of the steps.
_PQN: Parts = {
    "steps": 500_000,
    "sampler": {"kind": "serial", "batch_T": 64, "batch_B": 32},
    "agent": {
        "hidden_sizes": [256, 256],
        "model": {"layer_norm": True},
        "args": {"eps_final": 0.2},
    },
    "algo": {
        "discount": 0.99,
        "learning_rate": "linear:1e-4",
        "q_lambda": 0.95,
        "minibatches": 16,
        "epochs": 4,
        "eps_steps": 100_000,
    },
}

CLASSIC: dict[str, Parts] = {
    "dqn": _CLASSIC,
    "catdqn": with_parts(_CLASSIC, algo=_DISTRIBUTIONAL),
    "rainbow": with_parts(
        _CLASSIC,
        agent={"dueling": True, "noisy": True, "args": {}},
        algo={**_DISTRIBUTIONAL, **_RAINBOW},
    ),
    "qrdqn": with_parts(
        _CLASSIC,
        agent={"args": {"eps_final": 0.04, "n_quantiles": 51}},
        algo={"learning_rate": 5e-4},
    ),
    "iqn": with_parts(_CLASSIC, algo={"learning_rate": 5e-4, "n_tau": 16, "n_tau_target": 16}),
    "pqn": _PQN,
    "r2d1": {
        "steps": 300_000,
        "sampler": {"kind": "serial", "batch_T": 20, "batch_B": 16},
        "agent": {"recurrent": True, "args": {"eps_final": 0.1, "eps_final_min": 0.005}},
        "algo": {
            "discount": 0.99,
            "learning_rate": 1e-3,
            "optim_kwargs": {"eps": 1e-8},
            "batch_T": 20,
            "batch_B": 32,
            "warmup_T": 10,
            "store_rnn_state_interval": 10,
            "min_steps_learn": 5_000,
            "replay_size": 100_000,
            "replay_ratio": 6,
            "target_update_interval": 200,
            "n_step_return": 3,
            "eps_steps": 30_000,
            "pri_beta_steps": None,
        },
    },
}

# Mnih et al. 2015 and Hessel et al. 2018 for one machine: half a million frames of 8 kB, several
# environments in parallel. Steps are agent steps, of four frames each.
_ATARI: Parts = {
    "steps": 10_000_000,
    "torch_threads": 0,
    "sampler": {"batch_T": 4, "batch_B": 8},
    "agent": {"args": {"eps_final": 0.01}},
    "algo": {
        "discount": 0.99,
        "learning_rate": 1e-4,
        "batch_size": 32,
        "min_steps_learn": 50_000,
        "replay_size": 500_000,
        "replay_ratio": 8,
        "target_update_interval": 2000,
        "eps_steps": 250_000,
        "pri_beta_steps": None,
        "clip_grad_norm": 10.0,
    },
}
_ATARI_RAINBOW = {
    "learning_rate": 6.25e-5,
    "optim_kwargs": {"eps": 1.5e-4},
    "min_steps_learn": 20_000,
}

_PQN_ATARI: Parts = {
    "steps": 10_000_000,
    "torch_threads": 0,
    "sampler": {"batch_T": 32, "batch_B": 128},
    "agent": {"model": {"layer_norm": True}, "args": {"eps_final": 0.001}},
    "algo": {
        "discount": 0.99,
        "learning_rate": 2.5e-4,
        "q_lambda": 0.65,
        "minibatches": 32,
        "epochs": 2,
        "eps_steps": 1_000_000,
    },
}

ATARI: dict[str, Parts] = {
    "dqn": _ATARI,
    "catdqn": with_parts(
        _ATARI, algo={"learning_rate": 2.5e-4, "optim_kwargs": {"eps": 0.01 / 32}}
    ),
    "rainbow": with_parts(
        _ATARI,
        agent={"dueling": True, "noisy": True, "args": {}},
        algo={**_RAINBOW, **_ATARI_RAINBOW, "pri_alpha": 0.5},
    ),
    "qrdqn": with_parts(_ATARI, algo={"learning_rate": 5e-5, "optim_kwargs": {"eps": 0.01 / 32}}),
    "iqn": with_parts(_ATARI, algo={"learning_rate": 5e-5, "optim_kwargs": {"eps": 0.01 / 32}}),
    "pqn": _PQN_ATARI,
    "r2d1": {
        **_ATARI,
        "sampler": {"batch_T": 40, "batch_B": 16},
        "agent": {
            "recurrent": True,
            "dueling": True,
            "args": {"eps_final": 0.1, "eps_final_min": 0.0005},
        },
        "algo": {
            "learning_rate": 1e-4,
            "optim_kwargs": {"eps": 1e-3},
            "batch_T": 80,
            "batch_B": 16,
            "warmup_T": 40,
            "store_rnn_state_interval": 40,
            "min_steps_learn": 50_000,
            "replay_size": 500_000,
            "replay_ratio": 3,
            "target_update_interval": 2500,
            "eps_steps": 250_000,
            "pri_beta_steps": None,
        },
    },
}

# Network, replay, start of learning and exploration of Young & Tian 2019; batches are twice as
# large and used every fourth step instead of every step. Adam's epsilon is that of Bellemare et al.
# 2017.
MINATAR_NETWORK: Parts = {
    "hidden_sizes": [128],
    "model": {"channels": [16], "kernel_sizes": [3], "strides": [1], "paddings": [0]},
}
_MINATAR: Parts = {
    "steps": 1_000_000,
    "sampler": {"kind": "serial", "batch_T": 4, "batch_B": 4},
    "agent": {**MINATAR_NETWORK, "args": {"eps_final": 0.02}},
    "algo": {
        "discount": 0.99,
        "learning_rate": 5e-4,
        "optim_kwargs": {"eps": 0.01 / 32},
        "batch_size": 64,
        "min_steps_learn": 5_000,
        "replay_size": 100_000,
        "replay_ratio": 16,
        "target_update_interval": 250,
        "eps_steps": 100_000,
        "pri_beta_steps": None,
        "clip_grad_norm": 10.0,
    },
}
# Rewards are 0 and 1, and guns reload in 5 steps, so discounted returns are at most about 20.
_MINATAR_ATOMS = {"V_min": 0.0, "V_max": 25.0, "learning_rate": 2.5e-4}

MINATAR: dict[str, Parts] = {
    "dqn": _MINATAR,
    "pqn": with_parts(
        _PQN_ATARI,
        steps=1_000_000,
        torch_threads=1,
        agent={
            "hidden_sizes": MINATAR_NETWORK["hidden_sizes"],
            "model": {**MINATAR_NETWORK["model"], "layer_norm": True},
            "args": {"eps_final": 0.05},
        },
        algo={"learning_rate": "linear:5e-4", "eps_steps": 100_000},
    ),
    "catdqn": with_parts(_MINATAR, algo=_MINATAR_ATOMS),
    "rainbow": with_parts(
        _MINATAR,
        agent={"dueling": True, "noisy": True, "args": {}},
        algo={**_MINATAR_ATOMS, **_RAINBOW, "pri_alpha": 0.5},
    ),
    "qrdqn": with_parts(
        _MINATAR,
        agent={"args": {"eps_final": 0.02, "n_quantiles": 51}},
        algo={"learning_rate": 2.5e-4},
    ),
    # Eight quantile fractions everywhere: with 16, and 32 for acting, a step takes twice as long.
    "iqn": with_parts(
        _MINATAR,
        agent={"args": {"eps_final": 0.02, "n_act_quantiles": 8}},
        algo={"learning_rate": 2.5e-4, "n_tau": 8, "n_tau_target": 8},
    ),
    "r2d1": with_parts(
        CLASSIC["r2d1"],
        steps=1_000_000,
        agent={
            "hidden_sizes": [128],
            "model": {**MINATAR_NETWORK["model"], "lstm_size": 128, "head_size": 128},
        },
        algo={
            "learning_rate": 5e-4,
            "optim_kwargs": {"eps": 0.01 / 32},
            "target_update_interval": 250,
            "eps_steps": 100_000,
        },
    ),
}

TUNED: dict[str, dict[str, Parts]] = {
    "CartPole-v1": {"pqn": {"algo": {"reward_scale": 0.1}}},
    # No action influences later rewards.
    "toy/mask": {"dqn": {"steps": 20_000, "algo": {"discount": 0.0}}},
    "toy/parts": {"dqn": {"steps": 30_000, "algo": {"discount": 0.0}}},
    "toy/memory": {
        "catdqn": {"algo": {"V_min": -2.0, "V_max": 2.0, "learning_rate": 1e-3}},
        "rainbow": {"algo": {"V_min": -2.0, "V_max": 2.0}},
        "r2d1": {
            "steps": 60_000,
            "sampler": {"batch_T": 10, "batch_B": 8},
        },
    },
}
