"""SAC and TD3 on HalfCheetah-v5: hand-written loops, Stable-Baselines3, and rlpyt.

Each function returns a workload with the hyperparameters of `HYPER`: one environment, one update
of all networks per step (TD3's policy and targets every second step), two hidden layers of 256
units. All start in the same state.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from benchmarks.harness import Progress, Workload, turns
from rlpyt.utils.seed import env_seed

ENV = "HalfCheetah-v5"
ITERATION = 64  # steps per report


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Hyperparameters of all contenders."""

    batch_size: int = 256
    learning_rate: float = 3e-4
    discount: float = 0.99
    tau: float = 0.005
    hidden: int = 256
    learning_starts: int = 1000
    replay_size: int = 100_000
    policy_delay: int = 2  # TD3
    action_std: float = 0.1  # TD3


HYPER = Hyper()


def hand_written(algo: str) -> Workload:
    """Run a single-file implementation in the style of CleanRL."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    environment = gym.wrappers.RecordEpisodeStatistics(gym.make(ENV))
    n_obs, n_act = environment.observation_space.shape[0], environment.action_space.shape[0]  # type: ignore[index]
    act, update = {"sac": _sac, "td3": _td3}[algo](n_obs, n_act)
    n = HYPER.replay_size
    widths = {"observation": n_obs, "after": n_obs, "action": n_act, "reward": 1, "done": 1}
    replay = {name: np.zeros((n, width), np.float32) for name, width in widths.items()}
    returns: deque[float] = deque(maxlen=100)
    observation, _ = environment.reset(seed=env_seed(0, 0))
    step = 0
    for n_steps in turns(HYPER.learning_starts, ITERATION):
        for _ in range(n_steps):
            seen = torch.as_tensor(observation, dtype=torch.float32)[None]
            action = (
                rng.uniform(-1, 1, n_act) if step < HYPER.learning_starts else act(seen).numpy()[0]
            )
            after, reward, terminated, truncated, info = environment.step(action)
            columns = (observation, after, action, reward, terminated)
            for column, value in zip(replay.values(), columns):
                column[step % n] = value
            observation = after
            if terminated or truncated:
                returns.append(float(info["episode"]["r"]))
                observation, _ = environment.reset()
            step += 1
            if step > HYPER.learning_starts:
                rows = rng.integers(0, min(step, n), HYPER.batch_size)
                update([torch.from_numpy(column[rows]) for column in replay.values()])
        yield Progress(n_steps, float(np.mean(returns)) if returns else None)


Parts = tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[list[torch.Tensor]], None]]


def _mlp(n_in: int, n_out: int) -> nn.Sequential:
    h = HYPER.hidden
    return nn.Sequential(
        nn.Linear(n_in, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, n_out)
    )


def _critics(n_in: int) -> tuple[nn.Module, nn.Module, Any]:
    critics = nn.ModuleList([_mlp(n_in, 1), _mlp(n_in, 1)])
    return critics, copy.deepcopy(critics), _adam(critics.parameters())


def _adam(parameters: Any) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=HYPER.learning_rate)


def _update_target(target: nn.Module, source: nn.Module) -> None:
    for slow, fast in zip(target.parameters(), source.parameters()):
        slow.data.copy_(HYPER.tau * fast.data + (1 - HYPER.tau) * slow.data)


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

    def update(batch: list[torch.Tensor]) -> None:
        observation, after, action, reward, done = batch
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_action, next_log_pi = draw(after)
            x = torch.cat([after, next_action], 1)
            next_q = torch.min(*(q(x) for q in targets))  # type: ignore[attr-defined]
            y = reward + HYPER.discount * (1 - done) * (next_q - alpha * next_log_pi)
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
        return (action + HYPER.action_std * torch.randn_like(action)).clamp(-1, 1)

    def update(batch: list[torch.Tensor]) -> None:
        nonlocal n_updates
        observation, after, action, reward, done = batch
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(action)).clamp(-0.5, 0.5)
            x = torch.cat([after, (slow_actor(after) + noise).clamp(-1, 1)], 1)
            y = reward + HYPER.discount * (1 - done) * torch.min(*(q(x) for q in targets))  # type: ignore[attr-defined]
        x = torch.cat([observation, action], 1)
        _minimize(q_optimizer, sum(nn.functional.mse_loss(q(x), y) for q in critics))  # type: ignore[attr-defined, arg-type]
        n_updates += 1
        if n_updates % HYPER.policy_delay == 0:
            first = critics[0]  # type: ignore[index]
            _minimize(
                actor_optimizer, -first(torch.cat([observation, actor(observation)], 1)).mean()
            )
            _update_target(targets, critics)
            _update_target(slow_actor, actor)

    return act, update


def products_alone(algo: str) -> Workload:
    """Compute only the matrix products of the updates: an upper bound for torch."""
    steps = [[_operands(*shape) for shape in shapes] for shapes in _products(algo)]
    while True:
        for i in range(ITERATION):
            for left, right, out in steps[i % len(steps)]:
                torch.mm(left, right, out=out)
        yield Progress(ITERATION, None)


def _operands(rows: int, inner: int, columns: int) -> tuple[torch.Tensor, ...]:
    return torch.rand(rows, inner), torch.rand(inner, columns), torch.empty(rows, columns)


def _products(algo: str) -> list[list[tuple[int, int, int]]]:
    """Return the shapes of the products of an update, or of two alternating updates.

    The gradients of a layer's input and weight are one product each; inputs from replay need no
    gradient.
    """
    B, h, n_obs, n_act = HYPER.batch_size, HYPER.hidden, 17, 6
    sizes = {
        "critic": [(n_obs + n_act, h), (h, h), (h, 1)],
        "policy": [(n_obs, h), (h, h), (h, 2 * n_act if algo == "sac" else n_act)],
    }
    forward = {name: [(B, i, o) for i, o in layers] for name, layers in sizes.items()}
    inputs = {name: [(B, o, i) for i, o in layers] for name, layers in sizes.items()}
    weights = {name: [(o, B, i) for i, o in layers] for name, layers in sizes.items()}

    def trained(name: str) -> list[tuple[int, int, int]]:
        return forward[name] + weights[name] + inputs[name][1:]

    targets = forward["policy"] + 2 * forward["critic"]
    critics = targets + 2 * trained("critic")
    policy_gradient = forward["critic"] + inputs["critic"]
    if algo == "sac":
        return [critics + trained("policy") + 2 * policy_gradient]
    return [critics, critics + trained("policy") + policy_gradient]


def stable_baselines3(algo: str, device: str = "cpu") -> Workload:
    """Run Stable-Baselines3; each batch is several iterations of its ``learn`` loop."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.noise import NormalActionNoise
    from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit

    envs = make_vec_env(ENV, 1, seed=env_seed(0, 0))
    n_act = envs.action_space.shape[0]  # type: ignore[index]
    noise = NormalActionNoise(np.zeros(n_act), np.full(n_act, HYPER.action_std))
    model = getattr(stable_baselines3, algo.upper())(
        "MlpPolicy",
        envs,
        learning_rate=HYPER.learning_rate,
        buffer_size=HYPER.replay_size,
        learning_starts=HYPER.learning_starts,
        batch_size=HYPER.batch_size,
        gamma=HYPER.discount,
        tau=HYPER.tau,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [HYPER.hidden, HYPER.hidden]},
        action_noise=noise if algo == "td3" else None,
        device=device,
        seed=0,
    )
    _, callback = model._setup_learn(total_timesteps=10**9, callback=None)
    frequency = TrainFreq(1, TrainFrequencyUnit.STEP)
    for n_steps in turns(HYPER.learning_starts, ITERATION):
        for _ in range(n_steps):
            model.collect_rollouts(
                model.env,
                callback,
                frequency,
                model.replay_buffer,
                action_noise=model.action_noise,
                learning_starts=HYPER.learning_starts,
            )
            if model.num_timesteps > HYPER.learning_starts:
                model.train(gradient_steps=1, batch_size=HYPER.batch_size)
        episodes = model.ep_info_buffer
        yield Progress(n_steps, float(np.mean([e["r"] for e in episodes])) if episodes else None)


def rlpyt(algo: str, cuda_idx: int | None = None, **kwargs: Any) -> Workload:
    """Run rlpyt, built from public classes as in a script.

    Args:
        algo: "sac" or "td3".
        cuda_idx: CUDA device that trains; None for the CPU.
        kwargs: arguments of the algorithm that override the shared hyperparameters.
    """
    from benchmarks.contenders import learning_turns
    from rlpyt.agents.qpg.sac_agent import SacAgent
    from rlpyt.agents.qpg.td3_agent import Td3Agent
    from rlpyt.algos.qpg.sac import SAC
    from rlpyt.algos.qpg.td3 import TD3
    from rlpyt.envs.gym import make
    from rlpyt.samplers.serial.sampler import SerialSampler

    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "discount": HYPER.discount,
        "batch_size": HYPER.batch_size,
        "min_steps_learn": HYPER.learning_starts,
        "replay_size": HYPER.replay_size,
        "replay_ratio": HYPER.batch_size,
        "target_update_tau": HYPER.tau,
        "learning_rate": HYPER.learning_rate,
        **kwargs,
    }
    sizes: Any = {"hidden_sizes": [HYPER.hidden, HYPER.hidden]}
    agent: Any
    if algo == "sac":
        agent = SacAgent(model_kwargs=sizes, q_model_kwargs=sizes)
        learner: Any = SAC(**settings)
    else:
        agent = Td3Agent(model_kwargs=sizes, q_model_kwargs=sizes, action_std=HYPER.action_std)
        settings["q_learning_rate"] = HYPER.learning_rate
        learner = TD3(**settings)
    sampler = SerialSampler(
        EnvCls=make, env_kwargs={"id": ENV}, batch_T=1, batch_B=1, max_decorrelation_steps=0
    )
    affinity = None if cuda_idx is None else dict(cuda_idx=cuda_idx)
    return learning_turns(agent, learner, sampler, affinity, HYPER.learning_starts, ITERATION)
