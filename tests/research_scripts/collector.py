"""A collector of the project, which plays one environment after the other, in whole episodes."""

import numpy as np
import torch
from common import Walk, train_a2c

from rlpyt.agents.base import AgentInputs
from rlpyt.samplers.collectors import BaseCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, numpify_buffer

BATCHES = []


class EpisodePerBatchCollector(BaseCollector):
    """Begin every batch with new episodes, and end those that run at its end."""

    mid_batch_reset = True

    def start_envs(self, max_decorrelation_steps=0):
        assert max_decorrelation_steps == 0
        starts = [self.begin(env) for env in self.envs]
        columns = [np.stack(column) for column in zip(*starts, strict=True)]
        return AgentInputs(*columns), [self.TrajInfoCls() for _ in starts]

    def start_agent(self):
        self.agent.collector_initialize(global_B=self.global_B, env_ranks=self.env_ranks)
        self.agent.reset()

    def collect_batch(self, agent_inputs, traj_infos, itr):
        BATCHES.append(itr)
        self.agent.sample_mode(itr)
        trajectories = [info for b in range(len(self.envs)) for info in self.play(b)]
        if hasattr(self.samples_np.agent, "bootstrap_value"):
            self.samples_np.agent.bootstrap_value[:] = 0  # nothing follows the batch
        return agent_inputs, traj_infos, trajectories

    def begin(self, env):
        return AgentInputs(env.reset(), env.action_space.null_value(), np.float32(0))

    def play(self, b):
        """Fill what the batch has of environment b, and yield the trajectories that ended."""
        env, of_env, of_agent = self.envs[b], self.samples_np.env, self.samples_np.agent
        now, info = self.begin(env), self.TrajInfoCls()
        of_agent.prev_action[0, b], of_env.prev_reward[0, b] = now.prev_action, now.prev_reward
        for t in range(self.batch_T):
            row = buffer_func(now, lambda x: torch.from_numpy(np.array(x))[None])
            of_env.observation[t, b] = now.observation
            choice = numpify_buffer(self.agent.step(*row))[0]
            of_agent.action[t, b], of_agent.agent_info[t, b] = choice.action, choice.agent_info
            step = env.step(choice.action)
            info.step(now.observation, choice.action, step.reward, step.done, None, step.env_info)
            of_env.reward[t, b], of_env.env_info[t, b] = step.reward, step.env_info
            of_env.done[t, b] = step.done or t == self.batch_T - 1
            now = AgentInputs(step.observation, choice.action, np.float32(step.reward))
            if step.done:
                yield info.terminate(step.observation)
                now, info = self.begin(env), self.TrajInfoCls()


if __name__ == "__main__":
    sampler = SerialSampler(
        EnvCls=Walk,
        env_kwargs={},
        batch_T=10,
        batch_B=2,
        CollectorCls=EpisodePerBatchCollector,
        max_decorrelation_steps=0,
    )
    train_a2c(sampler, n_steps=60)
    assert BATCHES == [0, 1, 2]
