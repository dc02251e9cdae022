"""Step environments without a network, to measure samplers, vector environments and gates.

Actions come from a predetermined table. Contenders of rlpyt record all data of a sampler; peers
and bare loops record nothing.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import gymnasium as gym
import numpy as np

from benchmarks.bare import in_processes
from benchmarks.harness import Progress, Workload
from benchmarks.peers import T

IDS = {"cartpole": "CartPole-v1", "halfcheetah": "HalfCheetah-v5", "pong": "PongNoFrameskip-v4"}
ENVPOOL_IDS = {"cartpole": "CartPole-v1", "halfcheetah": "HalfCheetah-v4", "pong": "Pong-v5"}
TABLE = 1024  # steps in the table of actions


def _single(env: str) -> Any:
    if env != "pong":
        return gym.make(IDS[env])
    import ale_py

    gym.register_envs(ale_py)
    made = gym.make(IDS[env])
    return gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(made), 4)


def _actions(space: Any, n: int) -> Any:
    """Return random actions [TABLE, n, ...]."""
    rng = np.random.default_rng(0)
    if hasattr(space, "n"):
        return rng.integers(space.n, size=(TABLE, n))
    shape = (TABLE, n, *space.shape)
    return rng.uniform(space.low, space.high, shape).astype(np.float32)


def _step_vector(envs: Any, actions: Any, n: int) -> Workload:
    """Step a vector environment with gymnasium's interface."""
    try:
        envs.reset()
        t = 0
        while True:
            for _ in range(T):
                envs.step(actions[t % TABLE])
                t += 1
            yield Progress(T * n, None)
    finally:
        envs.close()


def one_process(env: str, n_envs: int) -> Workload:
    """Step single environments in a loop."""
    envs = [_single(env) for _ in range(n_envs)]
    actions = _actions(envs[0].action_space, n_envs)
    for e in envs:
        e.reset()
    t = 0
    while True:
        for _ in range(T):
            for b, e in enumerate(envs):
                _, _, terminated, truncated, _ = e.step(actions[t % TABLE, b])
                if terminated or truncated:
                    e.reset()
            t += 1
        yield Progress(T * n_envs, None)


def free_workers(env: str, n_envs: int, n_workers: int = 2) -> Workload:
    """Run the same loop in processes that synchronize once per batch: an upper bound."""
    return in_processes(_free_worker, (env, n_envs // n_workers), n_workers, T * n_envs)


def _free_worker(pipe: Connection, env: str, n_envs: int) -> None:
    workload = one_process(env, n_envs)
    while True:
        pipe.recv()
        next(workload)
        pipe.send(True)


def gymnasium_async(env: str, n_envs: int) -> Workload:
    """Step gymnasium's AsyncVectorEnv: one process per environment, one message per step."""
    envs = gym.vector.AsyncVectorEnv([lambda: _single(env)] * n_envs)
    yield from _step_vector(envs, _actions(envs.single_action_space, n_envs), n_envs)


def sb3_subproc(env: str, n_envs: int) -> Workload:
    """Step Stable-Baselines3's SubprocVecEnv."""
    from stable_baselines3.common.vec_env import SubprocVecEnv

    envs = SubprocVecEnv([lambda: _single(env)] * n_envs)
    yield from _step_vector(envs, _actions(envs.action_space, n_envs), n_envs)


def native(source: str, env: str, n_envs: int) -> Workload:
    """Step a native vector environment without adapter: an upper bound."""
    envs = _native(source, env, n_envs)
    space = getattr(envs, "single_action_space", None) or envs.action_space
    yield from _step_vector(envs, _actions(space, n_envs), n_envs)


def _native(source: str, env: str, n_envs: int) -> Any:
    if source == "ale":
        from ale_py.vector_env import AtariVectorEnv

        return AtariVectorEnv("pong", n_envs)
    if source == "envpool":
        import envpool

        more = {} if env != "pong" else {"stack_num": 4}
        return envpool.make_gymnasium(ENVPOOL_IDS[env], num_envs=n_envs, **more)
    return gym.make_vec(IDS[env], n_envs, vectorization_mode="vector_entry_point")


def block(source: str, env: str, n_envs: int) -> Workload:
    """Step it through a sampler's batch: with checks, final observations, and in-place writes."""
    import torch  # noqa: F401  (needed by rlpyt's buffers)

    from rlpyt.envs.vector.base import adapt
    from rlpyt.samplers.context import CollectorContext
    from rlpyt.samplers.env_batch import make_env_batch
    from rlpyt.samplers.policy_source import StepRecord
    from rlpyt.utils.buffer import buffer_from_example, buffer_func

    envs = adapt(_native(source, env, n_envs))
    try:
        rows = make_env_batch([envs], CollectorContext())
        first = envs.reset()
        example = envs.step(_actions(envs.action_space, n_envs)[0])
        step = StepRecord(
            observation=buffer_func(first, np.array),
            action=None,
            reward=np.zeros(n_envs, np.float32),
            done=np.zeros(n_envs, bool),
            env_info=buffer_from_example(buffer_func(example.env_info, lambda x: x[0]), n_envs),
            agent_info=None,
        )
        rows.reset(step.observation, range(n_envs))
        actions = _actions(envs.action_space, n_envs)
        t = 0
        while True:
            for _ in range(T):
                ended = rows.advance(step, actions[t % TABLE])
                if ended:
                    rows.reset(step.observation, ended)
                t += 1
            yield Progress(T * n_envs, None)
    finally:
        envs.close()


def sampler(env: str, n_envs: int, layout: str, n_workers: int = 2, source: str = "") -> Workload:
    """Run a sampler with predetermined actions; all data are recorded."""
    from benchmarks.peers.rlpyt import sampler_class

    env_args = _rlpyt_env(env, source)
    made = sampler_class(layout)(batch_T=T, batch_B=n_envs, max_decorrelation_steps=0, **env_args)
    try:
        affinity = None if layout == "serial" else {"n_workers": n_workers}
        made.initialize(_fixed_agent(n_envs), affinity=affinity, seed=0, bootstrap_value=False)
        for itr in range(10**9):
            made.obtain_samples(itr)
            yield Progress(T * n_envs, None)
    finally:
        made.shutdown()


def _rlpyt_env(env: str, source: str) -> dict[str, Any]:
    if env == "nothing":
        return {"EnvCls": _nothing, "env_kwargs": {}}
    if source == "ale":
        from rlpyt.envs.vector import make_atari_vec

        return {"EnvCls": make_atari_vec, "env_kwargs": {"game": "pong"}}
    if source == "envpool":
        from rlpyt.envs.vector import make_envpool

        return {"EnvCls": make_envpool, "env_kwargs": {"task_id": ENVPOOL_IDS[env]}}
    if source:
        from rlpyt.envs.vector import make_vec

        return {"EnvCls": make_vec, "env_kwargs": {"id": IDS[env]}}
    if env == "pong":
        from rlpyt.envs.atari.atari_env import AtariEnv

        return {"EnvCls": AtariEnv, "env_kwargs": {"game": "pong", "frame_shape": (84, 84)}}
    from rlpyt.envs.gym import make

    return {"EnvCls": make, "env_kwargs": {"id": IDS[env]}}


def _nothing() -> Any:
    """Return an environment without cost, to measure the sampler alone."""
    from rlpyt.envs.base import Env, EnvInfo, EnvStep
    from rlpyt.spaces.float_box import FloatBox
    from rlpyt.spaces.int_box import IntBox

    class Nothing(Env):
        _action_space = IntBox(0, 2)
        _observation_space = FloatBox(-1, 1, shape=(1,))
        _result = EnvStep(np.zeros(1, np.float32), 0.0, False, EnvInfo())

        def reset(self) -> Any:
            return self._result.observation

        def step(self, action: Any) -> EnvStep:
            return self._result

    return Nothing()


def _fixed_agent(n_envs: int) -> Any:
    import torch

    from rlpyt.agents.base import AgentStep, BaseAgent
    from rlpyt.distributions.base import NoiseSpec
    from rlpyt.utils.collections import namedarraytuple

    Info = namedarraytuple("Info", ["value"])

    class FixedAgent(BaseAgent):
        """Agent that takes its actions from a table."""

        noise_spec = NoiseSpec("uniform", ())  # unused, but required by numpy acting

        def __init__(self) -> None:
            super().__init__(ModelCls=torch.nn.Identity)

        def initialize(self, env_spaces: Any, share_memory: bool = False, **kwargs: Any) -> None:
            super().initialize(env_spaces, share_memory)
            self._numpy_table = _actions(env_spaces.action, n_envs)
            self._table = torch.from_numpy(self._numpy_table)
            self._t = 0

        def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
            self._t = (self._t + 1) % TABLE
            B = len(prev_reward)
            return AgentStep(self._table[self._t, :B], Info(prev_reward))

        def fast_policy(self) -> Any:
            def act(observation: Any, noise: Any) -> Any:
                self._t = (self._t + 1) % TABLE
                return self._numpy_table[self._t, : len(observation)], (), 0.0

            return act

        def value(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
            return prev_reward

    return FixedAgent()
