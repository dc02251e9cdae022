"""Train a custom recurrent model in a task that needs memory.

The first observation of ``MemoryEnv`` contains a cue that must be repeated four steps later: an
agent without memory gets 0.5 on average, a perfect one 1. The model takes (observation,
prev_action, prev_reward, init_rnn_state), with leading dimensions [T, B] in training and [B] while
acting, and returns (pi, value, next_rnn_state). The agent keeps the recurrent state while acting;
in training, batches are split where episodes start, so that no sequence contains two episodes.
Watch ReturnAverage.

    python examples/recurrent_memory.py                  # rises to nearly 1
    python examples/recurrent_memory.py --feed-forward   # stays near 0.5

For a ready LSTM or GRU use ``CategoricalLstmAgent``, with ``model_kwargs=dict(memory="gru")``.
"""

from typing import Any

import torch
import tyro

from rlpyt import PPO, CategoricalMlpAgent, CpuSampler, MinibatchRl, logger_context
from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgent
from rlpyt.envs.toy import MemoryEnv
from rlpyt.utils.collections import namedarraytuple
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
        out, h = self.gru(x, None if init_rnn_state is None else init_rnn_state.h)
        out = out.view(T * B, -1)
        pi, value = torch.softmax(self.pi(out), -1), self.value(out).squeeze(-1)
        return *restore_leading_dims((pi, value), lead_dim, T, B), RnnState(h)


class MemoryAgent(RecurrentCategoricalPgAgent):
    """Recurrent agent that builds the model from the spaces."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, Any]:
        """Return the arguments of the model."""
        return dict(observation_size=env_spaces.observation.shape[0], n_actions=env_spaces.action.n)


def main(
    steps: int = 60_000,
    feed_forward: bool = False,
    run_id: int = 0,
    log_dir: str = "recurrent_memory",
) -> None:
    """Train PPO with or without memory.

    Args:
        steps: environment steps.
        feed_forward: train an agent without memory instead.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    runner = MinibatchRl(
        algo=PPO(learning_rate=3e-3, gae_lambda=0.95, ratio_clip=0.2, normalize_advantage=True),
        agent=CategoricalMlpAgent() if feed_forward else MemoryAgent(ModelCls=GruModel),
        sampler=CpuSampler(MemoryEnv, dict(delay=4), batch_T=20, batch_B=16),
        n_steps=steps,
        seed=0,
        affinity=dict(n_workers=2, master_torch_threads=1),
        log_interval_steps=8_000,
    )
    with logger_context(log_dir, run_id, "memory_ppo", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
