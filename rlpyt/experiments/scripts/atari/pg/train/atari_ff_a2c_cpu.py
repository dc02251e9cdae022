"""A2C on Atari, acting in worker processes."""

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.experiments.configs.atari.pg.atari_ff_a2c import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

build_and_train = atari(configs, A2C, AtariFfAgent, CpuSampler)

if __name__ == "__main__":
    build_and_train.main()
