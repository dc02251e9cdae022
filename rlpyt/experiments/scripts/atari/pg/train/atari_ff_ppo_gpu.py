"""PPO on Atari, acting in the master process."""

from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.experiments.configs.atari.pg.atari_ff_ppo import configs
from rlpyt.experiments.scripts.train import atari
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

build_and_train = atari(configs, PPO, AtariFfAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
