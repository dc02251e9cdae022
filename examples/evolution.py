"""Train a small policy by an evolution strategy, CMA-ES.

Every environment evaluates one candidate; a batch is one episode of each, with the same initial
state for all. Watch candidateReturnAverage, the mean return of a generation, and
candidateReturnMax, the best one; compare the time with ppo_cartpole.py. docs/evolution.md describes
the other strategies, and their use without environments; ``--ray`` does the same on a cluster.

    python examples/evolution.py
    python examples/evolution.py --strategy openai_es --n-workers 4
    python examples/evolution.py --ray                   # pip install "rlpyt[ray]"
"""

from typing import Literal

import tyro

from rlpyt import CpuSampler, MinibatchRl, RaySampler, logger_context
from rlpyt.envs.vector.make import make_vec
from rlpyt.es.agent import EsAgent
from rlpyt.es.algo import CemAlgo, CmaesAlgo, OpenaiEsAlgo
from rlpyt.es.collector import PopulationCollector

POPSIZE, LONGEST_EPISODE = 32, 500
ALGOS = {"cmaes": CmaesAlgo, "cem": CemAlgo, "openai_es": OpenaiEsAlgo}


def main(
    strategy: Literal["cmaes", "cem", "openai_es"] = "cmaes",
    steps: int = 400_000,
    n_workers: int = 2,
    ray: bool = False,
    run_id: int = 0,
    log_dir: str = "evolution",
) -> None:
    """Search for the weights of a policy for CartPole.

    Args:
        strategy: evolution strategy.
        steps: maximum number of environment steps; short episodes take fewer.
        n_workers: workers that evaluate the 32 candidates.
        ray: use actors of a Ray cluster as workers.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    sampler = (RaySampler if ray else CpuSampler)(
        EnvCls=make_vec,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=LONGEST_EPISODE,
        batch_B=POPSIZE,
        CollectorCls=PopulationCollector,
    )
    algo = ALGOS[strategy](sigma0=0.5)
    runner = MinibatchRl(
        algo=algo,
        agent=EsAgent(model_kwargs=dict(hidden_sizes=[8])),
        sampler=sampler,
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=n_workers, master_torch_threads=1),
        log_interval_steps=LONGEST_EPISODE * POPSIZE,
        log_traj_window=POPSIZE,
    )
    with logger_context(log_dir, run_id, f"cartpole_{strategy}", snapshot_mode="last"):
        runner.train()
    found = algo.strategy.result
    print(f"best return {-found.fbest:g} after {found.evals_best} of {found.evaluations} episodes")


if __name__ == "__main__":
    tyro.cli(main)
