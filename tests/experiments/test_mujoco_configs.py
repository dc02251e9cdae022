"""Continuous control from rlpyt's configs."""

import pytest

from rlpyt.agents.pg.mujoco import MujocoFfAgent
from rlpyt.agents.qpg import sac_agent, sac_v_agent
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.gym import make
from rlpyt.experiments.configs.mujoco.pg import mujoco_a2c, mujoco_ppo
from rlpyt.experiments.configs.mujoco.qpg import mujoco_ddpg, mujoco_sac, mujoco_sac_v, mujoco_td3
from rlpyt.experiments.scripts.train import TrainScript
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

CASES = {
    mujoco_a2c: (A2C, MujocoFfAgent, "a2c_1M"),
    mujoco_ppo: (PPO, MujocoFfAgent, "ppo_1M_serial ppo_1M_cpu ppo_32ep_1mb"),
    mujoco_ddpg: (
        DDPG,
        DdpgAgent,
        "ddpg_from_td3_1M_serial ddpg_from_td3_serial_bstl async_serial",
    ),
    mujoco_td3: (TD3, Td3Agent, "td3_1M_serial td3_serial_bstl async_cpu"),
    mujoco_sac: (SAC, sac_agent.SacAgent, "sac_1M_serial sac_serial_bstl"),
    mujoco_sac_v: (SAC_V, sac_v_agent.SacAgent, "sac_1M_serial sac_serial_bstl async_gpu"),
}


def script(module):
    Algo, Agent, _ = CASES[module]
    return TrainScript(module.configs, Algo, Agent, CpuSampler, make)


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_configs_of_rlpyt_are_arguments_of_its_classes(module):
    assert set(module.configs) == set(CASES[module][2].split())
    for config in module.configs.values():
        runner = script(module).runner(config, affinity={})
        assert runner.n_steps > getattr(runner.algo, "min_steps_learn", 0)
        assert getattr(runner.algo, "bootstrap_timelimit", True)


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rsplit(".", 1)[1])
@pytest.mark.filterwarnings("ignore:'Hopper-v3' is no longer available")
def test_configs_build_agents_and_algorithms_that_fit_the_environment(module):
    pytest.importorskip("mujoco")
    for config in module.configs.values():
        runner = script(module).runner(config, affinity={})
        env = make(**config["env"])
        runner.agent.initialize(env.spaces)
        env.close()
        if hasattr(runner.algo, "check_agent"):
            runner.algo.check_agent(runner.agent)
        else:
            runner.algo.initialize(runner.agent, 10, runner.sampler.batch_spec)
