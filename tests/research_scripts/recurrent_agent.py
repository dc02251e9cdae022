"""PPO with an LSTM of the project."""

import torch
from common import Walk

from rlpyt.agents.pg.categorical import RecurrentCategoricalPgAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims

RnnState = namedarraytuple("RnnState", ["h", "c"])


class LstmModel(torch.nn.Module):
    def __init__(self, n_in, n_out, size=8):
        super().__init__()
        self.lstm = torch.nn.LSTM(n_in + n_out + 1, size)
        self.out = torch.nn.Linear(size, n_out + 1)

    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        lead_dim, T, B, _ = infer_leading_dims(observation, 1)
        x = torch.cat(
            [
                observation.reshape(T, B, -1),
                prev_action.reshape(T, B, -1),
                prev_reward.reshape(T, B, 1),
            ],
            dim=2,
        )
        state = None if init_rnn_state is None else tuple(init_rnn_state)
        y, (h, c) = self.lstm(x, state)
        y = self.out(y.reshape(T * B, -1))
        pi, v = torch.softmax(y[:, :-1], dim=-1), y[:, -1]
        pi, v = restore_leading_dims((pi, v), lead_dim, T, B)
        return pi, v, RnnState(h=h, c=c)


class LstmAgent(RecurrentCategoricalPgAgent):
    def __init__(self, ModelCls=LstmModel, **kwargs):
        super().__init__(ModelCls=ModelCls, **kwargs)

    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    sampler = SerialSampler(Walk, {}, batch_T=6, batch_B=4, max_decorrelation_steps=0)
    runner = MinibatchRl(
        algo=PPO(epochs=2, minibatches=2),
        agent=LstmAgent(),
        sampler=sampler,
        n_steps=96,
        log_interval_steps=48,
    )
    runner.train()
