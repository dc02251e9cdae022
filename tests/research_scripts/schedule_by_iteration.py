"""Learning rate and entropy bonus follow schedules of the project, set in ``optimize_agent``."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler

RATES = []


class ScheduledA2C(A2C):
    def initialize(self, agent, n_itr, *args, **kwargs):
        super().initialize(agent, n_itr, *args, **kwargs)
        self.n_itr = n_itr

    def optimize_agent(self, itr, samples):
        left = 1 - itr / self.n_itr
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * left
        self.entropy_loss_coeff = 0.1 * left
        RATES.append(self.optimizer.param_groups[0]["lr"])
        return super().optimize_agent(itr, samples)


if __name__ == "__main__":
    sampler = SerialSampler(Walk, {}, batch_T=5, batch_B=2)
    algo = ScheduledA2C(learning_rate=1e-2)
    MinibatchRl(algo=algo, agent=PolicyAgent(), sampler=sampler, n_steps=50).train()
    assert [round(rate, 4) for rate in RATES] == [0.01, 0.008, 0.006, 0.004, 0.002]
