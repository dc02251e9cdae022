"""Train in an environment that is one program on tensors of all its rows.

``TensorSampler`` steps environments in the protocol of rsl_rl, such as simulators on a GPU, or a
batched program in torch as this CartPole. Observations, actions and the batch stay on its device
(docs/tensor_environments.md). Watch StepsPerSecond.

    python examples/tensor_environment.py
    python examples/tensor_environment.py --device cuda --n-envs 4096 --steps 5000000
"""

from typing import Any

import torch
import tyro
from gymnasium import spaces
from torch import Tensor

from rlpyt import PPO, CategoricalMlpAgent, MinibatchRl, TensorSampler, logger_context


class CartPole:
    """CartPole-v1 as a batched program: ``reset`` and ``step`` on tensors [num_envs, ...]."""

    single_action_space = spaces.Discrete(2)
    limit = 500  # steps of an episode

    def __init__(self, num_envs: int, device: Any = "cpu") -> None:
        self.num_envs, self.device = num_envs, device
        self.length = torch.zeros(num_envs, device=device)

    def seed(self, seed: int) -> None:
        """Seed the initial states."""
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def initial(self) -> Tensor:
        """Draw initial states."""
        uniform = torch.rand(self.num_envs, 4, generator=self.generator, device=self.device)
        return 0.1 * uniform - 0.05

    def reset(self) -> Tensor:
        """Start an episode in every row; return observations [num_envs, 4]."""
        self.state, self.length = self.initial(), torch.zeros_like(self.length)
        return self.state

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Step every row, and reset those whose episode has ended."""
        x, v, angle, w = self.state.unbind(1)
        cos, sin = angle.cos(), angle.sin()
        push = (20 * action - 10 + 0.05 * w**2 * sin) / 1.1
        w_dot = (9.8 * sin - cos * push) / (2 / 3 - 0.05 * cos**2 / 1.1)
        v_dot = push - 0.05 * w_dot * cos / 1.1
        change = torch.stack([v, v_dot, w, w_dot], 1)
        final = self.state + 0.02 * change
        self.length = self.length + 1
        late = self.length >= self.limit
        done = (final[:, 0].abs() > 2.4) | (final[:, 2].abs() > 0.2095) | late
        self.state = torch.where(done.unsqueeze(1), self.initial(), final)
        self.length = self.length.masked_fill(done, 0)
        extras = {"time_outs": late, "final_observation": final}
        return self.state, torch.ones_like(x), done, extras


def main(
    steps: int = 400_000,
    n_envs: int = 128,
    device: str = "cpu",
    run_id: int = 0,
    log_dir: str = "tensor_environment",
) -> None:
    """Train PPO in one environment of many rows.

    Args:
        steps: environment steps.
        n_envs: number of rows.
        device: cpu or cuda.
        run_id: number of the run, part of its path.
        log_dir: directory of the runs; a relative path is below data/local/DATE/TIME.
    """
    runner = MinibatchRl(
        algo=PPO(learning_rate=1e-3, discount=0.98, gae_lambda=0.9, epochs=8),
        agent=CategoricalMlpAgent(),
        sampler=TensorSampler(CartPole, batch_T=32, batch_B=n_envs),
        n_steps=steps,
        seed=0,
        affinity=dict(cuda_idx=0) if device == "cuda" else dict(master_torch_threads=1),
        log_interval_steps=40_960,
    )
    with logger_context(log_dir, run_id, "cartpole_tensors", snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    tyro.cli(main)
