"""The first version of SAC on MuJoCo, in one process."""

from rlpyt.agents.qpg.sac_v_agent import SacAgent
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.experiments.configs.mujoco.qpg.mujoco_sac_v import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.serial.sampler import SerialSampler

build_and_train = mujoco(configs, SAC_V, SacAgent, SerialSampler)

if __name__ == "__main__":
    build_and_train.main()
