"""R2D1 with a recurrent Q network of the project, prioritised by sequence."""

import torch
from common import Walk

from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.models.dqn.atari_r2d1_model import RnnState
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class RecurrentQ(torch.nn.Module):
    def __init__(self, n_in, n_out, size=8):
        super().__init__()
        self.lstm = torch.nn.LSTM(n_in + n_out + 1, size)
        self.q = torch.nn.Linear(size, n_out)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        parts = (observation, prev_action, prev_reward)
        x = torch.cat([part.float().view(T, B, -1) for part in parts], dim=2)
        state = None if init_rnn_state is None else tuple(init_rnn_state)
        y, (h, c) = self.lstm(x, state)
        q = restore_leading_dims(self.q(y.view(T * B, -1)), lead_dim, T, B)
        return q, RnnState(h=h, c=c)


class Agent(R2d1Agent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    algo = R2D1(
        batch_T=4, batch_B=4, warmup_T=2, store_rnn_state_interval=2, replay_size=400,
        min_steps_learn=80, replay_ratio=1, n_step_return=2, prioritized_replay=True,
        input_priorities=False,
    )  # fmt: skip
    MinibatchRl(
        algo=algo,
        agent=Agent(ModelCls=RecurrentQ),
        sampler=SerialSampler(Walk, {}, batch_T=10, batch_B=2),
        n_steps=200,
    ).train()
    assert algo.update_counter > 0
