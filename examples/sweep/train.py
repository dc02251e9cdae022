"""Train one run of the sweep in launch.py. The launcher calls

    python examples/sweep/train.py SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY

The code defines the cores of this run. LOG_DIR is the directory of the setting, with its variant:
the differences from the default configuration below.
"""

import sys
from typing import Any

import torch

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.gym import make
from rlpyt.models.mlp import MlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import load_variant, update_config
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

configs = dict(
    ppo=dict(
        agent=dict(model_kwargs=dict(hidden_size=64)),
        algo=dict(discount=0.99, learning_rate=1e-3, gae_lambda=0.95, clip_grad_norm=0.5),
        env=dict(id="CartPole-v1"),
        sampler=dict(batch_T=64, batch_B=8),
        runner=dict(n_steps=20_480, log_interval_steps=2_048),
    ),
)


class VectorModel(torch.nn.Module):
    """Separate networks for policy and value."""

    def __init__(self, n_inputs: int, n_actions: int, hidden_size: int) -> None:
        super().__init__()
        self.pi = MlpModel(n_inputs, [hidden_size, hidden_size], n_actions, torch.nn.Tanh)
        self.v = MlpModel(n_inputs, [hidden_size, hidden_size], 1, torch.nn.Tanh)

    def forward(
        self, observation: torch.Tensor, prev_action: torch.Tensor, prev_reward: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return probabilities [T, B, A] and values [T, B], or without T, or without T and B."""
        lead_dim, T, B, shape = infer_leading_dims(observation, 1)
        x = observation.view(T * B, *shape).float()
        pi, v = torch.softmax(self.pi(x), dim=-1), self.v(x).squeeze(-1)
        return restore_leading_dims((pi, v), lead_dim, T, B)


class VectorAgent(CategoricalPgAgent):
    """Agent that builds its model from the sizes of the environment's spaces."""

    def make_env_to_model_kwargs(self, env_spaces: Any) -> dict[str, int]:
        """Return the model's first two arguments."""
        return dict(n_inputs=env_spaces.observation.shape[0], n_actions=env_spaces.action.n)


def build_and_train(slot_affinity_code: str, log_dir: str, run_ID: str, config_key: str) -> None:
    """Build all parts and train."""
    affinity = affinity_from_code(slot_affinity_code)
    config = update_config(configs[config_key], load_variant(log_dir))
    runner = MinibatchRl(
        algo=PPO(**config["algo"]),
        agent=VectorAgent(ModelCls=VectorModel, **config["agent"]),
        sampler=SerialSampler(EnvCls=make, env_kwargs=config["env"], **config["sampler"]),
        seed=int(run_ID),
        affinity=affinity,
        **config["runner"],
    )
    name = f"{config_key}_{config['env']['id']}"
    with logger_context(log_dir, run_ID, name, log_params=config, snapshot_mode="last"):
        runner.train()


if __name__ == "__main__":
    build_and_train(*sys.argv[1:])
