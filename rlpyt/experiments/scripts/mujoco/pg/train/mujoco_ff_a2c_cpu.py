"""A2C on MuJoCo, acting in worker processes."""

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.experiments.configs.mujoco.pg.mujoco_a2c import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

build_and_train = mujoco(configs, A2C, MujocoFfAgent, CpuSampler)

if __name__ == "__main__":
    build_and_train.main()
