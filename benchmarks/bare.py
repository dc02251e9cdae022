"""Minimal collection loop in one or two processes, as an upper bound for the machine.

It has no trajectory statistics, bootstrapping, seeds, time limits or checks, only policy and
arrays. It shows the benefit of a second process on this machine.
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
from benchmarks.peers import T


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
