"""R2D1 on Atari, with asynchronous sampling and action servers."""

from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1Agent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.experiments.configs.atari.dqn.atari_r2d1 import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler

build_and_train = atari(configs, R2D1, AtariR2d1Agent, AsyncGpuSampler)

if __name__ == "__main__":
    build_and_train.main()
