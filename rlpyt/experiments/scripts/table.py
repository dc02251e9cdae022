"""The scripts that train, by name: which settings, algorithm, agent and sampler each has."""

from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.envs.gym import make
from rlpyt.experiments.build import ASYNC_SAMPLERS, SAMPLERS
from rlpyt.experiments.configs.data import configs_of
from rlpyt.experiments.registry import algorithm_class
from rlpyt.experiments.scripts.train import TrainScript

AGENTS = {  # name -> module, or "module:name" where two have the same name
    "AtariCatDqnAgent": "rlpyt.agents.dqn.atari.atari_catdqn_agent",
    "AtariDqnAgent": "rlpyt.agents.dqn.atari.atari_dqn_agent",
    "AtariR2d1Agent": "rlpyt.agents.dqn.atari.atari_r2d1_agent",
    "AtariR2d1AlternatingAgent": "rlpyt.agents.dqn.atari.atari_r2d1_agent",
    "AtariFfAgent": "rlpyt.agents.pg.atari",
    "AtariLstmAgent": "rlpyt.agents.pg.atari",
    "MujocoFfAgent": "rlpyt.agents.pg.mujoco",
    "DdpgAgent": "rlpyt.agents.qpg.ddpg_agent",
    "SacAgent": "rlpyt.agents.qpg.sac_agent",
    "SacVAgent": "rlpyt.agents.qpg.sac_v_agent:SacAgent",
    "Td3Agent": "rlpyt.agents.qpg.td3_agent",
}
SCRIPTS = {  # name -> "settings algorithm agent sampler"
    "atari_catdqn_gpu": "atari.dqn.atari_dqn catdqn AtariCatDqnAgent gpu",
    "atari_dqn_async_cpu": "atari.dqn.atari_dqn dqn AtariDqnAgent async-cpu",
    "atari_dqn_async_gpu": "atari.dqn.atari_dqn dqn AtariDqnAgent async-gpu",
    "atari_dqn_async_serial": "atari.dqn.atari_dqn dqn AtariDqnAgent async-serial",
    "atari_dqn_cpu": "atari.dqn.atari_dqn dqn AtariDqnAgent cpu",
    "atari_dqn_cpu_debug": "atari.dqn.atari_dqn_debug dqn AtariDqnAgent cpu",
    "atari_dqn_gpu": "atari.dqn.atari_dqn dqn AtariDqnAgent gpu",
    "atari_dqn_gpu_debug": "atari.dqn.atari_dqn_debug dqn AtariDqnAgent gpu",
    "atari_dqn_gpu_rmsprop": "atari.dqn.atari_dqn dqn AtariDqnAgent gpu",
    "atari_dqn_serial": "atari.dqn.atari_dqn dqn AtariDqnAgent serial",
    "atari_r2d1_async_alt": "atari.dqn.atari_r2d1 r2d1 AtariR2d1AlternatingAgent async-alternating",
    "atari_r2d1_async_gpu": "atari.dqn.atari_r2d1 r2d1 AtariR2d1Agent async-gpu",
    "atari_r2d1_gpu": "atari.dqn.atari_r2d1 r2d1 AtariR2d1Agent gpu",
    "atari_ff_a2c_cpu": "atari.pg.atari_ff_a2c a2c AtariFfAgent cpu",
    "atari_ff_a2c_gpu": "atari.pg.atari_ff_a2c a2c AtariFfAgent gpu",
    "atari_ff_ppo_gpu": "atari.pg.atari_ff_ppo ppo AtariFfAgent gpu",
    "atari_lstm_a2c_cpu": "atari.pg.atari_lstm_a2c a2c AtariLstmAgent cpu",
    "atari_lstm_a2c_gpu": "atari.pg.atari_lstm_a2c a2c AtariLstmAgent gpu",
    "atari_lstm_ppo_gpu": "atari.pg.atari_lstm_ppo ppo AtariLstmAgent gpu",
    "mujoco_ff_a2c_cpu": "mujoco.pg.mujoco_a2c a2c MujocoFfAgent cpu",
    "mujoco_ff_ppo_cpu": "mujoco.pg.mujoco_ppo ppo MujocoFfAgent cpu",
    "mujoco_ff_ppo_gpu": "mujoco.pg.mujoco_ppo ppo MujocoFfAgent gpu",
    "mujoco_ff_ppo_serial": "mujoco.pg.mujoco_ppo ppo MujocoFfAgent serial",
    "mujoco_ddpg_async_serial": "mujoco.qpg.mujoco_ddpg ddpg DdpgAgent async-serial",
    "mujoco_ddpg_cpu": "mujoco.qpg.mujoco_ddpg ddpg DdpgAgent cpu",
    "mujoco_ddpg_serial": "mujoco.qpg.mujoco_ddpg ddpg DdpgAgent serial",
    "mujoco_sac_async_gpu": "mujoco.qpg.mujoco_sac_v sac_v SacVAgent async-gpu",
    "mujoco_sac_serial": "mujoco.qpg.mujoco_sac sac SacAgent serial",
    "mujoco_sac_v_serial": "mujoco.qpg.mujoco_sac_v sac_v SacVAgent serial",
    "mujoco_td3_async_cpu": "mujoco.qpg.mujoco_td3 td3 Td3Agent async-cpu",
    "mujoco_td3_serial": "mujoco.qpg.mujoco_td3 td3 Td3Agent serial",
}
RMSPROP = "atari_dqn_gpu_rmsprop"
ALIASES = {
    "atari_dqn_gpu_noeval": "atari_dqn_gpu",
    "atari_dqn_gpu_pong": "atari_dqn_gpu",
    "atari_ff_a2c_cpu_test": "atari_ff_a2c_cpu",
    "atari_ff_a2c_gpu_multi": "atari_ff_a2c_gpu",
    "atari_lstm_a2c_cpu_test": "atari_lstm_a2c_cpu",
    "mujoco_ppo_serial": "mujoco_ff_ppo_serial",
}


def script(path: str, module: str) -> TrainScript:
    """Return the script of a file's name; run it if the module is the main one.

    Args:
        path: ``__file__`` of the script.
        module: its ``__name__``.
    """
    name = Path(path).stem
    settings, algo, agent, sampler = SCRIPTS[ALIASES.get(name, name)].split()
    kinds = ASYNC_SAMPLERS if sampler.startswith("async-") else SAMPLERS
    Algo, Sampler = algorithm_class(algo), resolve_name(kinds[sampler.removeprefix("async-")])
    place = AGENTS[agent]
    Agent = resolve_name(place if ":" in place else f"{place}:{agent}")
    if name == RMSPROP:
        Algo = partial(Algo, OptimCls=torch.optim.RMSprop)
    env: dict[str, Any] = {"EnvCls": make}
    if name.startswith("atari"):
        env = {"EnvCls": AtariEnv, "sampler_kwargs": {"TrajInfoCls": AtariTrajInfo}}
    found = TrainScript(configs_of(settings), Algo, Agent, Sampler, **env)
    if module == "__main__":
        found.main()
    return found
