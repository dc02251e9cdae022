"""A training loop of the project in place of the runner's."""

from common import PolicyAgent, Walk

from rlpyt.algos.pg.a2c import A2C
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import logger


class TwoUpdatesRunner(MinibatchRl):
    def train(self):
        n_itr = self.startup()
        for itr in range(n_itr):
            logger.set_iteration(itr)
            self.agent.sample_mode(itr)
            samples, traj_infos = self.sampler.obtain_samples(itr)
            self.agent.train_mode(itr)
            for _ in range(2):
                opt_info = self.algo.optimize_agent(itr, samples)
            self.store_diagnostics(itr, traj_infos, opt_info)
            if (itr + 1) % self.log_interval_itrs == 0:
                self.log_diagnostics(itr)
        self.shutdown()


if __name__ == "__main__":
    algo = A2C()
    runner = TwoUpdatesRunner(
        algo=algo,
        agent=PolicyAgent(),
        sampler=SerialSampler(Walk, {}, batch_T=5, batch_B=2),
        n_steps=50,
        log_interval_steps=20,
    )
    assert runner.min_itr_learn == 0
    runner.train()
    assert algo.update_counter == 10, algo.update_counter
