"""Train with prioritized level replay on 50 levels of CartPole.

The pole gets shorter and gravity stronger from level to level; the last levels cannot be solved.
Compare ReturnAverage, of evaluation on all levels, with that of ``--curriculum uniform``.
CurriculumEffectiveTasks is the effective number of levels that the curriculum chooses from. At the
end the script prints the levels it would choose next. See docs/curricula.md for custom
environments.

    python examples/example_curriculum.py
    python examples/example_curriculum.py --curriculum stages --n-workers 2
"""

import argparse

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.curricula.base import Curriculum
from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.curricula.sequential import Sequential, Stage
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.runners.minibatch_rl import MinibatchRlEval
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging.context import logger_context

LEVELS = 50


def make_curriculum(kind: str) -> Curriculum:
    """Build a curriculum by name."""
    if kind == "stages":
        easy = DomainRandomization(LEVELS, among=range(LEVELS // 2))
        return Sequential([Stage(easy, return_=200.0), Stage(DomainRandomization(LEVELS))])
    kinds = dict(
        uniform=DomainRandomization, replay=PrioritizedLevelReplay, progress=LearningProgress
    )
    return kinds[kind](LEVELS)


def build_and_train(kind: str, n_workers: int, n_steps: int, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    Sampler = CpuSampler if n_workers else SerialSampler
    curriculum = make_curriculum(kind)
    sampler = Sampler(
        EnvCls=CartPoleLevels,
        env_kwargs=dict(n_levels=LEVELS),
        batch_T=128,
        batch_B=16,
        max_decorrelation_steps=0,
        curriculum=curriculum,
        eval_n_envs=10,
        eval_max_steps=50_000,
        eval_max_trajectories=100,
        eval_deterministic=True,
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, entropy_loss_coeff=0.0, linear_lr_schedule=True),
        agent=CategoricalMlpAgent(),
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=max(1, n_workers), master_torch_threads=1),
        log_interval_steps=20_000,
    )
    with logger_context(log_dir, run_ID, f"cartpole_levels_{kind}", snapshot_mode="last"):
        runner.train()
    print("Next levels:", sorted(curriculum.sample(20).tolist()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--curriculum", choices=["uniform", "replay", "progress", "stages"], default="replay"
    )
    parser.add_argument("--n-workers", type=int, default=0, help="worker processes; 0: none")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_curriculum", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.curriculum, args.n_workers, args.steps, args.run_id, args.log_dir)
