"""TD3 on MuJoCo, in one process."""

from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.experiments.configs.mujoco.qpg.mujoco_td3 import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.serial.sampler import SerialSampler

build_and_train = mujoco(configs, TD3, Td3Agent, SerialSampler)

if __name__ == "__main__":
    build_and_train.main()
