"""DDPG on MuJoCo, acting in worker processes."""

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

build_and_train = mujoco(configs, DDPG, DdpgAgent, CpuSampler)

if __name__ == "__main__":
    build_and_train.main()
