"""Small runs of DQN on Atari, acting in the master process."""

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.experiments.configs.atari.dqn.atari_dqn_debug import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

build_and_train = atari(configs, DQN, AtariDqnAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
