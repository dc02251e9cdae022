"""Compare prioritized level replay with uniform sampling on 50 increasingly hard CartPole levels.

    python benchmarks/curriculum.py [--steps 100000] [--seeds 10] [--levels 50] [--temperature 0.1]

PPO learns on the levels that a curriculum chooses; then the agent is evaluated deterministically
on all levels. Returns are means over levels (at most 500), and over each third of them. The last
levels cannot be solved: the pole falls within twenty steps.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.curricula.domain_randomization import DomainRandomization
from rlpyt.curricula.learning_progress import LearningProgress
from rlpyt.curricula.prioritized import PrioritizedLevelReplay
from rlpyt.envs.cartpole_levels import CartPoleLevels
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger

CURRICULA = {
    "uniform": DomainRandomization,
    "level replay": PrioritizedLevelReplay,
    "learning progress": LearningProgress,
}


def train(curriculum, n_levels, n_steps, seed):
    """Train an agent; return it and the time in seconds."""
    sampler = SerialSampler(
        EnvCls=CartPoleLevels,
        env_kwargs=dict(n_levels=n_levels),
        batch_T=128,
        batch_B=16,
        max_decorrelation_steps=0,
        curriculum=curriculum,
    )
    agent = CategoricalMlpAgent()
    runner = MinibatchRl(
        algo=PPO(learning_rate=1e-3, entropy_loss_coeff=0.0, linear_lr_schedule=True),
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        seed=seed,
        log_interval_steps=n_steps,
    )
    start = time.perf_counter()
    runner.train()
    return agent, time.perf_counter() - start


def play(agent, n_levels, episodes=4):
    """Return the mean return of the deterministic agent on each level, [n_levels]."""
    agent.eval_mode(1)
    agent.deterministic = True
    envs = [CartPoleLevels(n_levels) for _ in range(n_levels)]
    previous = torch.zeros(n_levels, dtype=torch.int64), torch.zeros(n_levels)
    total = np.zeros(n_levels)
    for episode in range(episodes):
        for level, env in enumerate(envs):
            env.set_task(level)
            env.seed(1_000_000 + episode * n_levels + level)
        observation = np.stack([env.reset() for env in envs])
        running = np.ones(n_levels, bool)
        while running.any():
            action = agent.step(torch.as_tensor(observation), *previous).action
            for i in np.flatnonzero(running):
                observation[i], reward, done, _ = envs[i].step(int(action[i]))
                total[i] += reward
                running[i] = not done
    return total / episodes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--levels", type=int, default=50)
    parser.add_argument(
        "--temperature", type=float, default=0.1, help="temperature of level replay"
    )
    args = parser.parse_args()
    logger.set_console(False)
    third = args.levels // 3
    print(f"{'curriculum':18} seed  all levels  first third  middle  last third  seconds")
    replay = partial(PrioritizedLevelReplay, temperature=args.temperature)
    for name, make in {**CURRICULA, "level replay": replay}.items():
        rows = []
        for seed in range(args.seeds):
            agent, seconds = train(make(args.levels), args.levels, args.steps, seed)
            by_level = play(agent, args.levels)
            parts = by_level[:third], by_level[third:-third], by_level[-third:]
            rows.append([by_level.mean(), *(part.mean() for part in parts), seconds])
            print(line(name, seed, rows[-1]), flush=True)
        print(line(name, "mean", np.mean(rows, 0)))


def line(name, seed, numbers):
    every, first, middle, last, seconds = numbers
    return (
        f"{name:18} {seed!s:>4}  {every:10.1f}  {first:11.1f}  {middle:6.1f}  {last:10.1f}  "
        f"{seconds:7.1f}"
    )


if __name__ == "__main__":
    main()
