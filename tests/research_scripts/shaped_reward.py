"""The algorithm adds a bonus to the rewards of the samples before it learns from them."""

import torch
from common import PolicyAgent, Walk

from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler


class CountBonusPPO(PPO):
    def __init__(self, bonus=0.1, **kwargs):
        super().__init__(**kwargs)
        self.bonus = bonus
        self.counts = None

    def optimize_agent(self, itr, samples):
        observation = samples.env.observation
        if self.counts is None:
            self.counts = torch.zeros(observation.shape[-1])
        self.counts += observation.sum(dim=(0, 1))
        bonus = self.bonus / (1 + (observation * self.counts).sum(-1)).sqrt()
        samples.env.reward[:] = samples.env.reward + bonus
        return super().optimize_agent(itr, samples)


if __name__ == "__main__":
    algo = CountBonusPPO(minibatches=2, epochs=2, linear_lr_schedule=False)
    sampler = SerialSampler(Walk, {}, batch_T=6, batch_B=2, max_decorrelation_steps=0)
    MinibatchRl(algo=algo, agent=PolicyAgent(), sampler=sampler, n_steps=48).train()
    assert algo.counts.sum() == 48
