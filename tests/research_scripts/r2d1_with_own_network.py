"""R2D1 with network, replay and second optimizer of the project, prioritised by sequence."""

import torch
from common import Walk

from rlpyt.agents.dqn.r2d1_agent import R2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1, SamplesToBufferRnn
from rlpyt.models.dqn.atari_r2d1_model import RnnState
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
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


class OwnReplay(R2D1):
    def initialize(self, *args, **kwargs):
        super().initialize(*args, **kwargs)
        self.second = self.OptimCls(self.agent.parameters(), lr=1e-4, **self.optim_kwargs)

    def initialize_replay_buffer(self, examples, batch_spec, async_=False):
        names = ("observation", "action", "reward", "done")
        example = SamplesToBufferRnn(
            **{name: examples[name] for name in names},
            prev_rnn_state=examples["agent_info"].prev_rnn_state,
        )
        self.replay_buffer = PrioritizedSequenceReplayBuffer(
            example=example,
            size=self.replay_size,
            B=batch_spec.B,
            discount=self.discount,
            n_step_return=self.n_step_return,
            rnn_state_interval=self.store_rnn_state_interval,
            batch_T=self.batch_T + self.warmup_T,
            alpha=self.pri_alpha,
            beta=self.pri_beta_init,
            default_priority=self.default_priority,
            input_priorities=self.input_priorities,
            input_priority_shift=self.input_priority_shift,
        )
        return self.replay_buffer


def train(AlgoCls):
    algo = AlgoCls(
        batch_T=4, batch_B=4, warmup_T=2, store_rnn_state_interval=2, replay_size=400,
        min_steps_learn=80, replay_ratio=1, n_step_return=2, prioritized_replay=True,
        input_priorities=False,
    )  # fmt: skip
    MinibatchRl(
        algo=algo,
        agent=Agent(ModelCls=RecurrentQ),
        sampler=SerialSampler(Walk, {}, batch_T=10, batch_B=2),
        n_steps=200,
        seed=1,
    ).train()
    assert algo.update_counter > 0
    return algo


if __name__ == "__main__":
    plain, own = train(R2D1), train(OwnReplay)
    assert own.second.defaults["eps"] == plain.optimizer.defaults["eps"] == 1e-3
    weights = [algo.agent.model.state_dict().values() for algo in (plain, own)]
    assert all(map(torch.equal, *weights))
