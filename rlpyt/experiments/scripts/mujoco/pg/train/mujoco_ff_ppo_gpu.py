"""PPO on MuJoCo, acting in the master process."""

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.experiments.configs.mujoco.pg.mujoco_ppo import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler

build_and_train = mujoco(configs, PPO, MujocoFfAgent, GpuSampler)

if __name__ == "__main__":
    build_and_train.main()
