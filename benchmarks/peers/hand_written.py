"""Algorithms written as a single file in the style of CleanRL."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Distribution, Independent, Normal

from benchmarks.harness import Progress, Workload, turns
from benchmarks.peers import (
    CONTROL,
    CONTROL_ENV,
    DQN,
    FEATURES,
    HIDDEN,
    PPO,
    RECURRENT_PPO,
    Control,
    Dqn,
    Ppo,
    T,
    recurrent_env,
)

State = Any  # of an LSTM: h and c, [1, B, HIDDEN]; None without one
SAME_STEP, NEXT_STEP = gym.vector.AutoresetMode.SAME_STEP, gym.vector.AutoresetMode.NEXT_STEP


def ppo(env: str, n_envs: int, train: bool) -> Workload:
    """Run PPO."""
    _seed()
    # With gymnasium's default, the row after a done is not a transition. It is the fastest mode, so
    # it is used without training; with training, all rows are transitions.
    envs = vector_env(env, n_envs, SAME_STEP if train else NEXT_STEP)
    agent = (_ImageAgent if env == "pong" else _VectorAgent)(envs)
    return _iterations(_Ppo(envs, agent, PPO, T), train)


def recurrent_ppo(env: str, hidden: bool, n_envs: int, batch_T: int) -> Workload:
    """Run PPO with an LSTM."""
    _seed()
    envs = gym.vector.SyncVectorEnv(
        [lambda: recurrent_env(env, hidden)] * n_envs, autoreset_mode=SAME_STEP
    )
    return _iterations(_RecurrentPpo(envs, _LstmAgent(envs), RECURRENT_PPO, batch_T), True)


def dqn(env: str) -> Workload:
    """Run DQN."""
    rng = _seed()
    environment = _environment(env)
    space, n_actions = environment.observation_space, int(environment.action_space.n)
    network, target = _q_network(space, n_actions), _q_network(space, n_actions)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=DQN.learning_rate)

    def act(observation: Any, step: int) -> Any:
        eps = max(DQN.eps_final, 1 - step * (1 - DQN.eps_final) / DQN.eps_steps)
        if rng.random() < eps:
            return int(rng.integers(n_actions))
        with torch.no_grad():
            return int(network(torch.as_tensor(observation)[None]).argmax(1))

    def update(batch: list[torch.Tensor], step: int) -> None:
        states, afters, actions, rewards, dones = batch
        with torch.no_grad():
            best = target(afters).max(1).values
            goal = rewards + DQN.discount * best * (1 - dones)
        q = network(states).gather(1, actions[:, None]).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), DQN.max_grad_norm)
        optimizer.step()
        if step % DQN.target_interval == 0:
            target.load_state_dict(network.state_dict())

    row = (space.shape, space.dtype)
    columns = (row, row, ((), np.int64), ((), np.float32), ((), np.float32))
    return _off_policy(environment, 0, act, update, columns, DQN, rng)


def control(algo: str) -> Workload:
    """Run SAC or TD3."""
    from rlpyt.utils.seed import env_seed

    rng = _seed()
    environment: Any = gym.wrappers.RecordEpisodeStatistics(gym.make(CONTROL_ENV))
    n_obs, n_act = environment.observation_space.shape[0], environment.action_space.shape[0]
    policy, update = {"sac": _sac, "td3": _td3}[algo](n_obs, n_act)

    def act(observation: Any, step: int) -> Any:
        if step < CONTROL.learning_starts:
            return rng.uniform(-1, 1, n_act)
        return policy(torch.as_tensor(observation, dtype=torch.float32)[None]).numpy()[0]

    columns = [((width,), np.float32) for width in (n_obs, n_obs, n_act, 1, 1)]
    return _off_policy(environment, env_seed(0, 0), act, update, columns, CONTROL, rng)


def _seed() -> np.random.Generator:
    np.random.seed(0)
    torch.manual_seed(0)
    return np.random.default_rng(0)


def _iterations(loop: _Ppo, train: bool) -> Workload:
    try:
        while True:
            loop.rollout()
            if train:
                loop.update()
            mean = float(np.mean(loop.returns)) if loop.returns else None
            yield Progress(loop.rewards.numel(), mean)
    finally:
        loop.envs.close()


class _Ppo:
    """PPO with rollouts in tensors [T, B, ...] and epochs of shuffled minibatches."""

    def __init__(self, envs: Any, agent: Any, hyper: Ppo, T: int) -> None:
        B = envs.num_envs
        space, action_space = envs.single_observation_space, envs.single_action_space
        self.envs, self.agent, self.hyper, self.T = envs, agent, hyper, T
        self.optimizer = torch.optim.Adam(
            agent.parameters(), lr=hyper.learning_rate, eps=hyper.adam_eps
        )
        obs_type = torch.uint8 if space.dtype == np.uint8 else torch.float32
        self.obs = torch.zeros((T, B, *space.shape), dtype=obs_type)
        self.bounds = (action_space.low, action_space.high) if action_space.shape else None
        dtype = torch.float32 if action_space.shape else torch.int64
        self.actions = torch.zeros((T, B, *action_space.shape), dtype=dtype)
        self.logprobs = torch.zeros((T, B))
        self.rewards = torch.zeros((T, B))
        self.dones = torch.zeros((T, B))
        self.values = torch.zeros((T, B))
        self.next_obs = torch.as_tensor(envs.reset(seed=0)[0], dtype=obs_type)
        self.next_done = torch.zeros(B)
        self.next_state: State = agent.initial_state(B)
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

            applied = action.numpy()
            if self.bounds is not None:
                applied = np.clip(applied, *self.bounds)
            next_obs, reward, terminated, truncated, _ = self.envs.step(applied)
            done = np.logical_or(terminated, truncated)
            self.rewards[step] = torch.as_tensor(reward)
            self.next_obs = torch.as_tensor(next_obs, dtype=self.obs.dtype)
            self.next_done = torch.as_tensor(done, dtype=torch.float32)

            self.running_return += reward
            if done.any():
                self.returns.extend(self.running_return[done])
                self.running_return[done] = 0

    def update(self) -> None:
        hyper, advantages = self.hyper, self._advantages()
        columns = (
            self.obs, self.dones, self.actions, self.logprobs, advantages, advantages + self.values,
        )  # fmt: skip
        for minibatch, state in self.minibatches(columns):
            obs, dones, actions, logprobs, advantage, returns = minibatch
            policy, value, _ = self.agent(obs, state, dones)
            log_ratio = policy.log_prob(actions) - logprobs
            ratio = log_ratio.exp()
            with torch.no_grad():
                self.approx_kl = ((ratio - 1) - log_ratio).mean()

            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = torch.clamp(ratio, 1 - hyper.ratio_clip, 1 + hyper.ratio_clip)
            policy_loss = -torch.min(advantage * ratio, advantage * clipped).mean()
            value_loss = ((value - returns) ** 2).mean()
            loss = (
                policy_loss
                - hyper.entropy_coeff * policy.entropy().mean()
                + hyper.value_coeff * value_loss
            )

            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.agent.parameters(), hyper.max_grad_norm)
            self.optimizer.step()

    def minibatches(self, columns: Any) -> Iterator[tuple[list[torch.Tensor], State]]:
        """Yield transitions [n, ...] in random order."""
        flat = [column.flatten(0, 1) for column in columns]
        for mb in self._shuffled(self.rewards.numel()):
            yield [column[mb] for column in flat], None

    def _shuffled(self, n: int) -> Iterator[np.ndarray]:
        idxs = np.arange(n)
        for _ in range(self.hyper.epochs):
            np.random.shuffle(idxs)
            yield from np.split(idxs, self.hyper.minibatches)

    def _advantages(self) -> torch.Tensor:
        """Return the generalized advantages, [T, B]."""
        discount, gae_lambda = self.hyper.discount, self.hyper.gae_lambda
        with torch.no_grad():
            _, next_value, _ = self.agent(self.next_obs, self.next_state, self.next_done)
            advantages = torch.zeros_like(self.rewards)
            last = torch.zeros_like(next_value)
            for t in reversed(range(self.T)):
                end = t == self.T - 1
                not_done = 1.0 - (self.next_done if end else self.dones[t + 1])
                following = next_value if end else self.values[t + 1]
                delta = self.rewards[t] + discount * following * not_done - self.values[t]
                last = delta + discount * gae_lambda * not_done * last
                advantages[t] = last
        return advantages


class _RecurrentPpo(_Ppo):
    """PPO whose minibatches are whole environments."""

    def minibatches(self, columns: Any) -> Iterator[tuple[list[torch.Tensor], State]]:
        for mb in self._shuffled(self.envs.num_envs):
            state = tuple(part[:, mb] for part in self.initial_state)
            yield [column[:, mb].flatten(0, 1) for column in columns], state


class _Agent(nn.Module):
    """Policy and value of rows, and the state after them: none for feed-forward networks."""

    def initial_state(self, B: int) -> State:
        return None

    def forward(
        self, obs: torch.Tensor, state: State, done: torch.Tensor
    ) -> tuple[Distribution, torch.Tensor, State]:
        raise NotImplementedError


class _VectorAgent(_Agent):
    """Two MLPs of 64x64 tanh units."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        size = int(np.prod(envs.single_observation_space.shape))
        self.actor = _tanh_mlp(size, int(envs.single_action_space.n), gain=0.01)
        self.critic = _tanh_mlp(size, 1, gain=1.0)

    def forward(self, obs: torch.Tensor, state: State, done: torch.Tensor) -> Any:
        return Categorical(logits=self.actor(obs)), self.critic(obs).squeeze(-1), None


class _ImageAgent(_Agent):
    """Nature network with two heads."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        self.network = nn.Sequential(*_nature(orthogonal))
        self.actor = orthogonal(nn.Linear(512, int(envs.single_action_space.n)), gain=0.01)
        self.critic = orthogonal(nn.Linear(512, 1), gain=1.0)

    def forward(self, obs: torch.Tensor, state: State, done: torch.Tensor) -> Any:
        hidden = self.network(obs)
        return Categorical(logits=self.actor(hidden)), self.critic(hidden).squeeze(-1), None


class _LstmAgent(_Agent):
    """Linear layer, LSTM and two linear heads; the LSTM runs step by step."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        action_space = envs.single_action_space
        size = int(np.prod(envs.single_observation_space.shape))
        self.encoder = nn.Sequential(orthogonal(nn.Linear(size, FEATURES)), nn.Tanh())
        self.lstm = nn.LSTM(FEATURES, HIDDEN)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter)
        continuous = bool(action_space.shape)
        n_outputs = int(np.prod(action_space.shape)) if continuous else int(action_space.n)
        self.actor = orthogonal(nn.Linear(HIDDEN, n_outputs), gain=0.01)
        self.critic = orthogonal(nn.Linear(HIDDEN, 1), gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(n_outputs)) if continuous else None

    def initial_state(self, B: int) -> State:
        return torch.zeros(1, B, HIDDEN), torch.zeros(1, B, HIDDEN)

    def forward(self, obs: torch.Tensor, state: State, done: torch.Tensor) -> Any:
        """Return the outputs of [T * B] rows."""
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


def _off_policy(
    environment: Any,
    seed: int,
    act: Callable[[Any, int], Any],
    update: Callable[[list[torch.Tensor], int], None],
    columns: Any,
    hyper: Dqn | Control,
    rng: np.random.Generator,
) -> Workload:
    """Step one environment and update from a ring buffer.

    Args:
        columns: shape and dtype of observation, next observation, action, reward and done.
    """
    n = hyper.replay_size
    replay = [np.zeros((n, *shape), dtype) for shape, dtype in columns]
    returns: deque[float] = deque(maxlen=100)
    observation, _ = environment.reset(seed=seed)
    step = 0
    for n_steps in turns(hyper.learning_starts, hyper.iteration):
        for _ in range(n_steps):
            action = act(observation, step)
            after, reward, terminated, truncated, info = environment.step(action)
            for column, value in zip(replay, (observation, after, action, reward, terminated)):
                column[step % n] = value
            observation = after
            if terminated or truncated:
                returns.append(float(info["episode"]["r"]))
                observation, _ = environment.reset()
            step += 1
            if step > hyper.learning_starts and step % hyper.steps_per_update == 0:
                rows = rng.integers(0, min(step, n), hyper.batch_size)
                update([torch.from_numpy(column[rows]) for column in replay], step)
        yield Progress(n_steps, float(np.mean(returns)) if returns else None)


Parts = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[list[torch.Tensor], int], None]]


def _mlp(n_in: int, n_out: int) -> nn.Sequential:
    return _relu_mlp(n_in, *CONTROL.hidden_sizes, n_out)


def _critics(n_in: int) -> tuple[nn.Module, nn.Module, Any]:
    critics = nn.ModuleList([_mlp(n_in, 1), _mlp(n_in, 1)])
    return critics, copy.deepcopy(critics), _adam(critics.parameters())


def _adam(parameters: Any) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=CONTROL.learning_rate)


def _update_target(target: nn.Module, source: nn.Module) -> None:
    for slow, fast in zip(target.parameters(), source.parameters()):
        slow.data.copy_(CONTROL.tau * fast.data + (1 - CONTROL.tau) * slow.data)


def _minimize(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def _sac(n_obs: int, n_act: int) -> Parts:
    actor = _mlp(n_obs, 2 * n_act)
    critics, targets, q_optimizer = _critics(n_obs + n_act)
    log_alpha = torch.zeros(1, requires_grad=True)
    actor_optimizer, alpha_optimizer = _adam(actor.parameters()), _adam([log_alpha])

    def draw(observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = actor(observation).chunk(2, -1)
        log_std = -5 + 0.5 * (2 + 5) * (torch.tanh(log_std) + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x = normal.rsample()
        action = torch.tanh(x)
        log_pi = normal.log_prob(x) - torch.log(1 - action.pow(2) + 1e-6)
        return action, log_pi.sum(1, keepdim=True)

    @torch.no_grad()
    def act(observation: torch.Tensor) -> torch.Tensor:
        return draw(observation)[0]

    def update(batch: list[torch.Tensor], step: int) -> None:
        observation, after, action, reward, done = batch
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_action, next_log_pi = draw(after)
            x = torch.cat([after, next_action], 1)
            next_q = torch.min(*(q(x) for q in targets))  # type: ignore[attr-defined]
            y = reward + CONTROL.discount * (1 - done) * (next_q - alpha * next_log_pi)
        x = torch.cat([observation, action], 1)
        _minimize(q_optimizer, sum(nn.functional.mse_loss(q(x), y) for q in critics))  # type: ignore[attr-defined, arg-type]
        own, log_pi = draw(observation)
        x = torch.cat([observation, own], 1)
        q = torch.min(*(q(x) for q in critics))  # type: ignore[attr-defined]
        _minimize(actor_optimizer, (alpha * log_pi - q).mean())
        _minimize(alpha_optimizer, (-log_alpha.exp() * (log_pi.detach() - n_act)).mean())
        _update_target(targets, critics)

    return act, update


def _td3(n_obs: int, n_act: int) -> Parts:
    actor = nn.Sequential(_mlp(n_obs, n_act), nn.Tanh())
    slow_actor = copy.deepcopy(actor)
    critics, targets, q_optimizer = _critics(n_obs + n_act)
    actor_optimizer = _adam(actor.parameters())
    n_updates = 0

    @torch.no_grad()
    def act(observation: torch.Tensor) -> torch.Tensor:
        action = actor(observation)
        return (action + CONTROL.action_std * torch.randn_like(action)).clamp(-1, 1)

    def update(batch: list[torch.Tensor], step: int) -> None:
        nonlocal n_updates
        observation, after, action, reward, done = batch
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
            x = torch.cat([after, (slow_actor(after) + noise).clamp(-1, 1)], 1)
            y = reward + CONTROL.discount * (1 - done) * torch.min(*(q(x) for q in targets))  # type: ignore[attr-defined]
        x = torch.cat([observation, action], 1)
        _minimize(q_optimizer, sum(nn.functional.mse_loss(q(x), y) for q in critics))  # type: ignore[attr-defined, arg-type]
        n_updates += 1
        if n_updates % CONTROL.policy_delay == 0:
            first = critics[0]  # type: ignore[index]
            _minimize(
                actor_optimizer, -first(torch.cat([observation, actor(observation)], 1)).mean()
            )
            _update_target(targets, critics)
            _update_target(slow_actor, actor)

    return act, update


def _relu_mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _tanh_mlp(size: int, outputs: int, gain: float) -> nn.Sequential:
    return nn.Sequential(
        orthogonal(nn.Linear(size, 64)), nn.Tanh(), orthogonal(nn.Linear(64, 64)), nn.Tanh(),
        orthogonal(nn.Linear(64, outputs), gain=gain),
    )  # fmt: skip


def _q_network(space: Any, n_actions: int) -> nn.Sequential:
    if len(space.shape) == 1:
        return _relu_mlp(*space.shape, 64, 64, n_actions)
    return nn.Sequential(*_nature(), nn.Linear(512, n_actions))


def _nature(initialize: Callable[[Any], Any] = lambda layer: layer) -> list[nn.Module]:
    """Return the layers of the Nature network up to its 512 features."""
    return [
        _Scaled(),
        initialize(nn.Conv2d(4, 32, 8, stride=4)), nn.ReLU(),
        initialize(nn.Conv2d(32, 64, 4, stride=2)), nn.ReLU(),
        initialize(nn.Conv2d(64, 64, 3, stride=1)), nn.ReLU(),
        nn.Flatten(), initialize(nn.Linear(64 * 7 * 7, 512)), nn.ReLU(),
    ]  # fmt: skip


class _Scaled(nn.Module):
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return frames / 255.0


def orthogonal(layer: Any, gain: float = 2**0.5) -> Any:
    """Initialize a layer with orthogonal weights and without bias."""
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def vector_env(env: str, n_envs: int, mode: Any) -> Any:
    """Return CartPole or Pong as a vector environment of gymnasium or ALE."""
    if env == "pong":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv("pong", n_envs, episodic_life=True, autoreset_mode=mode)
    makers = [lambda: gym.make("CartPole-v1")] * n_envs
    return gym.vector.SyncVectorEnv(makers, autoreset_mode=mode)


def _environment(env: str) -> Any:
    if env == "cartpole":
        return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
    import ale_py

    gym.register_envs(ale_py)
    game = gym.make("PongNoFrameskip-v4")
    game = gym.wrappers.RecordEpisodeStatistics(game)
    game = gym.wrappers.AtariPreprocessing(game, noop_max=30, frame_skip=4, screen_size=84)
    return _Stacked(game)


class _Stacked(gym.ObservationWrapper):
    """Wrapper that stacks the last four frames, [4, 84, 84]."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.frames = np.zeros((4, 84, 84), np.uint8)
        self.observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)

    def reset(self, **kwargs: Any) -> Any:
        self.frames[:] = 0
        return super().reset(**kwargs)

    def observation(self, observation: Any) -> Any:
        self.frames[:-1] = self.frames[1:]
        self.frames[-1] = observation
        return self.frames.copy()
