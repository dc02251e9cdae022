"""DQN on Atari, with asynchronous sampling and action servers."""

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.experiments.configs.atari.dqn.atari_dqn import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler

build_and_train = atari(configs, DQN, AtariDqnAgent, AsyncGpuSampler)

if __name__ == "__main__":
    build_and_train.main()
