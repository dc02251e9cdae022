"""TD3 on MuJoCo, with asynchronous sampling in worker processes."""

from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.experiments.configs.mujoco.qpg.mujoco_td3 import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler

build_and_train = mujoco(configs, TD3, Td3Agent, AsyncCpuSampler)

if __name__ == "__main__":
    build_and_train.main()
