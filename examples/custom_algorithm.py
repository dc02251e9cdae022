"""Write an algorithm from scratch: REINFORCE with a learned baseline.

An algorithm needs two methods: ``initialize``, and ``optimize_agent``, which trains on a batch with
leading dimensions [T, B] and returns statistics. The dataclass fields are its settings, which
``setting`` checks; they become arguments of ``rlpyt.train`` and flags of the command line. Watch
ReturnAverage, and baselineErrorAverage: the mean squared error of the baseline, which grows with
the returns at first.

    python examples/custom_algorithm.py
    cd examples; rlpyt train custom_algorithm:Reinforce CartPole-v1 \
        --agent rlpyt:CategoricalMlpAgent --algo.learning-rate 2e-3
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

import rlpyt
from rlpyt import CategoricalMlpAgent, setting
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.returns import discount_return


@dataclass(eq=False)
class Reinforce(RlAlgorithm):
    """REINFORCE with a baseline (Williams 1992): one gradient step per batch."""

    discount: float = setting(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: float = setting(1e-3, gt=0, doc="learning rate of Adam")
    baseline_loss_coeff: float = setting(0.5, ge=0, doc="weight of the baseline's loss")

    opt_info_fields = ("loss", "gradNorm", "baselineError")  # columns of progress.csv
    bootstrap_value = True  # the sampler records the value of the observation after the batch

    def initialize(
        self, agent: Any, n_itr: int, batch_spec: Any, mid_batch_reset: bool, *args: Any, **kw: Any
    ) -> None:
        """Build the optimizer for the agent's parameters."""
        self.agent, self.mid_batch_reset = agent, mid_batch_reset
        self._batch_size = batch_spec.size
        self.optim_initialize()

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Take one gradient step on a batch [T, B].

        L = - E[log pi(a|s) (R - V(s))] + c E[(R - V(s))^2]
        """
        env, agent = samples.env, samples.agent
        # R is bootstrapped where the batch or a time limit cuts an episode.
        return_ = discount_return(
            env.reward, env.done, agent.bootstrap_value, self.discount, agent.timeout_value
        )
        dist_info, value = self.agent(env.observation, agent.prev_action, env.prev_reward)
        log_likelihood = self.agent.distribution.log_likelihood(agent.action, dist_info)
        error = return_ - value  # [T, B]
        baseline_error = error.square().mean()
        policy_loss = -(log_likelihood * error.detach()).mean()
        loss = policy_loss + self.baseline_loss_coeff * baseline_error
        grad_norm = self.gradient_step(loss)  # backward, check for NaN, step
        self.update_counter += 1
        statistics = torch.stack([loss.detach(), grad_norm, baseline_error.detach()])
        return self.make_opt_info([x] for x in statistics.tolist())


def main(steps: int = 200_000, run_dir: Path | None = None) -> None:
    """Train REINFORCE on CartPole.

    Args:
        steps: environment steps.
        run_dir: run directory; by default data/ALGO-ENV-TIMESTAMP.
    """
    sampler = dict(kind="serial", batch_T=64, batch_B=8)
    run = rlpyt.train(
        Reinforce,
        "CartPole-v1",
        steps=steps,
        agent=CategoricalMlpAgent,
        sampler=sampler,
        run_dir=run_dir,
    )
    print(run.evaluate(20))


if __name__ == "__main__":
    tyro.cli(main)
