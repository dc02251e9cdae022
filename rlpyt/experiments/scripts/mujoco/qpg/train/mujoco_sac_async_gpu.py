"""The first version of SAC on MuJoCo, with asynchronous sampling and action servers."""

from rlpyt.agents.qpg.sac_v_agent import SacAgent
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.experiments.configs.mujoco.qpg.mujoco_sac_v import configs
from rlpyt.experiments.scripts.train import mujoco
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler

build_and_train = mujoco(configs, SAC_V, SacAgent, AsyncGpuSampler)

if __name__ == "__main__":
    build_and_train.main()
