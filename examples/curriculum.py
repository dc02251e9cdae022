"""Train with a curriculum: prioritized level replay on 50 levels of CartPole.

The pole gets shorter and gravity stronger from level to level; the last levels cannot be solved.
Watch ReturnAverage, of evaluation on all levels, and compare it with ``--kind uniform``.
CurriculumEffectiveTasks is the effective number of levels that the curriculum chooses from. At the
end the script prints the levels it would choose next. docs/curricula.md describes custom
environments and curricula.

    python examples/curriculum.py
    python examples/curriculum.py --kind stages --n-workers 2
"""

from collections.abc import Callable
from typing import Any, Literal

import tyro

from rlpyt import (
    PPO,
    CategoricalMlpAgent,
    CpuSampler,
    MinibatchRlEval,
    SerialSampler,
    logger_context,
)
from rlpyt.curricula.base import Curriculum
from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.curricula.sequential import Sequential, Stage
from rlpyt.envs.cartpole_levels import CartPoleLevels

LEVELS = 50


def make_curriculum(kind: str) -> Curriculum:
    """Build a curriculum by name."""
    if kind == "stages":
        easy = DomainRandomization(LEVELS, among=range(LEVELS // 2))
        return Sequential([Stage(easy, return_=200.0), Stage(DomainRandomization(LEVELS))])
    kinds: dict[str, Callable[[int], Curriculum]] = dict(
        uniform=DomainRandomization, replay=PrioritizedLevelReplay, progress=LearningProgress
    )
    return kinds[kind](LEVELS)


def main(
    kind: Literal["uniform", "replay", "progress", "stages"] = "replay",
    steps: int = 100_000,
    n_workers: int = 0,
    run_id: int = 0,
    log_dir: str = "curriculum",
) -> None:
    """Train PPO with a curriculum.

    Args:
        kind: domain randomization, prioritized level replay, learning progress, or two stages.
        steps: environment steps.
        n_workers: worker processes; 0: none.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    curriculum = make_curriculum(kind)
    evaluation: dict[str, Any] = dict(
        eval_n_envs=10, eval_max_steps=50_000, eval_max_trajectories=100
    )
    sampler = (CpuSampler if n_workers else SerialSampler)(
        EnvCls=CartPoleLevels,
        env_kwargs=dict(n_levels=LEVELS),
        batch_T=128,
        batch_B=16,
        max_decorrelation_steps=0,
        curriculum=curriculum,
        eval_deterministic=True,
        **evaluation,
    )
    runner = MinibatchRlEval(
        algo=PPO(learning_rate=1e-3, entropy_loss_coeff=0.0, linear_lr_schedule=True),
        agent=CategoricalMlpAgent(),
        sampler=sampler,
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=max(1, n_workers), master_torch_threads=1),
        log_interval_steps=20_000,
    )
    with logger_context(log_dir, run_id, f"cartpole_levels_{kind}", snapshot_mode="last"):
        runner.train()
    print("Next levels:", sorted(curriculum.sample(20).tolist()))


if __name__ == "__main__":
    tyro.cli(main)
