"""Define a custom recurrent model for a memory task.

In the memory environment the first observation contains a cue that must be repeated four steps
later; an agent without memory gets at most 0.5 on average, a perfect one 1. The model takes
(observation, prev_action, prev_reward, init_rnn_state), with leading dimensions [T, B] in training
and [B] while acting, and returns (pi, value, next_rnn_state). The agent class handles the recurrent
state; batches are split where episodes start, so a sequence never contains two episodes.

    python examples/example_5.py               # recurrent: ReturnAverage near 1
    python examples/example_5.py --feed-forward  # ReturnAverage stays near 0.5

Next: example_6.py, stopping and resuming a run, and using a trained agent.
"""

import argparse
from typing import Any

import torch

from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import MemoryEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

RnnState = namedarraytuple("RnnState", ["h"])  # leaves [N, B, H]


class GruModel(torch.nn.Module):
    """GRU with two linear heads."""

    def __init__(self, observation_size: int, n_actions: int, hidden_size: int = 32) -> None:
        super().__init__()
        self.gru = torch.nn.GRU(observation_size + n_actions + 1, hidden_size)
        self.pi = torch.nn.Linear(hidden_size, n_actions)
        self.value = torch.nn.Linear(hidden_size, 1)

    def forward(
        self,
        observation: torch.Tensor,
        prev_action: torch.Tensor,  # one-hot
        prev_reward: torch.Tensor,
        init_rnn_state: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Return (pi, value, next_rnn_state), for leading dimensions [], [B] or [T, B]."""
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = torch.cat([observation, prev_action, prev_reward.unsqueeze(-1)], -1).view(T, B, -1)
        h0 = None if init_rnn_state is None else init_rnn_state.h
        out, h = self.gru(x, h0)
        out = out.view(T * B, -1)
        pi, value = torch.softmax(self.pi(out), -1), self.value(out).squeeze(-1)
        pi, value = restore_leading_dims((pi, value), lead_dim, T, B)
        return pi, value, RnnState(h)


class MemoryAgent(RecurrentCategoricalPgAgent):
    """Recurrent agent that builds the model from the spaces."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """Return the arguments of the model."""
        return dict(observation_size=env_spaces.observation.shape[0], n_actions=env_spaces.action.n)


def build_and_train(n_steps: int, feed_forward: bool, run_ID: int, log_dir: str) -> None:
    """Build all parts and train."""
    sampler = CpuSampler(EnvCls=MemoryEnv, env_kwargs=dict(delay=4), batch_T=20, batch_B=16)
    algo = PPO(
        learning_rate=3e-3, gae_lambda=0.95, ratio_clip=0.2, entropy_loss_coeff=0.01,
        normalize_advantage=True,
    )  # fmt: skip
    agent = CategoricalMlpAgent() if feed_forward else MemoryAgent(ModelCls=GruModel)
    runner = MinibatchRl(
        algo=algo,
        agent=agent,
        sampler=sampler,
        n_steps=n_steps,
        seed=0,
        affinity=dict(n_workers=2, master_torch_threads=1),
        log_interval_steps=8_000,
    )
    with logger_context(log_dir, run_ID, "memory_ppo"):
        runner.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60_000, help="environment steps")
    parser.add_argument("--feed-forward", action="store_true", help="use an agent without memory")
    parser.add_argument("--run-id", type=int, default=0, help="number of the run, part of its path")
    parser.add_argument(
        "--log-dir", default="example_5", help="directory; relative paths are below data/"
    )
    args = parser.parse_args()
    build_and_train(args.steps, args.feed_forward, args.run_id, args.log_dir)
