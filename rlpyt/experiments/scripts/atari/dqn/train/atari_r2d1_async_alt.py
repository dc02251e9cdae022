"""R2D1 on Atari, with asynchronous sampling in alternating workers."""

from rlpyt.agents.dqn.atari.atari_r2d1_agent import AtariR2d1AlternatingAgent
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.experiments.configs.atari.dqn.atari_r2d1 import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.async_.alternating_sampler import AsyncAlternatingSampler

build_and_train = atari(configs, R2D1, AtariR2d1AlternatingAgent, AsyncAlternatingSampler)

if __name__ == "__main__":
    build_and_train.main()
