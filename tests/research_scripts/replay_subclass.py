"""A replay of the project: rewards are rescaled as batches are drawn."""

from common import QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.algos.dqn.dqn import DQN, SamplesToBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler


class RescaledReplay(UniformReplayBuffer):
    drawn = 0

    def extract_batch(self, T_idxs, B_idxs):
        batch = super().extract_batch(T_idxs, B_idxs)
        RescaledReplay.drawn += len(T_idxs)
        return batch._replace(return_=batch.return_ * 0.5)


class RescaledDQN(DQN):
    def initialize_replay_buffer(self, examples, batch_spec, async_=False):
        example = SamplesToBuffer(
            observation=examples["observation"],
            action=examples["action"],
            reward=examples["reward"],
            done=examples["done"],
        )
        self.replay_buffer = RescaledReplay(
            example=example,
            size=self.replay_size,
            B=batch_spec.B,
            discount=self.discount,
            n_step_return=self.n_step_return,
        )

    def samples_to_buffer(self, samples):
        return SamplesToBuffer(
            observation=samples.env.observation,
            action=samples.agent.action,
            reward=samples.env.reward,
            done=samples.env.done,
        )


class Agent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


if __name__ == "__main__":
    sampler = SerialSampler(Walk, {}, batch_T=4, batch_B=2)
    algo = RescaledDQN(min_steps_learn=40, replay_size=400, batch_size=8, replay_ratio=4)
    MinibatchRl(
        algo=algo, agent=Agent(ModelCls=QModel), sampler=sampler, n_steps=120,
        log_interval_steps=40,
    ).train()  # fmt: skip
    assert RescaledReplay.drawn == 8 * algo.update_counter > 0
