"""Stop and resume a run, and use the trained agent.

The first run stops half-way as with Ctrl-C: after the iteration, with a checkpoint. The second run
resumes from there and ends with the same parameters, bit for bit, as an uninterrupted run. Then the
trained parameters are loaded into a new agent, which plays an episode.

    python examples/example_6.py

Next: example_7.py, Atari.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger


class StopHalfWay(Hook):
    """Hook that stops training half-way."""

    def on_iteration(self, runner: Any, itr: int) -> None:
        """Request a stop after half of the iterations."""
        if itr + 1 == runner.n_itr // 2:
            runner.request_stop()


def make_runner(n_steps: int, **kwargs: Any) -> MinibatchRl:
    """Build the runner."""
    return MinibatchRl(
        algo=PPO(gae_lambda=0.95, ratio_clip=0.2, normalize_advantage=True),
        agent=CategoricalMlpAgent(),
        sampler=SerialSampler(make, dict(id="CartPole-v1"), batch_T=128, batch_B=8),
        n_steps=n_steps,
        seed=0,
        log_interval_steps=10**9,
        **kwargs,
    )


def main(n_steps: int) -> None:
    """Stop, resume, compare parameters, and play an episode."""
    logger.set_console(False)
    with tempfile.TemporaryDirectory() as directory:
        checkpoints = Path(directory) / "checkpoint"
        make_runner(n_steps, checkpoint_dir=checkpoints, hooks=[StopHalfWay()]).train()
        resumed = make_runner(n_steps, resume_from=checkpoints)
        resumed.train()
    uninterrupted = make_runner(n_steps)
    uninterrupted.train()

    a, b = uninterrupted.agent.state_dict(), resumed.agent.state_dict()
    same = all(torch.equal(a[name], b[name]) for name in a)
    print(f"resumed after iteration {resumed.start_itr - 1}; parameters equal bit for bit: {same}")

    env = make(id="CartPole-v1")
    # For a logged run: torch.load("data/my_run/params.pkl")["agent_state_dict"].
    agent = CategoricalMlpAgent(initial_model_state_dict=a)
    agent.initialize(env.spaces)
    agent.eval_mode(0)
    o, prev_a, prev_r, total, done = env.reset(), torch.tensor(0), torch.tensor(0.0), 0.0, False
    while not done:
        action, _ = agent.step(torch.from_numpy(o), prev_a, prev_r)
        o, r, done, _ = env.step(action.numpy())
        prev_a, prev_r, total = action, torch.tensor(r), total + r
    print(f"return of the trained agent's episode: {total:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps")
    main(parser.parse_args().steps)
