"""rlpyt, built from public classes as in a script."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
import torch

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
    Ppo,
    ReplayTask,
    T,
    recurrent_env,
)

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
    """Run PPO.

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
    algo = _ppo(PPO, **(algo_kwargs or {})) if train else None
    return _workload(agent, algo, sampler, affinity, itertools.repeat(n_envs * T))


def recurrent_ppo(
    env: str, hidden: bool, n_envs: int, batch_T: int, memory: str = "lstm"
) -> Workload:
    """Run PPO with an LSTM, or with another kind of memory."""
    from rlpyt.agents.pg.vector import CategoricalLstmAgent, GaussianLstmAgent
    from rlpyt.samplers.serial.sampler import SerialSampler

    torch.manual_seed(0)
    agent: Any = GaussianLstmAgent if env == "Pendulum-v1" else CategoricalLstmAgent
    network = dict(hidden_sizes=[FEATURES], lstm_size=HIDDEN, memory=memory)
    sampler = SerialSampler(
        EnvCls=_wrapped,
        env_kwargs=dict(env=env, hidden=hidden),
        batch_T=batch_T,
        batch_B=n_envs,
        max_decorrelation_steps=0,
    )
    iterations = itertools.repeat(n_envs * batch_T)
    return _workload(agent(model_kwargs=network), _ppo(RECURRENT_PPO), sampler, None, iterations)


def _wrapped(env: str, hidden: bool) -> Any:
    from rlpyt.envs.gym import GymEnvWrapper

    return GymEnvWrapper(recurrent_env(env, hidden))


def dqn(
    env: str, n_envs: int = 1, n_steps: int | None = None, sampler: str = "serial", **kwargs: Any
) -> Workload:
    """Run DQN.

    Args:
        env: "cartpole" or "pong".
        n_envs: batch_B; with four, each environment takes one step per update.
        n_steps: batch_T; ``None`` for one update per batch. More steps give several updates.
        sampler: layout of `sampler_for`.
        kwargs: arguments of the algorithm that override the shared hyperparameters.
    """
    from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
    from rlpyt.agents.dqn.vector import DqnMlpAgent
    from rlpyt.algos.dqn.dqn import DQN as Algo

    torch.manual_seed(0)
    T = n_steps or DQN.steps_per_update // n_envs
    collect, affinity = sampler_for(env, n_envs, int(sampler != "serial"), sampler, T)
    Agent, model_kwargs = (
        (AtariDqnAgent, NATURE) if env == "pong" else (DqnMlpAgent, {"hidden_sizes": [64, 64]})
    )
    agent = Agent(model_kwargs=model_kwargs, eps_final=DQN.eps_final)
    settings: dict[str, Any] = {
        "discount": DQN.discount,
        "batch_size": DQN.batch_size,
        "min_steps_learn": DQN.learning_starts,
        "replay_size": DQN.replay_size,
        "replay_ratio": DQN.batch_size / DQN.steps_per_update,
        "target_update_interval": DQN.target_interval // DQN.steps_per_update,
        "learning_rate": DQN.learning_rate,
        "clip_grad_norm": DQN.max_grad_norm,
        "eps_steps": DQN.eps_steps,
        **kwargs,
    }
    iterations = turns(DQN.learning_starts, DQN.iteration)
    return _workload(agent, Algo(**settings), collect, affinity, iterations)


def control(algo: str, cuda_idx: int | None = None, **kwargs: Any) -> Workload:
    """Run SAC, TD3 or CrossQ.

    Args:
        algo: "sac", "td3" or "crossq".
        cuda_idx: CUDA device that trains; None for the CPU.
        kwargs: arguments of the algorithm that override the shared hyperparameters.
    """
    from rlpyt.agents.qpg.sac_agent import SacAgent
    from rlpyt.agents.qpg.td3_agent import Td3Agent
    from rlpyt.algos.qpg.sac import SAC
    from rlpyt.algos.qpg.td3 import TD3
    from rlpyt.envs.gym import make
    from rlpyt.samplers.serial.sampler import SerialSampler

    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "discount": CONTROL.discount,
        "batch_size": CONTROL.batch_size,
        "min_steps_learn": CONTROL.learning_starts,
        "replay_size": CONTROL.replay_size,
        "replay_ratio": CONTROL.batch_size,
        "target_update_tau": CONTROL.tau,
        "learning_rate": CONTROL.learning_rate,
        **kwargs,
    }
    sizes: Any = {"hidden_sizes": list(CONTROL.hidden_sizes)}
    agent: Any
    if algo == "sac":
        agent = SacAgent(model_kwargs=sizes, q_model_kwargs=sizes)
        learner: Any = SAC(**settings)
    elif algo == "crossq":
        sizes["normalization"] = "batch_renorm"
        agent = SacAgent(model_kwargs=sizes, q_model_kwargs=sizes, target_critics=False)
        settings["optim_kwargs"] = {"betas": (0.5, 0.999)}
        learner = SAC(joint_critics=True, policy_update_interval=3, **settings)
    else:
        agent = Td3Agent(model_kwargs=sizes, q_model_kwargs=sizes, action_std=CONTROL.action_std)
        settings["q_learning_rate"] = CONTROL.learning_rate
        learner = TD3(**settings)
    sampler = SerialSampler(
        EnvCls=make, env_kwargs={"id": CONTROL_ENV}, batch_T=1, batch_B=1, max_decorrelation_steps=0
    )
    affinity = None if cuda_idx is None else dict(cuda_idx=cuda_idx)
    iterations = turns(CONTROL.learning_starts, CONTROL.iteration)
    return _workload(agent, learner, sampler, affinity, iterations)


class Replay:
    """Replay buffers that store each frame once."""

    def __init__(self, task: ReplayTask) -> None:
        from rlpyt.replays.non_sequence import frame, prioritized, uniform
        from rlpyt.utils.collections import namedarraytuple

        self.Fields = namedarraytuple(
            "SamplesToBuffer", ["observation", "action", "reward", "done"]
        )
        cls = {
            (False, False): uniform.UniformReplayBuffer,
            (False, True): prioritized.PrioritizedReplayBuffer,
            (True, False): frame.UniformReplayFrameBuffer,
            (True, True): frame.PrioritizedReplayFrameBuffer,
        }[task.frames, task.prioritized]
        example = self.Fields(np.zeros(task.shape, task.dtype), 0, np.float32(0), False)
        self.replay = cls(example=example, size=task.capacity, B=N_ENVS, discount=0.99, seed=0)

    def insert(self, block: Block) -> None:
        samples = self.Fields(block.observation, block.action, block.reward, block.done)
        self.replay.append_samples(samples)

    def sample(self, n: int) -> Any:
        return self.replay.sample_batch(n)

    def update(self, batch: Any, priorities: Any) -> None:
        self.replay.update_batch_priorities(priorities, batch.ticket)


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
        return sampler_class("serial")(**kwargs), None
    return sampler_class(layout)(**kwargs), {"n_workers": n_workers}


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


def sampler_class(layout: str) -> Any:
    """Return the class of a sampler: "serial", or a layout of `ppo`."""
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


def _ppo(hyper: Ppo, **kwargs: Any) -> Any:
    from rlpyt.algos.pg.ppo import PPO

    settings: dict[str, Any] = {
        "discount": hyper.discount,
        "learning_rate": hyper.learning_rate,
        "value_loss_coeff": 2 * hyper.value_coeff,  # PPO's value loss is half the squared error
        "entropy_loss_coeff": hyper.entropy_coeff,
        "optim_kwargs": {"eps": hyper.adam_eps},
        "clip_grad_norm": hyper.max_grad_norm,
        "gae_lambda": hyper.gae_lambda,
        "minibatches": hyper.minibatches,
        "epochs": hyper.epochs,
        "ratio_clip": hyper.ratio_clip,
        "linear_lr_schedule": False,
        "normalize_advantage": True,
    }
    return PPO(**{**settings, **kwargs})


def _workload(
    agent: Any, algo: Any, sampler: Any, affinity: Any, n_steps: Iterable[int]
) -> Workload:
    """Sample, and learn if there is an algorithm, as a runner does; report after ``n_steps``."""
    returns: deque[float] = deque(maxlen=100)
    try:
        examples = sampler.initialize(
            agent=agent,
            affinity=affinity,
            seed=0,
            bootstrap_value=algo is None or algo.bootstrap_value,
            final_observation=algo is not None and algo.final_observation,
        )
        agent.to_device((affinity or {}).get("cuda_idx"))
        if algo is not None:
            algo.initialize(
                agent=agent,
                n_itr=N_ITR,
                batch_spec=sampler.batch_spec,
                mid_batch_reset=sampler.mid_batch_reset,
                examples=examples,
            )
        iterations = itertools.count()
        for n in n_steps:
            for itr in itertools.islice(iterations, n // sampler.batch_spec.size):
                agent.sample_mode(itr)
                samples, traj_infos = sampler.obtain_samples(itr)
                returns.extend(info["Return"] for info in traj_infos)
                if algo is not None:
                    agent.train_mode(itr)
                    algo.optimize_agent(itr, samples)
            yield Progress(n, float(np.mean(returns)) if returns else None)
    finally:
        sampler.shutdown()
