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
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.collections import BatchSpec
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler

NETWORKS = {"model": "model_kwargs", "q_model": "q_model_kwargs", "v_model": "v_model_kwargs"}
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


def build_agent(Agent, config):
    networks = {name: config[part] for part, name in NETWORKS.items() if part in config}
    return Agent(**networks, **config["agent"])


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_configs_of_rlpyt_are_arguments_of_its_classes(module):
    Algo, Agent, keys = CASES[module]
    assert set(module.configs) == set(keys.split())
    for key, config in module.configs.items():
        sampler = CpuSampler(
            EnvCls=make,
            env_kwargs=config["env"],
            eval_env_kwargs=config["eval_env"],
            **config["sampler"],
        )
        algo = Algo(optim_kwargs=config["optim"], **config["algo"])
        agent = build_agent(Agent, config)
        Runner = MinibatchRlEval if sampler.eval_n_envs else MinibatchRl
        runner = Runner(algo=algo, agent=agent, sampler=sampler, **config["runner"])
        assert runner.n_steps > getattr(algo, "min_steps_learn", 0)
        if hasattr(algo, "bootstrap_timelimit"):
            assert algo.bootstrap_timelimit == key.endswith("_bstl")


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_their_agents_and_algorithms_suit_each_other_and_the_environment(module):
    pytest.importorskip("mujoco")
    Algo, Agent, _ = CASES[module]
    for config in module.configs.values():
        env = make(**config["env"])
        agent = build_agent(Agent, config)
        agent.initialize(env.spaces)
        env.close()
        algo = Algo(optim_kwargs=config["optim"], **config["algo"])
        if hasattr(algo, "check_agent"):
            algo.check_agent(agent)
        else:
            sizes = config["sampler"]
            algo.initialize(agent, 10, BatchSpec(sizes["batch_T"], sizes["batch_B"]))
