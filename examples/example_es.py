"""Train a small policy by an evolution strategy, CMA-ES.

Every environment evaluates one candidate; a batch is one episode of each, with the same initial
state for all. Compare the time with example_1.py: candidateReturnAverage is the mean return of a
generation, candidateReturnMax the best one. See docs/evolution.md for other strategies and their
use without environments, and ``--ray`` for the same search on a cluster.

    python examples/example_es.py
    python examples/example_es.py --strategy openai_es --n-workers 4
    python examples/example_es.py --ray                   # pip install 'rlpyt[ray]'
"""

import argparse

from rlpyt.envs.vector.make import make_vec
from rlpyt.es.agent import EsAgent
from rlpyt.es.algo import CemAlgo, CmaesAlgo, OpenaiEsAlgo
from rlpyt.es.collector import PopulationCollector
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.logging.context import logger_context

POPSIZE, LONGEST_EPISODE = 32, 500
ALGOS = {"cmaes": CmaesAlgo, "cem": CemAlgo, "openai_es": OpenaiEsAlgo}


def build_and_train(
    strategy: str, ray: bool, n_workers: int, n_steps: int, run_ID: int, log_dir: str
) -> None:
    """Build all parts and train."""
    Sampler = CpuSampler
    if ray:
        from rlpyt.samplers.ray_sampler import RaySampler as Sampler
    sampler = Sampler(
        EnvCls=make_vec,
        env_kwargs=dict(id="CartPole-v1"),
        batch_T=LONGEST_EPISODE,
        batch_B=POPSIZE,
        CollectorCls=PopulationCollector,
    )
    runner = MinibatchRl(
        algo=ALGOS[strategy](sigma0=0.5),
        agent=EsAgent(model_kwargs=dict(hidden_sizes=[8])),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=n_workers, master_torch_threads=1),
        log_interval_steps=LONGEST_EPISODE * POPSIZE,
        log_traj_window=POPSIZE,
    )
    with logger_context(log_dir, run_ID, f"cartpole_{strategy}", snapshot_mode="last"):
        runner.train()
    found = runner.algo.strategy.result
    print(f"best return {-found.fbest:g} after {found.evals_best} of {found.evaluations} episodes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strategy", choices=ALGOS, default="cmaes")
    parser.add_argument("--ray", action="store_true", help="use actors of a Ray cluster as workers")
    parser.add_argument(
        "--n-workers", type=int, default=2, help="workers that evaluate the 32 candidates"
    )
    parser.add_argument("--steps", type=int, default=400_000, help="maximum; see docs/evolution.md")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_es", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.strategy, args.ray, args.n_workers, args.steps, args.run_id, args.log_dir)
