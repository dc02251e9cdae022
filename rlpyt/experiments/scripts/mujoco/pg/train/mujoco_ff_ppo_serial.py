"""PPO on MuJoCo, in one process."""

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.experiments.configs.mujoco.pg.mujoco_ppo import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.serial.sampler import SerialSampler

build_and_train = mujoco(configs, PPO, MujocoFfAgent, SerialSampler)

if __name__ == "__main__":
    build_and_train.main()
