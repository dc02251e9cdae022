"""DDPG on MuJoCo, with asynchronous sampling in one process."""

from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.experiments.configs.mujoco.qpg.mujoco_ddpg import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler

build_and_train = mujoco(configs, DDPG, DdpgAgent, AsyncSerialSampler)

if __name__ == "__main__":
    build_and_train.main()
