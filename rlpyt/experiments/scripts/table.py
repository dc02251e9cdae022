"""The scripts that train, by name: which settings, algorithm, agent and sampler each has."""

from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import torch

from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.envs.gym import make
from rlpyt.experiments.configs.data import configs_of
from rlpyt.experiments.scripts.train import TrainScript

CLASSES = {  # name -> module, or "module:name" where two have the same name
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
    "CategoricalDQN": "rlpyt.algos.dqn.cat_dqn",
    "DQN": "rlpyt.algos.dqn.dqn",
    "R2D1": "rlpyt.algos.dqn.r2d1",
    "A2C": "rlpyt.algos.pg.a2c",
    "PPO": "rlpyt.algos.pg.ppo",
    "DDPG": "rlpyt.algos.qpg.ddpg",
    "SAC": "rlpyt.algos.qpg.sac",
    "SAC_V": "rlpyt.algos.qpg.sac_v",
    "TD3": "rlpyt.algos.qpg.td3",
    "AsyncAlternatingSampler": "rlpyt.samplers.async_.alternating_sampler",
    "AsyncCpuSampler": "rlpyt.samplers.async_.cpu_sampler",
    "AsyncGpuSampler": "rlpyt.samplers.async_.gpu_sampler",
    "AsyncSerialSampler": "rlpyt.samplers.async_.serial_sampler",
    "CpuSampler": "rlpyt.samplers.parallel.cpu.sampler",
    "GpuSampler": "rlpyt.samplers.parallel.gpu.sampler",
    "SerialSampler": "rlpyt.samplers.serial.sampler",
}
SCRIPTS = {  # name -> "settings algorithm agent sampler"
    "atari_catdqn_gpu": "atari.dqn.atari_dqn CategoricalDQN AtariCatDqnAgent GpuSampler",
    "atari_dqn_async_cpu": "atari.dqn.atari_dqn DQN AtariDqnAgent AsyncCpuSampler",
    "atari_dqn_async_gpu": "atari.dqn.atari_dqn DQN AtariDqnAgent AsyncGpuSampler",
    "atari_dqn_async_serial": "atari.dqn.atari_dqn DQN AtariDqnAgent AsyncSerialSampler",
    "atari_dqn_cpu": "atari.dqn.atari_dqn DQN AtariDqnAgent CpuSampler",
    "atari_dqn_cpu_debug": "atari.dqn.atari_dqn_debug DQN AtariDqnAgent CpuSampler",
    "atari_dqn_gpu": "atari.dqn.atari_dqn DQN AtariDqnAgent GpuSampler",
    "atari_dqn_gpu_debug": "atari.dqn.atari_dqn_debug DQN AtariDqnAgent GpuSampler",
    "atari_dqn_gpu_rmsprop": "atari.dqn.atari_dqn DQN AtariDqnAgent GpuSampler",
    "atari_dqn_serial": "atari.dqn.atari_dqn DQN AtariDqnAgent SerialSampler",
    "atari_r2d1_async_alt": "atari.dqn.atari_r2d1 R2D1 "
    "AtariR2d1AlternatingAgent AsyncAlternatingSampler",
    "atari_r2d1_async_gpu": "atari.dqn.atari_r2d1 R2D1 AtariR2d1Agent AsyncGpuSampler",
    "atari_r2d1_gpu": "atari.dqn.atari_r2d1 R2D1 AtariR2d1Agent GpuSampler",
    "atari_ff_a2c_cpu": "atari.pg.atari_ff_a2c A2C AtariFfAgent CpuSampler",
    "atari_ff_a2c_gpu": "atari.pg.atari_ff_a2c A2C AtariFfAgent GpuSampler",
    "atari_ff_ppo_gpu": "atari.pg.atari_ff_ppo PPO AtariFfAgent GpuSampler",
    "atari_lstm_a2c_cpu": "atari.pg.atari_lstm_a2c A2C AtariLstmAgent CpuSampler",
    "atari_lstm_a2c_gpu": "atari.pg.atari_lstm_a2c A2C AtariLstmAgent GpuSampler",
    "atari_lstm_ppo_gpu": "atari.pg.atari_lstm_ppo PPO AtariLstmAgent GpuSampler",
    "mujoco_ff_a2c_cpu": "mujoco.pg.mujoco_a2c A2C MujocoFfAgent CpuSampler",
    "mujoco_ff_ppo_cpu": "mujoco.pg.mujoco_ppo PPO MujocoFfAgent CpuSampler",
    "mujoco_ff_ppo_gpu": "mujoco.pg.mujoco_ppo PPO MujocoFfAgent GpuSampler",
    "mujoco_ff_ppo_serial": "mujoco.pg.mujoco_ppo PPO MujocoFfAgent SerialSampler",
    "mujoco_ddpg_async_serial": "mujoco.qpg.mujoco_ddpg DDPG DdpgAgent AsyncSerialSampler",
    "mujoco_ddpg_cpu": "mujoco.qpg.mujoco_ddpg DDPG DdpgAgent CpuSampler",
    "mujoco_ddpg_serial": "mujoco.qpg.mujoco_ddpg DDPG DdpgAgent SerialSampler",
    "mujoco_sac_async_gpu": "mujoco.qpg.mujoco_sac_v SAC_V SacVAgent AsyncGpuSampler",
    "mujoco_sac_serial": "mujoco.qpg.mujoco_sac SAC SacAgent SerialSampler",
    "mujoco_sac_v_serial": "mujoco.qpg.mujoco_sac_v SAC_V SacVAgent SerialSampler",
    "mujoco_td3_async_cpu": "mujoco.qpg.mujoco_td3 TD3 Td3Agent AsyncCpuSampler",
    "mujoco_td3_serial": "mujoco.qpg.mujoco_td3 TD3 Td3Agent SerialSampler",
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
    settings, *parts = SCRIPTS[ALIASES.get(name, name)].split()
    Algo, Agent, Sampler = map(_class, parts)
    if name == RMSPROP:
        Algo = partial(Algo, OptimCls=torch.optim.RMSprop)
    env: dict[str, Any] = {"EnvCls": make}
    if name.startswith("atari"):
        env = {"EnvCls": AtariEnv, "sampler_kwargs": {"TrajInfoCls": AtariTrajInfo}}
    found = TrainScript(configs_of(settings), Algo, Agent, Sampler, **env)
    if module == "__main__":
        found.main()
    return found


def _class(name: str) -> Any:
    place = CLASSES[name]
    return resolve_name(place if ":" in place else f"{place}:{name}")
