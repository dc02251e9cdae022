"""PPO for comparison with rlpyt: a hand-written loop and Stable-Baselines3.

Each function returns a workload of PPO; with ``train=False`` only rollouts, with all data
recorded. All use the hyperparameters of `HYPER`, two 64x64 tanh MLPs for vector observations and
the Nature network for images.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from benchmarks.harness import Progress, Workload

T = 128  # steps per rollout and environment


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Hyperparameters of all contenders, under neutral names."""

    learning_rate: float = 2.5e-4  # constant, since windows have no fixed end
    adam_eps: float = 1e-5
    discount: float = 0.99
    gae_lambda: float = 0.95
    epochs: int = 4
    minibatches: int = 4
    ratio_clip: float = 0.2
    entropy_coeff: float = 0.01
    value_coeff: float = 0.5  # factor of the mean squared error
    max_grad_norm: float = 0.5


HYPER = Hyper()


def hand_written(env: str, n_envs: int, train: bool) -> Workload:
    """Run PPO written as a single file in the style of CleanRL."""
    np.random.seed(0)
    torch.manual_seed(0)
    # With gymnasium's default, the row after a done is not a transition. It is the fastest mode, so
    # it is used without training; with training, all rows are transitions.
    mode = gym.vector.AutoresetMode
    envs = _vector_env(env, n_envs, mode.SAME_STEP if train else mode.NEXT_STEP)
    loop = _HandWrittenPpo(envs, (_ImageAgent if env == "pong" else _VectorAgent)(envs))
    try:
        while True:
            loop.rollout()
            if train:
                loop.update()
            yield Progress(T * n_envs, float(np.mean(loop.returns)) if loop.returns else None)
    finally:
        envs.close()


def stable_baselines3(
    env: str, n_envs: int, train: bool, subproc: bool = False, device: str = "cpu"
) -> Workload:
    """Run PPO of Stable-Baselines3; each batch is one iteration of its ``learn`` loop."""
    from stable_baselines3 import PPO

    envs = _sb3_env(env, n_envs, subproc)
    image = env == "pong"
    model = PPO(
        "CnnPolicy" if image else "MlpPolicy",
        envs,
        n_steps=T,
        batch_size=T * n_envs // HYPER.minibatches,
        n_epochs=HYPER.epochs,
        learning_rate=HYPER.learning_rate,
        gamma=HYPER.discount,
        gae_lambda=HYPER.gae_lambda,
        clip_range=HYPER.ratio_clip,
        ent_coef=HYPER.entropy_coeff,
        vf_coef=HYPER.value_coeff,
        max_grad_norm=HYPER.max_grad_norm,
        policy_kwargs=None if image else {"net_arch": {"pi": [64, 64], "vf": [64, 64]}},
        device=device,
        seed=0,
    )
    _, callback = model._setup_learn(total_timesteps=10**9, callback=None)
    assert model.env is not None  # the wrapped `envs`
    try:
        while True:
            model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=T)
            if train:
                model.train()
            episodes = model.ep_info_buffer
            yield Progress(
                T * n_envs, float(np.mean([e["r"] for e in episodes])) if episodes else None
            )
    finally:
        model.env.close()


def env_alone(env: str, n_envs: int) -> Workload:
    """Step without policy or recording, on one core (all cores for Pong): an upper bound."""
    rng = np.random.default_rng(0)
    if env == "pong":
        envs = _vector_env(env, n_envs, gym.vector.AutoresetMode.NEXT_STEP)
        envs.reset(seed=0)
        while True:
            for action in rng.integers(6, size=(T, n_envs)):
                envs.step(action)
            yield Progress(T * n_envs, None)

    cartpole = gym.make("CartPole-v1")
    cartpole.reset(seed=0)
    while True:
        for action in rng.integers(2, size=T * n_envs).tolist():
            _, _, terminated, truncated, _ = cartpole.step(action)
            if terminated or truncated:
                cartpole.reset()
        yield Progress(T * n_envs, None)


class _HandWrittenPpo:
    """PPO with rollouts in tensors [T, B, ...] and epochs of shuffled minibatches."""

    def __init__(self, envs: Any, agent: nn.Module) -> None:
        B = envs.num_envs
        space = envs.single_observation_space
        self.envs, self.agent = envs, agent
        self.optimizer = torch.optim.Adam(
            agent.parameters(), lr=HYPER.learning_rate, eps=HYPER.adam_eps
        )
        obs_type = torch.uint8 if space.dtype == np.uint8 else torch.float32
        self.obs = torch.zeros((T, B, *space.shape), dtype=obs_type)
        self.actions = torch.zeros((T, B), dtype=torch.int64)
        self.logprobs = torch.zeros((T, B))
        self.rewards = torch.zeros((T, B))
        self.dones = torch.zeros((T, B))
        self.values = torch.zeros((T, B))
        self.next_obs = torch.as_tensor(envs.reset(seed=0)[0], dtype=obs_type)
        self.next_done = torch.zeros(B)
        self.returns: deque[float] = deque(maxlen=100)
        self.running_return = np.zeros(B)

    def rollout(self) -> None:
        for step in range(T):
            self.obs[step] = self.next_obs
            self.dones[step] = self.next_done
            with torch.no_grad():
                logits, value = self.agent(self.next_obs)
                policy = Categorical(logits=logits)
                action = policy.sample()
                logprob = policy.log_prob(action)
            self.values[step] = value
            self.actions[step] = action
            self.logprobs[step] = logprob

            next_obs, reward, terminated, truncated, _ = self.envs.step(action.numpy())
            done = np.logical_or(terminated, truncated)
            self.rewards[step] = torch.as_tensor(reward)
            self.next_obs = torch.as_tensor(next_obs, dtype=self.obs.dtype)
            self.next_done = torch.as_tensor(done, dtype=torch.float32)

            self.running_return += reward
            if done.any():
                self.returns.extend(self.running_return[done])
                self.running_return[done] = 0

    def update(self) -> None:
        advantages = self._advantages()
        obs = self.obs.flatten(0, 1)
        actions, logprobs = self.actions.flatten(), self.logprobs.flatten()
        returns = (advantages + self.values).flatten()
        advantages = advantages.flatten()
        idxs = np.arange(len(actions))
        for _ in range(HYPER.epochs):
            np.random.shuffle(idxs)
            for mb in np.split(idxs, HYPER.minibatches):
                logits, value = self.agent(obs[mb])
                policy = Categorical(logits=logits)
                log_ratio = policy.log_prob(actions[mb]) - logprobs[mb]
                ratio = log_ratio.exp()
                with torch.no_grad():
                    self.approx_kl = ((ratio - 1) - log_ratio).mean()

                advantage = advantages[mb]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - HYPER.ratio_clip, 1 + HYPER.ratio_clip)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = ((value - returns[mb]) ** 2).mean()
                loss = (
                    policy_loss
                    - HYPER.entropy_coeff * policy.entropy().mean()
                    + HYPER.value_coeff * value_loss
                )

                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), HYPER.max_grad_norm)
                self.optimizer.step()

    def _advantages(self) -> torch.Tensor:
        """Return the generalized advantages, [T, B]."""
        with torch.no_grad():
            next_value = self.agent(self.next_obs)[1]
            advantages = torch.zeros_like(self.rewards)
            last = torch.zeros_like(next_value)
            for t in reversed(range(T)):
                not_done = 1.0 - (self.next_done if t == T - 1 else self.dones[t + 1])
                following = next_value if t == T - 1 else self.values[t + 1]
                delta = self.rewards[t] + HYPER.discount * following * not_done - self.values[t]
                last = delta + HYPER.discount * HYPER.gae_lambda * not_done * last
                advantages[t] = last
        return advantages


class _VectorAgent(nn.Module):
    """Two MLPs of 64x64 tanh units: logits [B, A] and value [B]."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        size = int(np.prod(envs.single_observation_space.shape))
        self.actor = _mlp(size, int(envs.single_action_space.n), gain=0.01)
        self.critic = _mlp(size, 1, gain=1.0)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.actor(obs), self.critic(obs).squeeze(-1)


class _ImageAgent(nn.Module):
    """Nature network with two heads: logits [B, A] and value [B]."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = nn.Sequential(
            _orthogonal(nn.Conv2d(4, 32, 8, stride=4)),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(32, 64, 4, stride=2)),
            nn.ReLU(),
            _orthogonal(nn.Conv2d(64, 64, 3, stride=1)),
            nn.ReLU(),
            nn.Flatten(),
            _orthogonal(nn.Linear(64 * 7 * 7, 512)),
            nn.ReLU(),
        )
        self.actor = _orthogonal(nn.Linear(512, int(envs.single_action_space.n)), gain=0.01)
        self.critic = _orthogonal(nn.Linear(512, 1), gain=1.0)

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.network(obs / 255.0)
        return self.actor(hidden), self.critic(hidden).squeeze(-1)


def _mlp(size: int, outputs: int, gain: float) -> nn.Sequential:
    return nn.Sequential(
        _orthogonal(nn.Linear(size, 64)),
        nn.Tanh(),
        _orthogonal(nn.Linear(64, 64)),
        nn.Tanh(),
        _orthogonal(nn.Linear(64, outputs), gain=gain),
    )


def _orthogonal(layer: Any, gain: float = 2**0.5) -> Any:
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _vector_env(env: str, n_envs: int, mode: Any) -> Any:
    if env == "pong":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv("pong", n_envs, episodic_life=True, autoreset_mode=mode)
    make = lambda: gym.make("CartPole-v1")  # noqa: E731
    return gym.vector.SyncVectorEnv([make] * n_envs, autoreset_mode=mode)


def _sb3_env(env: str, n_envs: int, subproc: bool) -> Any:
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    kind = SubprocVecEnv if subproc else DummyVecEnv
    if env == "pong":
        # The id names its module for worker processes; AtariWrapper does the frame skip.
        envs = make_atari_env("ale_py:PongNoFrameskip-v4", n_envs, seed=0, vec_env_cls=kind)
        return VecFrameStack(envs, 4)
    return make_vec_env("CartPole-v1", n_envs, seed=0, vec_env_cls=kind)
