"""DQN with RMSprop (key `rmsprop`) on Atari, acting in the master process."""

from functools import partial

import torch

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.experiments.configs.atari.dqn.atari_dqn import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

RmspropDqn = partial(DQN, OptimCls=torch.optim.RMSprop)
build_and_train = atari(configs, RmspropDqn, AtariDqnAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
