"""Libraries that the benchmarks compare, one module each.

A module has a function for each measured algorithm, which returns a workload of
`benchmarks.harness`, and a class `Replay` for `benchmarks.replay`; `Peer` lists them. All libraries
use the hyperparameters below. A library is imported when its workload is built, in the process of
the contender.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any, NamedTuple, Protocol, cast

import gymnasium as gym
import numpy as np

from benchmarks.harness import Contender, Workload

T = 128  # steps per rollout and environment
N_ENVS = 8  # of replays


@dataclasses.dataclass(frozen=True)
class Ppo:
    """Hyperparameters of PPO: two 64x64 tanh MLPs for vectors, the Nature network for images."""

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


@dataclasses.dataclass(frozen=True)
class Dqn:
    """Hyperparameters of DQN: two layers of 64 ReLU for vectors, the Nature network for images."""

    batch_size: int = 32
    steps_per_update: int = 4
    learning_rate: float = 5e-4
    discount: float = 0.99
    target_interval: int = 500  # steps between copies to the target network
    learning_starts: int = 1000
    replay_size: int = 20_000
    max_grad_norm: float = 10.0
    eps_final: float = 0.05
    eps_steps: int = 10_000  # steps until epsilon reaches its final value
    iteration: int = 256  # steps per report


@dataclasses.dataclass(frozen=True)
class Control:
    """Hyperparameters of SAC, TD3 and CrossQ, with an update of all networks per step.

    TD3's policy and targets are updated every ``policy_delay`` steps, CrossQ's policy every three.
    """

    batch_size: int = 256
    steps_per_update: int = 1
    learning_rate: float = 3e-4
    discount: float = 0.99
    tau: float = 0.005
    hidden_sizes: tuple[int, int] = (256, 256)
    learning_starts: int = 1000
    replay_size: int = 100_000
    policy_delay: int = 2  # TD3
    action_std: float = 0.1  # TD3
    iteration: int = 64  # steps per report


PPO, DQN, CONTROL = Ppo(), Dqn(), Control()
CONTROL_ENV = "HalfCheetah-v5"
# Recurrent PPO: a linear layer of 64 tanh units, an LSTM of 128, linear heads of policy and value.
FEATURES, HIDDEN = 64, 128
# With the usual weight, the value's gradient in the shared LSTM leaves the policy no part.
RECURRENT_PPO = dataclasses.replace(PPO, value_coeff=0.005)


class Peer(Protocol):
    """Functions of the module of a library, which may lack some.

    They may have further arguments, for options that only their library has.
    """

    def ppo(self, env: str, n_envs: int, train: bool) -> Workload:
        """Run PPO on "cartpole" or "pong"; only rollouts, with all data, without ``train``."""

    def recurrent_ppo(self, env: str, hidden: bool, n_envs: int, batch_T: int) -> Workload:
        """Run PPO with an LSTM on an environment of `recurrent_env`."""

    def dqn(self, env: str) -> Workload:
        """Run DQN on "cartpole" or "pong", in one environment."""

    def control(self, algo: str) -> Workload:
        """Run "sac", "td3" or "crossq" on `CONTROL_ENV`, in one environment.

        It starts in the same state in all libraries.
        """

    def Replay(self, task: ReplayTask) -> Replay:
        """Build an empty replay."""


class ReplayTask(NamedTuple):
    """Stored data and sampling of a replay."""

    frames: bool = False  # 84x84x4 uint8 instead of 4 floats
    prioritized: bool = False
    capacity: int = 1_000_000

    @property
    def shape(self) -> tuple[int, ...]:
        return (4, 84, 84) if self.frames else (4,)

    @property
    def dtype(self) -> Any:
        return np.uint8 if self.frames else np.float32


class Block(NamedTuple):
    """Steps [T, N_ENVS] of all environments."""

    observation: Any
    next_observation: Any
    action: Any
    reward: Any
    done: Any


class Replay(Protocol):
    """Replay that is filled and sampled as users of its library would do.

    The contents of a batch depend on the library: rlpyt's also have the previous action and reward,
    n-step return and bootstrap discount.
    """

    def insert(self, block: Block) -> None:
        """Store a block."""

    def sample(self, n: int) -> Any:
        """Return a batch of ``n`` transitions."""

    def update(self, batch: Any, priorities: Any) -> None:
        """Set the priorities of a batch."""


def peer(library: str) -> Peer:
    """Return the module of a library, by the name of its file."""
    return cast(Peer, importlib.import_module(f"{__name__}.{library}"))


def contender(
    name: str, library: str, algo: str, /, threads: int = 1, note: str = "", **task: Any
) -> Contender:
    """Return a row of a table: an algorithm of a library, and the arguments of its function."""
    return Contender(name, _run, {"where": (library, algo), **task}, threads, note)


def _run(where: tuple[str, str], **task: Any) -> Workload:
    library, algo = where
    workload: Workload = getattr(peer(library), algo)(**task)
    return workload


def recurrent_env(env: str, hidden: bool) -> gym.Env[Any, Any]:
    """Return an environment, without velocities if these are ``hidden``."""
    if not hidden:
        return gym.make(env, disable_env_checker=True)
    from benchmarks.tasks import positions

    return positions(env, disable_env_checker=True)
