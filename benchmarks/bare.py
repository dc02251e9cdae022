"""Upper bounds: a minimal collection loop, the environment alone, and the matrix products alone.

The collection loop runs in one or two processes. It has no trajectory statistics, bootstrapping,
seeds, time limits or checks, only policy and arrays. It shows the benefit of a second process on
this machine.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from benchmarks.harness import Progress, Workload
from benchmarks.peers import CONTROL, T
from benchmarks.peers.hand_written import NEXT_STEP, vector_env


def bare_loop(n_envs: int, n_processes: int) -> Workload:
    """Sample CartPole with two 64x64 tanh MLPs in torch, T steps at a time."""
    return in_processes(_serve, (n_envs // n_processes,), n_processes, T * n_envs)


def in_processes(
    serve: Callable[..., None], args: tuple[Any, ...], n_processes: int, steps: int
) -> Workload:
    """Run ``serve(pipe, *args)`` in processes that synchronize per batch of ``steps`` in total."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(n_processes):
        parent, child = context.Pipe()
        process = context.Process(target=serve, args=(child, *args), daemon=True)
        process.start()
        pipes.append(parent)
        processes.append(process)
    try:
        while True:
            for pipe in pipes:
                pipe.send(True)
            for pipe in pipes:
                pipe.recv()
            yield Progress(steps, None)
    finally:
        for process in processes:
            process.kill()


def _serve(pipe: Connection, B: int) -> None:
    torch.set_num_threads(1)
    envs = [gym.make("CartPole-v1", disable_env_checker=True) for _ in range(B)]
    policy, value = _mlp(2), _mlp(1)
    observation = np.stack([env.reset(seed=b)[0] for b, env in enumerate(envs)])
    record: dict[str, Any] = {
        "observation": np.zeros((T, B, 4), np.float32),
        "action": np.zeros((T, B), np.int64),
        "probability": np.zeros((T, B, 2), np.float32),
        "value": np.zeros((T, B), np.float32),
        "reward": np.zeros((T, B), np.float32),
        "done": np.zeros((T, B), bool),
    }
    rng = np.random.default_rng()
    with torch.inference_mode():
        while True:
            pipe.recv()
            for t in range(T):
                inputs = torch.from_numpy(observation)
                p = torch.softmax(policy(inputs), -1).numpy()
                action = (p.cumsum(-1) < rng.random((B, 1))).sum(-1)
                record["observation"][t] = observation
                record["action"][t] = action
                record["probability"][t] = p
                record["value"][t] = value(inputs)[:, 0].numpy()
                for b, env in enumerate(envs):
                    o, r, terminated, truncated, _ = env.step(action[b])
                    done = terminated or truncated
                    observation[b] = env.reset()[0] if done else o
                    record["reward"][t, b], record["done"][t, b] = r, done
            pipe.send(True)


def _mlp(outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def env_alone(env: str, n_envs: int) -> Workload:
    """Step without policy or recording, on one core (all cores for Pong): an upper bound."""
    rng = np.random.default_rng(0)
    if env == "pong":
        envs = vector_env(env, n_envs, NEXT_STEP)
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


def products_alone(algo: str) -> Workload:
    """Compute only the matrix products of the updates: an upper bound for torch."""
    steps = [[_operands(*shape) for shape in shapes] for shapes in _products(algo)]
    while True:
        for i in range(CONTROL.iteration):
            for left, right, out in steps[i % len(steps)]:
                torch.mm(left, right, out=out)
        yield Progress(CONTROL.iteration, None)


def _operands(rows: int, inner: int, columns: int) -> tuple[torch.Tensor, ...]:
    return torch.rand(rows, inner), torch.rand(inner, columns), torch.empty(rows, columns)


def _products(algo: str) -> list[list[tuple[int, int, int]]]:
    """Return the shapes of the products of an update, or of two alternating updates.

    The gradients of a layer's input and weight are one product each; inputs from replay need no
    gradient.
    """
    B, n_obs, n_act = CONTROL.batch_size, 17, 6
    h, _ = CONTROL.hidden_sizes
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
