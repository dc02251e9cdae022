"""DQN in one environment: a hand-written loop, Stable-Baselines3, and rlpyt.

Each function returns a workload with the hyperparameters of `HYPER`: two hidden layers of 64
units with ReLU for vector observations, the Nature network for images.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from benchmarks.contenders import NATURE
from benchmarks.harness import Progress, Workload, turns

ITERATION = 256  # steps per report
LEARNING_STARTS = 1000


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Hyperparameters of all contenders."""

    batch_size: int = 32
    steps_per_update: int = 4
    learning_rate: float = 5e-4
    discount: float = 0.99
    target_interval: int = 500  # steps between copies to the target network
    replay_size: int = 20_000
    max_grad_norm: float = 10.0
    eps_final: float = 0.05
    eps_steps: int = 10_000  # steps until epsilon reaches its final value


HYPER = Hyper()


def hand_written(env: str) -> Workload:
    """Run a single-file implementation in the style of CleanRL."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    environment = _environment(env)
    network, target = _network(env, environment), _network(env, environment)
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=HYPER.learning_rate)
    replay = _Ring(environment.observation_space)
    returns: deque[float] = deque(maxlen=100)
    observation, _ = environment.reset(seed=0)
    step = 0
    for n_steps in turns(LEARNING_STARTS, ITERATION):
        for _ in range(n_steps):
            eps = max(HYPER.eps_final, 1 - step * (1 - HYPER.eps_final) / HYPER.eps_steps)
            if rng.random() < eps:
                action = int(rng.integers(environment.action_space.n))
            else:
                with torch.no_grad():
                    action = int(network(torch.as_tensor(observation)[None]).argmax(1))
            after, reward, terminated, truncated, info = environment.step(action)
            replay.add(observation, after, action, reward, terminated)
            observation = after
            if terminated or truncated:
                returns.append(float(info["episode"]["r"]))
                observation, _ = environment.reset()
            step += 1
            if step > LEARNING_STARTS and step % HYPER.steps_per_update == 0:
                states, afters, actions, rewards, dones = replay.sample(rng, HYPER.batch_size)
                with torch.no_grad():
                    best = target(afters).max(1).values
                    goal = rewards + HYPER.discount * best * (1 - dones)
                q = network(states).gather(1, actions[:, None]).squeeze(1)
                loss = nn.functional.smooth_l1_loss(q, goal)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), HYPER.max_grad_norm)
                optimizer.step()
            if step % HYPER.target_interval == 0:
                target.load_state_dict(network.state_dict())
        yield Progress(n_steps, float(np.mean(returns)) if returns else None)


def stable_baselines3(env: str) -> Workload:
    """Run DQN of Stable-Baselines3; each batch is several iterations of its ``learn`` loop."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
    from stable_baselines3.common.vec_env import VecFrameStack

    image = env == "pong"
    if image:
        envs: Any = VecFrameStack(make_atari_env("ale_py:PongNoFrameskip-v4", 1, seed=0), 4)
    else:
        envs = make_vec_env("CartPole-v1", 1, seed=0)
    total = 10**9
    model = DQN(
        "CnnPolicy" if image else "MlpPolicy",
        envs,
        learning_rate=HYPER.learning_rate,
        buffer_size=HYPER.replay_size,
        learning_starts=LEARNING_STARTS,
        batch_size=HYPER.batch_size,
        gamma=HYPER.discount,
        train_freq=HYPER.steps_per_update,
        target_update_interval=HYPER.target_interval,
        exploration_fraction=HYPER.eps_steps / total,
        exploration_final_eps=HYPER.eps_final,
        max_grad_norm=HYPER.max_grad_norm,
        policy_kwargs=None if image else {"net_arch": [64, 64]},
        device="cpu",
        seed=0,
    )
    _, callback = model._setup_learn(total_timesteps=total, callback=None)
    frequency = TrainFreq(HYPER.steps_per_update, TrainFrequencyUnit.STEP)
    assert model.env is not None and model.replay_buffer is not None
    for n_steps in turns(LEARNING_STARTS, ITERATION):
        for _ in range(n_steps // HYPER.steps_per_update):
            model.collect_rollouts(
                model.env,
                callback,
                frequency,
                model.replay_buffer,
                learning_starts=LEARNING_STARTS,
            )
            if model.num_timesteps > LEARNING_STARTS:
                model.train(gradient_steps=1, batch_size=HYPER.batch_size)
        episodes = model.ep_info_buffer
        yield Progress(n_steps, float(np.mean([e["r"] for e in episodes])) if episodes else None)


def rlpyt(
    env: str, n_envs: int = 1, n_steps: int | None = None, sampler: str = "serial", **kwargs: Any
) -> Workload:
    """Run DQN of rlpyt, built from public classes as in a script.

    Args:
        env: "cartpole" or "pong".
        n_envs: batch_B; with four, each environment takes one step per update.
        n_steps: batch_T; ``None`` for one update per batch. More steps give several updates.
        sampler: layout of ``contenders.sampler_for``.
        kwargs: arguments of the algorithm that override the shared hyperparameters.
    """
    from benchmarks.contenders import learning_turns, sampler_for
    from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
    from rlpyt.agents.dqn.vector import DqnMlpAgent
    from rlpyt.algos.dqn.dqn import DQN

    torch.manual_seed(0)
    T = n_steps or HYPER.steps_per_update // n_envs
    collect, affinity = sampler_for(env, n_envs, int(sampler != "serial"), sampler, T)
    Agent, model_kwargs = (
        (AtariDqnAgent, NATURE) if env == "pong" else (DqnMlpAgent, {"hidden_sizes": [64, 64]})
    )
    agent = Agent(model_kwargs=model_kwargs, eps_final=HYPER.eps_final)
    settings: dict[str, Any] = {
        "discount": HYPER.discount,
        "batch_size": HYPER.batch_size,
        "min_steps_learn": LEARNING_STARTS,
        "replay_size": HYPER.replay_size,
        "replay_ratio": HYPER.batch_size / HYPER.steps_per_update,
        "target_update_interval": HYPER.target_interval // HYPER.steps_per_update,
        "learning_rate": HYPER.learning_rate,
        "clip_grad_norm": HYPER.max_grad_norm,
        "eps_steps": HYPER.eps_steps,
        **kwargs,
    }
    algo = DQN(**settings)
    return learning_turns(agent, algo, collect, affinity, LEARNING_STARTS, ITERATION)


class _Ring:
    """Ring buffer of transitions in arrays, with full observations and next observations."""

    def __init__(self, space: Any) -> None:
        n = HYPER.replay_size
        self.observation = np.zeros((n, *space.shape), space.dtype)
        self.after = np.zeros((n, *space.shape), space.dtype)
        self.action = np.zeros(n, np.int64)
        self.reward = np.zeros(n, np.float32)
        self.done = np.zeros(n, np.float32)
        self.added = 0

    def add(self, *transition: Any) -> None:
        i = self.added % len(self.action)
        columns = (self.observation, self.after, self.action, self.reward, self.done)
        for column, value in zip(columns, transition):
            column[i] = value
        self.added += 1

    def sample(self, rng: np.random.Generator, n: int) -> tuple[torch.Tensor, ...]:
        i = rng.integers(0, min(self.added, len(self.action)), n)
        columns = (self.observation, self.after, self.action, self.reward, self.done)
        return tuple(torch.from_numpy(column[i]) for column in columns)


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


def _network(env: str, environment: Any) -> nn.Module:
    n_actions = int(environment.action_space.n)
    if env == "cartpole":
        n_inputs = int(np.prod(environment.observation_space.shape))
        return nn.Sequential(
            nn.Linear(n_inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(),
            nn.Linear(64, n_actions),
        )  # fmt: skip
    return nn.Sequential(
        _Scaled(),
        nn.Conv2d(4, 32, 8, stride=4), nn.ReLU(),
        nn.Conv2d(32, 64, 4, stride=2), nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, n_actions),
    )  # fmt: skip


class _Scaled(nn.Module):
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        return frames / 255.0
