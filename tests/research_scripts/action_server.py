"""The action server of rlpyt mixed into a sampler of the project, which counts its batches."""

from common import Walk, train_a2c

from rlpyt.samplers.parallel.gpu.action_server import ActionServer
from rlpyt.samplers.parallel.gpu.sampler import GpuSamplerBase


class CountingServer(ActionServer):
    n_served = 0

    def serve_actions(self, itr):
        self.n_served += 1
        return super().serve_actions(itr)


class CountingSampler(CountingServer, GpuSamplerBase):
    """Sampler of this project."""


if __name__ == "__main__":
    sampler = CountingSampler(EnvCls=Walk, env_kwargs={}, batch_T=4, batch_B=2)
    train_a2c(sampler, n_steps=24)
    assert sampler.n_served == 3, sampler.n_served
