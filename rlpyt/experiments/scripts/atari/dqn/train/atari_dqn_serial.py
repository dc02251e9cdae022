"""DQN on Atari, in one process."""

from rlpyt.agents.dqn.atari.atari_dqn_agent import AtariDqnAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.experiments.configs.atari.dqn.atari_dqn import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.serial.sampler import SerialSampler

build_and_train = atari(configs, DQN, AtariDqnAgent, SerialSampler)

if __name__ == "__main__":
    build_and_train.main()
