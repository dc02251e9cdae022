"""Stable-Baselines3 and sb3-contrib; each batch is one or several iterations of their ``learn``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from benchmarks.harness import Progress, Workload, turns
from benchmarks.peers import (
    CONTROL,
    CONTROL_ENV,
    DQN,
    FEATURES,
    HIDDEN,
    N_ENVS,
    PPO,
    RECURRENT_PPO,
    Block,
    Control,
    Ppo,
    ReplayTask,
    T,
    recurrent_env,
)
from benchmarks.peers.hand_written import orthogonal

ENDLESS = 10**9  # steps


def ppo(env: str, n_envs: int, train: bool, subproc: bool = False, device: str = "cpu") -> Workload:
    """Run PPO, with environments in worker processes if ``subproc``."""
    from stable_baselines3 import PPO as Model

    image = env == "pong"
    model = Model(
        "CnnPolicy" if image else "MlpPolicy",
        _environments(env, n_envs, subproc),
        n_steps=T,
        policy_kwargs=None if image else {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        device=device,
        **_ppo_settings(PPO, T * n_envs),
    )
    return _on_policy(model, T, train)


def recurrent_ppo(env: str, hidden: bool, n_envs: int, batch_T: int, **policy: Any) -> Workload:
    """Run RecurrentPPO of sb3-contrib.

    Args:
        policy: arguments of its policy, such as ``shared_lstm``.
    """
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Encoder(BaseFeaturesExtractor):
        """The layer before the LSTM."""

        def __init__(self, observation_space: Any) -> None:
            super().__init__(observation_space, FEATURES)
            size = int(np.prod(observation_space.shape))
            self.layers = nn.Sequential(orthogonal(nn.Linear(size, FEATURES)), nn.Tanh())

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            return self.layers(observation)  # type: ignore[no-any-return]

    network = {
        "features_extractor_class": Encoder, "lstm_hidden_size": HIDDEN, "net_arch": [],
    }  # fmt: skip
    model = RecurrentPPO(
        "MlpLstmPolicy",
        make_vec_env(lambda: recurrent_env(env, hidden), n_envs, seed=0),
        n_steps=batch_T,
        policy_kwargs={**network, **policy},
        device="cpu",
        **_ppo_settings(RECURRENT_PPO, batch_T * n_envs),
    )
    return _on_policy(model, batch_T)


def dqn(env: str) -> Workload:
    """Run DQN."""
    from stable_baselines3 import DQN as Model

    image = env == "pong"
    model = Model(
        "CnnPolicy" if image else "MlpPolicy",
        _environments(env, 1),
        learning_rate=DQN.learning_rate,
        buffer_size=DQN.replay_size,
        learning_starts=DQN.learning_starts,
        batch_size=DQN.batch_size,
        gamma=DQN.discount,
        train_freq=DQN.steps_per_update,
        target_update_interval=DQN.target_interval,
        exploration_fraction=DQN.eps_steps / ENDLESS,
        exploration_final_eps=DQN.eps_final,
        max_grad_norm=DQN.max_grad_norm,
        policy_kwargs=None if image else {"net_arch": [64, 64]},
        device="cpu",
        seed=0,
    )
    return _off_policy(model, DQN)


def control(algo: str, device: str = "cpu") -> Workload:
    """Run SAC, TD3 or CrossQ."""
    return _off_policy(control_model(algo, CONTROL_ENV, CONTROL, device=device), CONTROL)


def control_model(algo: str, env: str, hyper: Control, seed: int = 0, device: str = "cpu") -> Any:
    """Return the model of SAC, TD3 or CrossQ, with an environment that starts as rlpyt's does."""
    import sb3_contrib
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.noise import NormalActionNoise

    from rlpyt.utils.seed import env_seed

    envs = make_vec_env(env, 1, seed=env_seed(seed, 0))
    A = envs.action_space.shape[0]  # type: ignore[index]
    noise = NormalActionNoise(np.zeros(A), np.full(A, hyper.action_std))
    cls, own = {
        "sac": (stable_baselines3.SAC, {"tau": hyper.tau}),
        "td3": (stable_baselines3.TD3, {"tau": hyper.tau, "action_noise": noise}),
        "crossq": (sb3_contrib.CrossQ, {}),
    }[algo]
    return cls(
        "MlpPolicy",
        envs,
        learning_rate=hyper.learning_rate,
        buffer_size=hyper.replay_size,
        learning_starts=hyper.learning_starts,
        batch_size=hyper.batch_size,
        gamma=hyper.discount,
        train_freq=hyper.steps_per_update,
        gradient_steps=1,
        policy_kwargs={"net_arch": list(hyper.hidden_sizes)},
        device=device,
        seed=seed,
        **own,
    )


class Replay:
    """`ReplayBuffer`, which stores full observations and next observations, without priorities."""

    def __init__(self, task: ReplayTask) -> None:
        from stable_baselines3.common.buffers import ReplayBuffer

        if task.prioritized:
            raise NotImplementedError("Stable-Baselines3 has no prioritized replay")
        bounds = (0, 255) if task.frames else (-np.inf, np.inf)
        space = gymnasium.spaces.Box(*bounds, task.shape, task.dtype)
        actions = gymnasium.spaces.Discrete(4)
        self.replay = ReplayBuffer(task.capacity, space, actions, "cpu", n_envs=N_ENVS)

    def insert(self, block: Block) -> None:
        infos: list[dict[str, Any]] = [{}] * N_ENVS
        for observation, after, action, reward, done in zip(*block):
            self.replay.add(observation, after, action, reward, done, infos)

    def sample(self, n: int) -> Any:
        return self.replay.sample(n)


def _ppo_settings(hyper: Ppo, batch: int) -> dict[str, Any]:
    return dict(
        batch_size=batch // hyper.minibatches,
        n_epochs=hyper.epochs,
        learning_rate=hyper.learning_rate,
        gamma=hyper.discount,
        gae_lambda=hyper.gae_lambda,
        clip_range=hyper.ratio_clip,
        ent_coef=hyper.entropy_coeff,
        vf_coef=hyper.value_coeff,
        max_grad_norm=hyper.max_grad_norm,
        seed=0,
    )


def _on_policy(model: Any, n_steps: int, train: bool = True) -> Workload:
    _, callback = model._setup_learn(total_timesteps=ENDLESS, callback=None)
    try:
        while True:
            model.collect_rollouts(
                model.env, callback, model.rollout_buffer, n_rollout_steps=n_steps
            )
            if train:
                model.train()
            yield Progress(n_steps * model.n_envs, _mean_return(model))
    finally:
        model.env.close()


def _off_policy(model: Any, hyper: Any) -> Workload:
    from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

    _, callback = model._setup_learn(total_timesteps=ENDLESS, callback=None)
    frequency = TrainFreq(hyper.steps_per_update, TrainFrequencyUnit.STEP)
    try:
        for n_steps in turns(hyper.learning_starts, hyper.iteration):
            for _ in range(n_steps // hyper.steps_per_update):
                model.collect_rollouts(
                    model.env,
                    callback,
                    frequency,
                    model.replay_buffer,
                    action_noise=model.action_noise,
                    learning_starts=hyper.learning_starts,
                )
                if model.num_timesteps > hyper.learning_starts:
                    model.train(gradient_steps=1, batch_size=hyper.batch_size)
            yield Progress(n_steps, _mean_return(model))
    finally:
        model.env.close()


def _mean_return(model: Any) -> float | None:
    episodes = model.ep_info_buffer
    return float(np.mean([e["r"] for e in episodes])) if episodes else None


def _environments(env: str, n_envs: int, subproc: bool = False) -> Any:
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    kind = SubprocVecEnv if subproc else DummyVecEnv
    if env == "pong":
        # The id names its module for worker processes; AtariWrapper does the frame skip.
        envs = make_atari_env("ale_py:PongNoFrameskip-v4", n_envs, seed=0, vec_env_cls=kind)
        return VecFrameStack(envs, 4)
    return make_vec_env("CartPole-v1", n_envs, seed=0, vec_env_cls=kind)
