"""Measure the evaluation of candidates: `python -m benchmarks.evolution --help`.

Each row is a complete CMA-ES: ask, play one episode with each of 32 candidates, tell. A step is an
environment step; episodes have 200 steps in Pendulum and 1000 in HalfCheetah, so divide by these
for evaluations per second. All use two worker processes.
"""

from __future__ import annotations

import multiprocessing
from functools import partial
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.harness import Contender, Progress, Setting, Workload

POPSIZE, N_WORKERS, SIGMA0 = 32, 2, 0.5
LONGEST = {"CartPole-v1": 500, "Pendulum-v1": 200, "HalfCheetah-v5": 1000}
HIDDEN = 32
_worker: dict[str, Any] = {}  # environment and policy of a pool's process


def rlpyt_run(
    env_id: str, batched: bool = False, popsize: int = POPSIZE, seed: int = 1
) -> Workload:
    """Run CMA-ES of rlpyt, built from public classes as in a script."""
    from rlpyt.envs.gym import make
    from rlpyt.envs.vector.make import make_vec
    from rlpyt.es.agent import EsAgent
    from rlpyt.es.algo import CmaesAlgo
    from rlpyt.es.collector import PopulationCollector
    from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
    from rlpyt.utils.seed import set_seed

    set_seed(seed)
    sampler = CpuSampler(
        EnvCls=make_vec if batched else make,
        env_kwargs=dict(id=env_id),
        batch_T=LONGEST[env_id],
        batch_B=popsize,
        CollectorCls=PopulationCollector,
    )
    agent = EsAgent(model_kwargs=dict(hidden_sizes=[HIDDEN]))
    algo = CmaesAlgo(sigma0=SIGMA0, diagonal=True)
    examples = sampler.initialize(agent, affinity=dict(n_workers=N_WORKERS), seed=seed)
    algo.initialize(agent, 1000, sampler.batch_spec, sampler.mid_batch_reset, examples)
    itr = 0
    try:
        while True:
            agent.sample_mode(itr)
            samples, _ = sampler.obtain_samples(itr)
            info = algo.optimize_agent(itr, samples)
            yield Progress(info.generationSteps[0], float(np.mean(info.candidateReturn)))
            itr += 1
    finally:
        sampler.shutdown()


def cma_pool(env_id: str, policy: str, popsize: int = POPSIZE, seed: int = 1) -> Workload:
    """Run the cma package with a pool of processes, each with an environment and a policy."""
    import cma

    context = multiprocessing.get_context("spawn")
    with context.Pool(N_WORKERS, _start, (env_id, policy)) as pool:
        x0 = pool.apply(_initial)
        opts = {"popsize": popsize, "seed": 1 + seed, "verbose": -9, "CMA_diagonal": True}
        es = cma.CMAEvolutionStrategy(x0, SIGMA0, opts)
        itr = 0
        while True:
            solutions = es.ask()
            # The same start for all candidates of a generation, as in rlpyt.
            played = pool.map(partial(_play, seed=itr), solutions, popsize // N_WORKERS // 4)
            returns = [return_ for return_, _ in played]
            es.tell(solutions, [-return_ for return_ in returns])
            yield Progress(sum(length for _, length in played), float(np.mean(returns)))
            itr += 1


def _start(env_id: str, policy: str) -> None:
    """Initialize a process of the pool."""
    import gymnasium
    import torch
    from torch import nn

    torch.set_num_threads(1)
    env = gymnasium.make(env_id, disable_env_checker=True)
    n_in = env.observation_space.shape[0]
    discrete = hasattr(env.action_space, "n")
    n_out = int(env.action_space.n) if discrete else env.action_space.shape[0]
    model = nn.Sequential(nn.Linear(n_in, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, n_out))
    _worker.update(env=env, model=model, policy=policy, discrete=discrete)
    if not discrete:
        _worker["bounds"] = env.action_space.low, env.action_space.high


def _initial() -> Any:
    """Return the initial parameters [P] of a new torch policy, as rlpyt does."""
    from torch.nn.utils import parameters_to_vector

    return parameters_to_vector(_worker["model"].parameters()).detach().double().numpy()


def _play(vector: Any, seed: int) -> tuple[float, int]:
    """Play one episode with one candidate; return (return, length)."""
    import torch
    from torch.nn.utils import vector_to_parameters

    env, model, discrete = _worker["env"], _worker["model"], _worker["discrete"]
    vector_to_parameters(torch.as_tensor(vector, dtype=torch.float32), model.parameters())
    if _worker["policy"] == "numpy":
        w1, b1, w2, b2 = (p.detach().numpy() for p in model.parameters())

        def act(x: Any) -> Any:
            return w2 @ np.tanh(w1 @ x + b1) + b2

    else:

        def act(x: Any) -> Any:
            return model(torch.from_numpy(x)).numpy()

    observation, _ = env.reset(seed=seed)
    total, length, done = 0.0, 0, False
    with torch.no_grad():
        while not done:
            action = act(np.asarray(observation, np.float32))
            if discrete:
                action = int(action.argmax())
            else:
                low, high = _worker["bounds"]
                action = np.clip(action * (high - low) / 2 + (high + low) / 2, low, high)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, length = total + float(reward), length + 1
            done = terminated or truncated
    return total, length


def setting(env_id: str, batched: bool = False) -> Setting:
    """Return the setting of one environment."""
    task = {"env_id": env_id}
    ours = [Contender("rlpyt CpuSampler 2 workers", rlpyt_run, task)]
    if batched:
        ours.append(Contender("rlpyt, batched environments", rlpyt_run, {**task, "batched": True}))
    return Setting(
        f"{env_id}, {POPSIZE} candidates, MLP {HIDDEN}",
        (
            Contender("cma, Pool(2), torch policy", cma_pool, {**task, "policy": "torch"}),
            Contender(
                "cma, Pool(2), numpy policy",
                cma_pool,
                {**task, "policy": "numpy"},
                note="the perceptron written out by hand",
            ),
            *ours,
        ),
    )


SETTINGS = {
    "cartpole": [setting("CartPole-v1", batched=True)],
    "pendulum": [setting("Pendulum-v1")],
    "halfcheetah": [setting("HalfCheetah-v5")],
}

if __name__ == "__main__":
    harness.main("evolution", SETTINGS, seconds=5.0)
