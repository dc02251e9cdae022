"""Recurrent A2C on Atari, acting in the master process."""

from rlpyt.agents.pg.atari import AtariLstmAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.experiments.configs.atari.pg.atari_lstm_a2c import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

build_and_train = atari(configs, A2C, AtariLstmAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
