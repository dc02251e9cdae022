"""PPO with an LSTM for comparison with rlpyt: a hand-written loop and sb3-contrib.

Both use the hyperparameters of `HYPER` and one network: a linear layer of 64 tanh units, an LSTM of
128, and linear heads of policy and value.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Distribution, Independent, Normal

from benchmarks.harness import Progress, Workload
from benchmarks.peers import HYPER as FEED_FORWARD
from benchmarks.peers import _orthogonal

# With the usual weight, the value's gradient in the shared LSTM leaves the policy no part.
HYPER = dataclasses.replace(FEED_FORWARD, value_coeff=0.005)
FEATURES, HIDDEN = 64, 128  # sizes of linear layer and LSTM
POSITIONS = {"CartPole-v1": [0, 2], "Pendulum-v1": [0, 1]}  # entries that are not velocities
State = tuple[torch.Tensor, torch.Tensor]  # h and c, [1, B, HIDDEN]


class PositionsOnly(gym.ObservationWrapper[Any, Any, Any]):
    """Environment that hides velocities, so that the policy needs memory."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        space: Any = env.observation_space
        self._kept = POSITIONS[env.spec.id]  # type: ignore[union-attr]
        low, high = space.low[self._kept], space.high[self._kept]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype)

    def observation(self, observation: Any) -> Any:
        return observation[self._kept]


def make(env: str, hidden: bool) -> gym.Env[Any, Any]:
    """Return an environment, without velocities if these are ``hidden``."""
    environment = gym.make(env, disable_env_checker=True)
    return PositionsOnly(environment) if hidden else environment


def hand_written(env: str, hidden: bool, n_envs: int, batch_T: int) -> Workload:
    """Run recurrent PPO written as a single file in the style of CleanRL."""
    np.random.seed(0)
    torch.manual_seed(0)
    envs = gym.vector.SyncVectorEnv(
        [lambda: make(env, hidden)] * n_envs, autoreset_mode=gym.vector.AutoresetMode.SAME_STEP
    )
    loop = _HandWrittenPpo(envs, batch_T)
    try:
        while True:
            loop.rollout()
            loop.update()
            yield Progress(batch_T * n_envs, float(np.mean(loop.returns)) if loop.returns else None)
    finally:
        envs.close()


def sb3_contrib(env: str, hidden: bool, n_envs: int, batch_T: int, **policy: Any) -> Workload:
    """Run RecurrentPPO of sb3-contrib; each batch is one iteration of its ``learn`` loop."""
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Encoder(BaseFeaturesExtractor):
        """The layer before the LSTM."""

        def __init__(self, observation_space: Any) -> None:
            super().__init__(observation_space, FEATURES)
            size = int(np.prod(observation_space.shape))
            self.layers = nn.Sequential(_orthogonal(nn.Linear(size, FEATURES)), nn.Tanh())

        def forward(self, observation: torch.Tensor) -> torch.Tensor:
            return self.layers(observation)

    model = RecurrentPPO(
        "MlpLstmPolicy",
        make_vec_env(lambda: make(env, hidden), n_envs, seed=0),
        n_steps=batch_T,
        batch_size=batch_T * n_envs // HYPER.minibatches,
        n_epochs=HYPER.epochs,
        learning_rate=HYPER.learning_rate,
        gamma=HYPER.discount,
        gae_lambda=HYPER.gae_lambda,
        clip_range=HYPER.ratio_clip,
        ent_coef=HYPER.entropy_coeff,
        vf_coef=HYPER.value_coeff,
        max_grad_norm=HYPER.max_grad_norm,
        policy_kwargs={
            "features_extractor_class": Encoder,
            "lstm_hidden_size": HIDDEN,
            "net_arch": [],
            **policy,
        },
        device="cpu",
        seed=0,
    )
    _, callback = model._setup_learn(total_timesteps=10**9, callback=None)
    assert model.env is not None
    try:
        while True:
            model.collect_rollouts(
                model.env, callback, model.rollout_buffer, n_rollout_steps=batch_T
            )
            model.train()
            episodes = model.ep_info_buffer
            yield Progress(
                batch_T * n_envs, float(np.mean([e["r"] for e in episodes])) if episodes else None
            )
    finally:
        model.env.close()


class _HandWrittenPpo:
    """PPO with rollouts in tensors [T, B, ...] and epochs of minibatches of environments."""

    def __init__(self, envs: Any, T: int) -> None:
        B, action_space = envs.num_envs, envs.single_action_space
        self.envs, self.agent, self.T = envs, _Agent(envs), T
        self.optimizer = torch.optim.Adam(
            self.agent.parameters(), lr=HYPER.learning_rate, eps=HYPER.adam_eps
        )
        self.obs = torch.zeros((T, B, *envs.single_observation_space.shape))
        dtype = torch.float32 if action_space.shape else torch.int64
        self.actions = torch.zeros((T, B, *action_space.shape), dtype=dtype)
        self.logprobs = torch.zeros((T, B))
        self.rewards = torch.zeros((T, B))
        self.dones = torch.zeros((T, B))
        self.values = torch.zeros((T, B))
        self.next_obs = torch.as_tensor(envs.reset(seed=0)[0], dtype=torch.float32)
        self.next_done = torch.zeros(B)
        self.next_state = (torch.zeros(1, B, HIDDEN), torch.zeros(1, B, HIDDEN))
        self.returns: deque[float] = deque(maxlen=100)
        self.running_return = np.zeros(B)

    def rollout(self) -> None:
        self.initial_state = self.next_state
        for step in range(self.T):
            self.obs[step] = self.next_obs
            self.dones[step] = self.next_done
            with torch.no_grad():
                policy, value, self.next_state = self.agent(
                    self.next_obs, self.next_state, self.next_done
                )
                action = policy.sample()
                logprob = policy.log_prob(action)
            self.values[step] = value
            self.actions[step] = action
            self.logprobs[step] = logprob

            clipped = action.numpy()
            if self.agent.log_std is not None:
                space = self.envs.single_action_space
                clipped = np.clip(clipped, space.low, space.high)
            next_obs, reward, terminated, truncated, _ = self.envs.step(clipped)
            done = np.logical_or(terminated, truncated)
            self.rewards[step] = torch.as_tensor(reward)
            self.next_obs = torch.as_tensor(next_obs, dtype=torch.float32)
            self.next_done = torch.as_tensor(done, dtype=torch.float32)

            self.running_return += reward
            if done.any():
                self.returns.extend(self.running_return[done])
                self.running_return[done] = 0

    def update(self) -> None:
        advantages = self._advantages()
        returns = advantages + self.values
        columns = np.arange(self.envs.num_envs)
        for _ in range(HYPER.epochs):
            np.random.shuffle(columns)
            for mb in np.split(columns, HYPER.minibatches):
                policy, value, _ = self.agent(
                    self.obs[:, mb].flatten(0, 1),
                    (self.initial_state[0][:, mb], self.initial_state[1][:, mb]),
                    self.dones[:, mb].flatten(),
                )
                logprob = policy.log_prob(self.actions[:, mb].flatten(0, 1))
                log_ratio = logprob - self.logprobs[:, mb].flatten()
                ratio = log_ratio.exp()
                with torch.no_grad():
                    self.approx_kl = ((ratio - 1) - log_ratio).mean()

                advantage = advantages[:, mb].flatten()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - HYPER.ratio_clip, 1 + HYPER.ratio_clip)
                policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
                value_loss = ((value - returns[:, mb].flatten()) ** 2).mean()
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
            _, next_value, _ = self.agent(self.next_obs, self.next_state, self.next_done)
            advantages = torch.zeros_like(self.rewards)
            last = torch.zeros_like(next_value)
            for t in reversed(range(self.T)):
                end = t == self.T - 1
                not_done = 1.0 - (self.next_done if end else self.dones[t + 1])
                following = next_value if end else self.values[t + 1]
                delta = self.rewards[t] + HYPER.discount * following * not_done - self.values[t]
                last = delta + HYPER.discount * HYPER.gae_lambda * not_done * last
                advantages[t] = last
        return advantages


class _Agent(nn.Module):
    """Linear layer, LSTM and two linear heads; the LSTM runs step by step."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        action_space = envs.single_action_space
        size = int(np.prod(envs.single_observation_space.shape))
        self.encoder = nn.Sequential(_orthogonal(nn.Linear(size, FEATURES)), nn.Tanh())
        self.lstm = nn.LSTM(FEATURES, HIDDEN)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter)
        continuous = bool(action_space.shape)
        n_outputs = int(np.prod(action_space.shape)) if continuous else int(action_space.n)
        self.actor = _orthogonal(nn.Linear(HIDDEN, n_outputs), gain=0.01)
        self.critic = _orthogonal(nn.Linear(HIDDEN, 1), gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(n_outputs)) if continuous else None

    def forward(
        self, obs: torch.Tensor, state: State, done: torch.Tensor
    ) -> tuple[Distribution, torch.Tensor, State]:
        """Return policy and value of [T * B] rows, and the state after the last step."""
        B = state[0].shape[1]
        outputs = []
        features = self.encoder(obs).reshape(-1, B, FEATURES)
        for x, d in zip(features, done.reshape(-1, B)):
            keep = (1.0 - d).view(1, -1, 1)
            output, state = self.lstm(x.unsqueeze(0), (keep * state[0], keep * state[1]))
            outputs.append(output)
        hidden = torch.cat(outputs).flatten(0, 1)
        logits = self.actor(hidden)
        policy: Distribution
        if self.log_std is None:
            policy = Categorical(logits=logits)
        else:
            policy = Independent(Normal(logits, self.log_std.exp().expand_as(logits)), 1)
        return policy, self.critic(hidden).squeeze(-1), state
