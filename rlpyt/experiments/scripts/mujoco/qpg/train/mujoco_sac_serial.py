"""SAC on MuJoCo, in one process."""

from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.qpg.sac import SAC
from rlpyt.experiments.configs.mujoco.qpg.mujoco_sac import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.serial.sampler import SerialSampler

build_and_train = mujoco(configs, SAC, SacAgent, SerialSampler)

if __name__ == "__main__":
    build_and_train.main()
