"""PPO of rlpyt, built from public classes as in a script.

rlpyt is imported when a contender is built, in the contender's process, so that peers can be
measured where rlpyt cannot be imported.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
import torch

from benchmarks import recurrent_peers
from benchmarks.harness import Progress, Workload, turns
from benchmarks.peers import HYPER, T

N_ITR = 10**9  # unlimited; nothing is annealed

# Network size of the peers; rlpyt's default network is smaller.
NATURE = {
    "channels": [32, 64, 64],
    "kernel_sizes": [8, 4, 3],
    "strides": [4, 2, 1],
    "paddings": [0, 0, 0],
    "fc_sizes": 512,
}


def ppo(
    env: str,
    n_envs: int,
    train: bool,
    n_workers: int = 0,
    layout: str = "cpu",
    agent_kwargs: dict[str, Any] | None = None,
    algo_kwargs: dict[str, Any] | None = None,
    cuda_idx: int | None = None,
) -> Workload:
    """Sample with PPO's agent, and optionally train it.

    Args:
        env: "cartpole" or "pong"; "cartpole:KIND" is CartPole in `WithInfo`.
        n_envs: batch_B.
        train: train on the batches.
        n_workers: number of worker processes; 0 for SerialSampler.
        layout: sampler with workers: "cpu", "gpu" (actions served by the main process),
            "alternating" or "no-overlap".
        agent_kwargs: arguments of the agent, e.g. ``fast_acting=False``.
        algo_kwargs: arguments of PPO that override the shared hyperparameters.
        cuda_idx: CUDA device that trains, and acts if actions are served; None for the CPU.
    """
    torch.manual_seed(0)
    agent = _agent(env, **(agent_kwargs or {}))
    sampler, affinity = sampler_for(env, n_envs, n_workers, layout)
    if cuda_idx is not None:
        affinity = dict(affinity or {}, cuda_idx=cuda_idx)
    return _iterations(agent, sampler, affinity, train, **(algo_kwargs or {}))


def recurrent_ppo(
    env: str, hidden: bool, n_envs: int, batch_T: int, memory: str = "lstm"
) -> Workload:
    """Train PPO with the network of `recurrent_peers`.

    Args:
        env: id of an environment.
        hidden: hide velocities.
        n_envs, batch_T: size of a batch.
        memory: kind of memory.
    """
    from rlpyt.agents.pg.vector import CategoricalLstmAgent, GaussianLstmAgent
    from rlpyt.samplers.serial.sampler import SerialSampler

    torch.manual_seed(0)
    agent: Any = GaussianLstmAgent if env == "Pendulum-v1" else CategoricalLstmAgent
    network = dict(
        hidden_sizes=[recurrent_peers.FEATURES], lstm_size=recurrent_peers.HIDDEN, memory=memory
    )
    sampler = SerialSampler(
        EnvCls=_wrapped,
        env_kwargs=dict(env=env, hidden=hidden),
        batch_T=batch_T,
        batch_B=n_envs,
        max_decorrelation_steps=0,
    )
    value_loss_coeff = 2 * recurrent_peers.HYPER.value_coeff
    return _iterations(
        agent(model_kwargs=network), sampler, None, True, value_loss_coeff=value_loss_coeff
    )


def _wrapped(env: str, hidden: bool) -> Any:
    from rlpyt.envs.gym import GymEnvWrapper

    return GymEnvWrapper(recurrent_peers.make(env, hidden))


def _iterations(
    agent: Any, sampler: Any, affinity: Any, train: bool, **algo_kwargs: Any
) -> Workload:
    returns: deque[float] = deque(maxlen=100)
    try:
        examples = sampler.initialize(agent=agent, affinity=affinity, seed=0, bootstrap_value=True)
        agent.to_device((affinity or {}).get("cuda_idx"))
        algo = _algo(agent, sampler, examples, **algo_kwargs) if train else None
        for itr in range(N_ITR):
            agent.sample_mode(itr)
            samples, traj_infos = sampler.obtain_samples(itr)
            returns.extend(info["Return"] for info in traj_infos)
            if algo is not None:
                agent.train_mode(itr)
                algo.optimize_agent(itr, samples)
            n_steps = sampler.batch_spec.size
            yield Progress(n_steps, float(np.mean(returns)) if returns else None)
    finally:
        sampler.shutdown()


def _agent(env: str, **kwargs: Any) -> Any:
    if env == "pong":
        from rlpyt.agents.pg.atari import AtariFfAgent

        return AtariFfAgent(model_kwargs=NATURE, **kwargs)
    from rlpyt.agents.pg.vector import CategoricalMlpAgent

    return CategoricalMlpAgent(**kwargs)


def sampler_for(
    env: str, n_envs: int, n_workers: int, layout: str, batch_T: int = T
) -> tuple[Any, Any]:
    """Return an uninitialized sampler and its affinity."""
    kwargs: dict[str, Any]
    if env == "pong":
        from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo

        kwargs = {
            "EnvCls": AtariEnv,
            "env_kwargs": {"game": "pong", "frame_shape": (84, 84)},
            "TrajInfoCls": AtariTrajInfo,
        }
    elif ":" in env:
        kwargs = {"EnvCls": _with_info, "env_kwargs": {"kind": env.split(":")[1]}}
    else:
        from rlpyt.envs.gym import make

        kwargs = {"EnvCls": make, "env_kwargs": {"id": "CartPole-v1"}}
    kwargs.update(batch_T=batch_T, batch_B=n_envs, max_decorrelation_steps=0)
    if not n_workers:
        return _sampler_class("serial")(**kwargs), None
    return _sampler_class(layout)(**kwargs), {"n_workers": n_workers}


class WithInfo(gymnasium.Wrapper[Any, Any, Any, Any]):
    """CartPole-v1 with an info that is empty, or has an array or a mask of valid actions.

    Args:
        kind: "nothing", "array" or "mask".
    """

    def __init__(self, kind: str) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        ones = np.ones(2, np.int8)
        infos = {"nothing": {}, "array": {"ones": ones}, "mask": {"action_mask": ones}}
        self._info = infos[kind]

    def step(self, action: Any) -> Any:
        """Step the environment."""
        observation, reward, terminated, truncated, _ = self.env.step(action)
        return observation, reward, terminated, truncated, self._info

    def reset(self, **kwargs: Any) -> Any:
        """Reset the environment."""
        return self.env.reset(**kwargs)[0], self._info


def _with_info(kind: str) -> Any:
    from rlpyt.envs.gym import GymEnvWrapper

    return GymEnvWrapper(WithInfo(kind))


def _sampler_class(layout: str) -> Any:
    from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
    from rlpyt.samplers.parallel.gpu import alternating_sampler, sampler
    from rlpyt.samplers.serial.sampler import SerialSampler

    return {
        "serial": SerialSampler,
        "cpu": CpuSampler,
        "gpu": sampler.GpuSampler,
        "alternating": alternating_sampler.AlternatingSampler,
        "no-overlap": alternating_sampler.NoOverlapAlternatingSampler,
    }[layout]


def _algo(agent: Any, sampler: Any, examples: Any, **kwargs: Any) -> Any:
    from rlpyt.algos.pg.ppo import PPO

    settings: dict[str, Any] = {
        "discount": HYPER.discount,
        "learning_rate": HYPER.learning_rate,
        "value_loss_coeff": 2 * HYPER.value_coeff,  # PPO's value loss is half the squared error
        "entropy_loss_coeff": HYPER.entropy_coeff,
        "optim_kwargs": {"eps": HYPER.adam_eps},
        "clip_grad_norm": HYPER.max_grad_norm,
        "gae_lambda": HYPER.gae_lambda,
        "minibatches": HYPER.minibatches,
        "epochs": HYPER.epochs,
        "ratio_clip": HYPER.ratio_clip,
        "linear_lr_schedule": False,
        "normalize_advantage": True,
    }
    algo = PPO(**{**settings, **kwargs})
    algo.initialize(
        agent=agent,
        n_itr=N_ITR,
        batch_spec=sampler.batch_spec,
        mid_batch_reset=sampler.mid_batch_reset,
        examples=examples,
    )
    return algo


def learning_turns(
    agent: Any, algo: Any, sampler: Any, affinity: Any, starts: int, iteration: int
) -> Workload:
    """Sample and learn from replay as a runner does, in the turns of ``harness.turns``."""
    returns: deque[float] = deque(maxlen=100)
    try:
        examples = sampler.initialize(
            agent=agent, affinity=affinity, seed=0, final_observation=algo.final_observation
        )
        agent.to_device((affinity or {}).get("cuda_idx"))
        algo.initialize(
            agent=agent,
            n_itr=N_ITR,
            batch_spec=sampler.batch_spec,
            mid_batch_reset=sampler.mid_batch_reset,
            examples=examples,
        )
        itr = 0
        for n_steps in turns(starts, iteration):
            for _ in range(n_steps // sampler.batch_spec.size):
                agent.sample_mode(itr)
                samples, traj_infos = sampler.obtain_samples(itr)
                returns.extend(info["Return"] for info in traj_infos)
                agent.train_mode(itr)
                algo.optimize_agent(itr, samples)
                itr += 1
            yield Progress(n_steps, float(np.mean(returns)) if returns else None)
    finally:
        sampler.shutdown()
