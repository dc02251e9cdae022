"""A collector of the project, which ends every episode at the end of the batch."""

import numpy as np
from common import PolicyAgent, Walk

from rlpyt.agents.base import AgentInputs
from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_from_example, numpify_buffer, torchify_buffer

BATCHES = []


class EpisodePerBatchCollector(BaseCollector):
    mid_batch_reset = True

    def start_envs(self, max_decorrelation_steps=0):
        assert max_decorrelation_steps == 0
        action = buffer_from_example(self.envs[0].action_space.null_value(), len(self.envs))
        observation = np.stack([env.reset() for env in self.envs])
        reward = np.zeros(len(self.envs), dtype="float32")
        traj_infos = [self.TrajInfoCls() for _ in self.envs]
        return AgentInputs(observation, action, reward), traj_infos

    def start_agent(self):
        self.agent.collector_initialize(global_B=self.global_B, env_ranks=self.env_ranks)
        self.agent.reset()
        self.agent.sample_mode(itr=0)

    def collect_batch(self, agent_inputs, traj_infos, itr):
        agent_buf, env_buf = self.samples_np.agent, self.samples_np.env
        observation = np.stack([env.reset() for env in self.envs])
        action = np.zeros_like(agent_inputs.prev_action)
        reward = np.zeros_like(agent_inputs.prev_reward)
        infos, completed = [self.TrajInfoCls() for _ in self.envs], []
        self.agent.reset()
        self.agent.sample_mode(itr)
        for t in range(self.batch_T):
            env_buf.prev_reward[t], agent_buf.prev_action[t] = reward, action
            env_buf.observation[t] = observation
            inputs = torchify_buffer(AgentInputs(observation, action, reward))
            action, agent_info = numpify_buffer(self.agent.step(*inputs))
            observation, reward = observation.copy(), reward.copy()
            for b, env in enumerate(self.envs):
                o, r, d, env_info = env.step(action[b])
                infos[b].step(observation[b], action[b], r, d, agent_info[b], env_info)
                if d:
                    completed.append(infos[b].terminate(o))
                    infos[b] = self.TrajInfoCls()
                    o = env.reset()
                observation[b], reward[b] = o, r
                env_buf.done[t, b] = d or t == self.batch_T - 1
                if env_info:
                    env_buf.env_info[t, b] = env_info
            agent_buf.action[t], env_buf.reward[t] = action, reward
            if agent_info:
                agent_buf.agent_info[t] = agent_info
        if "bootstrap_value" in agent_buf:
            agent_buf.bootstrap_value[:] = 0
        BATCHES.append(itr)
        return AgentInputs(observation, action, reward), infos, completed


if __name__ == "__main__":
    sampler = SerialSampler(
        EnvCls=Walk,
        env_kwargs={},
        batch_T=10,
        batch_B=2,
        CollectorCls=EpisodePerBatchCollector,
        max_decorrelation_steps=0,
    )
    MinibatchRl(algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=60).train()
    assert BATCHES == [0, 1, 2]
