"""Subclasses of the project read attributes that begin with an underscore, and use old names."""

import numpy as np
import torch
from common import PolicyAgent, QModel, Walk

from rlpyt.agents.dqn.dqn_agent import DqnAgent
from rlpyt.agents.pg.atari import (
    AtariFfAgent,
    AtariLstmAgent,
    CategoricalPgAgent,
    RecurrentCategoricalPgAgent,
)
from rlpyt.agents.pg.mujoco import (
    AlternatingRecurrentGaussianPgAgent,
    GaussianPgAgent,
    MujocoFfAgent,
    MujocoMixin,
    RecurrentGaussianPgAgent,
)
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.sac import SAC
from rlpyt.envs.base import Env, EnvSpaces, EnvStep
from rlpyt.models.pg.atari_ff_model import AtariFfModel
from rlpyt.models.pg.atari_lstm_model import AtariLstmModel
from rlpyt.models.pg.mujoco_ff_model import MujocoFfModel
from rlpyt.models.pg.mujoco_lstm_model import MujocoLstmModel
from rlpyt.models.qpg.mlp import MuMlpModel, PiMlpModel, QofMuMlpModel
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.parallel.cpu.collectors import (
    BaseEvalCollector,
    CpuEvalCollector,
    CpuResetCollector,
    DecorrelatingStartCollector,
)
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.logging import logger
from rlpyt.utils.tensor import infer_leading_dims, restore_leading_dims


class Pull(Env):
    """Pull a point to the origin."""

    _action_space = FloatBox(-1.0, 1.0, shape=(1,))
    _observation_space = FloatBox(-4.0, 4.0, shape=(2,))

    def reset(self):
        self.x, self.t = np.array([2.0, -1.0], np.float32), 0
        return self.x.copy()

    def step(self, action):
        self.x = self.x + 0.5 * np.float32(action[0])
        self.t += 1
        return EnvStep(self.x.copy(), -float(abs(self.x).sum()), self.t == 6, ())

    @property
    def horizon(self):
        return 6


class TwoLayerMean(MujocoFfModel):
    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, self._obs_ndim)
        flat = observation.reshape(T * B, -1)
        mu, v = self.mu(flat), self.v(flat).squeeze(-1)
        log_std = self.log_std.repeat(T * B, 1)
        return restore_leading_dims((mu, log_std, v), lead_dim, T, B)


class Memory(MujocoLstmModel):
    def forward(self, observation, prev_action, prev_reward, init_rnn_state):
        _, T, B, _ = infer_leading_dims(observation, self._obs_n_dim)
        assert (T, B, self._action_size) == (3, 2, 4)
        return super().forward(observation, prev_action, prev_reward, init_rnn_state)


class SquaredPi(PiMlpModel):
    def forward(self, observation, prev_action, prev_reward):
        lead_dim, T, B, _ = infer_leading_dims(observation, self._obs_ndim)
        output = self.mlp(observation.view(T * B, -1))
        mu, log_std = output[:, : self._action_size], output[:, self._action_size :]
        return restore_leading_dims((mu, log_std), lead_dim, T, B)


class SquaredQ(QofMuMlpModel):
    def forward(self, observation, prev_action, prev_reward, action):
        lead_dim, T, B, _ = infer_leading_dims(observation, self._obs_ndim)
        inputs = torch.cat([observation.view(T * B, -1), action.view(T * B, -1)], dim=1)
        return restore_leading_dims(self.mlp(inputs).squeeze(-1), lead_dim, T, B)


class WideClipPPO(PPO):
    def loss(self, agent_inputs, action, return_, advantage, valid, old_dist_info,
             init_rnn_state=None):  # fmt: skip
        dist_info, value = self.agent(*agent_inputs)
        ratio = self.agent.distribution.likelihood_ratio(
            action, old_dist_info=old_dist_info, new_dist_info=dist_info
        )
        self.clips.append(self._ratio_clip)
        clipped = torch.clamp(ratio, 1.0 - 2 * self._ratio_clip, 1.0 + 2 * self._ratio_clip)
        pi_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        entropy = self.agent.distribution.mean_entropy(dist_info)
        perplexity = self.agent.distribution.mean_perplexity(dist_info)
        value_error = 0.5 * (value - return_) ** 2
        return pi_loss + value_error.mean() - 0.01 * entropy, entropy, perplexity


class WatchedSAC(SAC):
    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        opt_info = super().optimize_agent(itr, samples, sampler_itr)
        assert torch.isclose(self._alpha, torch.exp(self._log_alpha.detach()))
        self.log_alphas.append(float(self._log_alpha))
        return opt_info


class Curves(MinibatchRlEval):
    """Its own loop hands the trajectories on by name, and plots against the logger's count."""

    def log_diagnostics(self, itr, eval_traj_infos, eval_time, prefix="Diagnostics/"):
        iterations.append(logger._iteration)
        super().log_diagnostics(
            itr, eval_traj_infos=eval_traj_infos, eval_time=eval_time, prefix=prefix
        )


class KeywordAtari(AtariFfAgent):
    def __call__(self, observation, prev_action, prev_reward):
        pi, value = self.model(image=observation, prev_action=prev_action, prev_reward=prev_reward)
        return pi, value


class CroppedAtari(AtariLstmModel):
    def forward(self, image, prev_action, prev_reward, init_rnn_state):
        image = image[..., :40, :40]
        return super().forward(
            image=image,
            prev_action=prev_action,
            prev_reward=prev_reward,
            init_rnn_state=init_rnn_state,
        )


class OwnMujocoLstmAgent(MujocoMixin, AlternatingRecurrentGaussianPgAgent):
    """From the parts that the module imports."""


class QAgent(DqnAgent):
    def make_env_to_model_kwargs(self, env_spaces):
        return dict(n_in=env_spaces.observation.shape[0], n_out=env_spaces.action.n)


iterations = []


if __name__ == "__main__":
    assert MuMlpModel((2,), [4], 1, output_max=2)._output_max == 2
    assert MuMlpModel((2, 3), [4], 1)._obs_ndim == 2
    memory = Memory((5,), 4, hidden_sizes=[8], lstm_size=8)
    mu, *_ = memory(torch.zeros(3, 2, 5), torch.zeros(3, 2, 4), torch.zeros(3, 2), None)
    assert mu.shape == (3, 2, 4)

    algo = WideClipPPO(epochs=1, minibatches=2)
    algo.clips = []
    sampler = SerialSampler(Pull, {}, batch_T=6, batch_B=2)
    MinibatchRl(
        algo=algo, agent=MujocoFfAgent(ModelCls=TwoLayerMean), sampler=sampler, n_steps=36
    ).train()
    assert np.allclose(algo.clips, 6 * [0.1])  # that of the start; ratio_clip decays

    algo = WatchedSAC(min_steps_learn=12, batch_size=8, replay_ratio=8, replay_size=200)
    algo.log_alphas = []
    agent = SacAgent(
        ModelCls=SquaredPi, QModelCls=SquaredQ,
        model_kwargs=dict(hidden_sizes=[8]), q_model_kwargs=dict(hidden_sizes=[8]),
    )  # fmt: skip
    sampler = SerialSampler(Pull, {}, batch_T=6, batch_B=2)
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=48).train()
    assert algo.log_alphas[0] != algo.log_alphas[-1]

    sampler = SerialSampler(
        Walk, {}, batch_T=4, batch_B=2, eval_n_envs=1, eval_max_steps=24
    )  # fmt: skip
    algo = DQN(min_steps_learn=8, batch_size=4, replay_size=100)
    runner = Curves(
        algo=algo, agent=QAgent(ModelCls=QModel), sampler=sampler, n_steps=32,
        log_interval_steps=16,
    )  # fmt: skip
    runner.train()
    assert iterations[1:] == [0, 16]  # the first is that of the run before

    # Settings of evaluations that never happen.
    sampler = SerialSampler(
        Walk, {}, batch_T=4, batch_B=2, eval_n_envs=0, eval_max_steps=0, eval_max_trajectories=0
    )
    MinibatchRl(algo=PPO(minibatches=1), agent=PolicyAgent(), sampler=sampler, n_steps=16).train()

    spaces = EnvSpaces(IntBox(0, 256, shape=(1, 48, 48), dtype="uint8"), IntBox(0, 3))
    small = dict(channels=[4], kernel_sizes=[8], strides=[8], paddings=[0], fc_sizes=8)
    agent = KeywordAtari(model_kwargs=small)
    agent.initialize(spaces)
    images = torch.zeros(3, 2, 1, 48, 48, dtype=torch.uint8)
    pi, value = agent(images, torch.zeros(3, 2, 3), torch.zeros(3, 2))
    assert pi.shape == (3, 2, 3) and value.shape == (3, 2)
    assert isinstance(agent.model, AtariFfModel)
    model = CroppedAtari((1, 40, 40), 3, lstm_size=8, **small)
    pi, value, _ = model(images, torch.zeros(3, 2, 3), torch.zeros(3, 2), None)
    assert pi.shape == (3, 2, 3)
    assert AtariLstmAgent.ModelCls is AtariLstmModel
    assert issubclass(RecurrentGaussianPgAgent, GaussianPgAgent)
    assert issubclass(RecurrentCategoricalPgAgent, CategoricalPgAgent)
    assert issubclass(CpuResetCollector, DecorrelatingStartCollector)
    assert issubclass(CpuEvalCollector, BaseEvalCollector)
    agent = OwnMujocoLstmAgent(
        ModelCls=MujocoLstmModel, model_kwargs=dict(hidden_sizes=[4], lstm_size=4)
    )
    agent.initialize(EnvSpaces(Pull._observation_space, Pull._action_space))
    assert agent.alternating and agent.recurrent
