"""Parts that derive from nothing of rlpyt: only the methods that the runner calls."""

from collections import namedtuple
from types import SimpleNamespace

from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.collections import BatchSpec, TrajInfo
from rlpyt.utils.logging.context import logger_context

OptInfo = namedtuple("OptInfo", ["loss"])


class BareAgent:
    recurrent = alternating = False

    def to_device(self, cuda_idx=None):
        pass

    def train_mode(self, itr):
        pass

    sample_mode = eval_mode = train_mode

    def state_dict(self):
        return dict(weights=[1, 2, 3])


class BareAlgorithm:
    opt_info_fields = ("loss",)
    bootstrap_value = False
    update_counter = 0

    def initialize(self, agent, n_itr, batch_spec, mid_batch_reset, examples,
                   world_size=1, rank=0):  # fmt: skip
        self.n_itr = n_itr

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        self.update_counter += 1
        return OptInfo(loss=float(samples.mean))

    def optim_state_dict(self):
        return {}


class BareSampler:
    mid_batch_reset = True
    batch_spec = BatchSpec(2, 3)
    batch_size = 6

    def initialize(self, agent, affinity, seed, bootstrap_value=False, traj_info_kwargs=None,
                   rank=0, world_size=1):  # fmt: skip
        return dict(observation=0.0)

    def obtain_samples(self, itr):
        info = TrajInfo()
        info.step(0.0, 1, 0.5, True, (), ())
        return SimpleNamespace(mean=itr), [info]

    def shutdown(self):
        self.closed = True


if __name__ == "__main__":
    sampler, algo = BareSampler(), BareAlgorithm()
    runner = MinibatchRl(
        algo=algo, agent=BareAgent(), sampler=sampler, n_steps=30, log_interval_steps=12
    )
    with logger_context("runs", 0, "bare", snapshot_mode="last", override_prefix=True):
        runner.train()
    assert algo.update_counter == 5 and sampler.closed
