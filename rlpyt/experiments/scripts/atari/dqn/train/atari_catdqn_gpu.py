"""Categorical DQN (keys `catdqn`, `ernbw`) on Atari, acting in the master process."""

from rlpyt.agents.dqn.atari.atari_catdqn_agent import AtariCatDqnAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.experiments.configs.atari.dqn.atari_dqn import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

build_and_train = atari(configs, CategoricalDQN, AtariCatDqnAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
