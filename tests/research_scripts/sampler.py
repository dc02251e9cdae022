"""A sampler of the project: it replays a scripted policy and lets the agent fill in its values."""

import numpy as np
from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.base import BaseSampler
from rlpyt.samplers.buffer import build_samples_buffer
from rlpyt.utils.buffer import numpify_buffer, torchify_buffer


class Placeholder:
    """Nothing but the attribute that algorithms ask about."""

    mid_batch_reset = True


class ScriptedSampler(BaseSampler):
    def initialize(
        self,
        agent,
        affinity=None,
        seed=None,
        bootstrap_value=False,
        traj_info_kwargs=None,
        rank=0,
        world_size=1,
    ):
        self.agent = agent
        self.envs = [self.EnvCls(**self.env_kwargs) for _ in range(self.batch_spec.B)]
        agent.initialize(self.envs[0].spaces, share_memory=False, global_B=self.batch_spec.B)
        agent.collector_initialize(global_B=self.batch_spec.B)
        self.samples_pyt, self.samples_np, examples = build_samples_buffer(
            agent,
            self.envs[0],
            self.batch_spec,
            bootstrap_value,
            agent_shared=False,
            env_shared=False,
            subprocess=False,
        )
        self.traj_infos = [self.TrajInfoCls() for _ in self.envs]
        self.observations = [env.reset() for env in self.envs]
        return examples

    def obtain_samples(self, itr):
        self.agent.sample_mode(itr)
        env_buf, agent_buf, completed = self.samples_np.env, self.samples_np.agent, []
        for t in range(self.batch_spec.T):
            env_buf.observation[t] = np.stack(self.observations)
            inputs = torchify_buffer(
                (env_buf.observation[t], agent_buf.prev_action[t], env_buf.prev_reward[t])
            )
            step = numpify_buffer(self.agent.step(*inputs))
            agent_buf.agent_info[t] = step.agent_info
            for b, env in enumerate(self.envs):
                agent_buf.action[t, b] = action = 1
                o, r, d, info = env.step(action)
                self.traj_infos[b].step(
                    self.observations[b], action, r, d, step.agent_info[b], info
                )
                if d:
                    completed.append(self.traj_infos[b].terminate(o))
                    self.traj_infos[b], o = self.TrajInfoCls(), env.reset()
                env_buf.reward[t, b], env_buf.done[t, b] = r, d
                self.observations[b] = o
        return self.samples_pyt, completed


if __name__ == "__main__":
    sampler = ScriptedSampler(
        EnvCls=Walk,
        env_kwargs=dict(length=3),
        batch_T=4,
        batch_B=2,
        CollectorCls=Placeholder,
        max_decorrelation_steps=0,
    )
    runner = MinibatchRl(
        algo=A2C(), agent=PolicyAgent(), sampler=sampler, n_steps=24, log_interval_steps=8
    )
    runner.train()
