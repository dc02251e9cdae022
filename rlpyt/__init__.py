"""rlpyt: deep reinforcement learning in PyTorch, with parallel sampling.

    import rlpyt

    run = rlpyt.train("ppo", "CartPole-v1", steps=100_000)
    print(run.evaluate())

Importing the package is cheap: names are loaded when they are first used. ``__init__.pyi``
tells type checkers the same names.
"""

import importlib
from typing import Any

from rlpyt.version import VERSION

__version__ = VERSION

_NAMES = {  # public names, by module
    "rlpyt.agents.dqn.vector": "CatDqnMlpAgent DqnMlpAgent IqnMlpAgent QrDqnMlpAgent R2d1LstmAgent",
    "rlpyt.agents.pg.atari": "AtariFfAgent AtariLstmAgent",
    "rlpyt.agents.pg.vector": "CategoricalLstmAgent CategoricalMlpAgent GaussianLstmAgent "
    "GaussianMlpAgent",
    "rlpyt.agents.qpg.ddpg_agent": "DdpgAgent",
    "rlpyt.agents.qpg.sac_agent": "SacAgent",
    "rlpyt.agents.qpg.td3_agent": "Td3Agent",
    "rlpyt.algos.dqn.cat_dqn": "CategoricalDQN",
    "rlpyt.algos.dqn.dqn": "DQN",
    "rlpyt.algos.dqn.pqn": "PQN",
    "rlpyt.algos.dqn.qr_dqn": "IQN QRDQN",
    "rlpyt.algos.dqn.r2d1": "R2D1",
    "rlpyt.algos.pg.a2c": "A2C",
    "rlpyt.algos.pg.ppo": "PPO",
    "rlpyt.algos.pg.vtrace": "VTrace",
    "rlpyt.algos.qpg.ddpg": "DDPG",
    "rlpyt.algos.qpg.sac": "SAC",
    "rlpyt.algos.qpg.td3": "TD3",
    "rlpyt.envs.base": "Env EnvStep",
    "rlpyt.envs.gym": "GymEnvWrapper",
    "rlpyt.experiments.api": "evaluate make train",
    "rlpyt.experiments.policy": "Policy load_policy",
    "rlpyt.experiments.run": "Evaluation Run load",
    "rlpyt.runners.async_rl": "AsyncRl AsyncRlEval",
    "rlpyt.runners.hooks": "Hook KeepBest StopAtReturn TimeLimit",
    "rlpyt.runners.minibatch_rl": "MinibatchRl MinibatchRlEval",
    "rlpyt.runners.one_process": "in_one_process",
    "rlpyt.runners.sync_rl": "SyncRl SyncRlEval",
    "rlpyt.samplers.parallel.cpu.sampler": "CpuSampler",
    "rlpyt.samplers.parallel.gpu.alternating_sampler": "AlternatingSampler",
    "rlpyt.samplers.parallel.gpu.sampler": "GpuSampler",
    "rlpyt.samplers.ray_sampler": "RaySampler",
    "rlpyt.samplers.serial.sampler": "SerialSampler",
    "rlpyt.samplers.tensor_sampler": "TensorSampler",
    "rlpyt.utils.checks": "setting",
    "rlpyt.utils.logging.context": "logger_context",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_MODULES, "__version__"])
    if name not in _MODULES:
        raise AttributeError(f"module 'rlpyt' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
