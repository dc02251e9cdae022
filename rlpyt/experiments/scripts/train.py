"""What a train script does: parts from a configuration, its variant and a code; then ``train()``.

    python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY
    python atari_dqn_serial.py 0slt_4cpu_1gpu data/dqn 0 double

A script says which classes it joins, see any beside this file. ``LOG_DIR`` may hold a variant,
written by a launcher (`rlpyt.utils.launching.variant`), with what differs from the configuration.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from rlpyt.envs.atari.atari_env import AtariEnv, AtariTrajInfo
from rlpyt.envs.gym import make
from rlpyt.errors import USAGE
from rlpyt.experiments.configs.atari.dqn.atari_dqn_debug import COLLECTORS, REPLAY_BUFFERS
from rlpyt.experiments.configs.compose import Parts
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import VARIANT, load_variant, update_config
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.names import UnknownName

NETWORKS = {"model": "model_kwargs", "q_model": "q_model_kwargs", "v_model": "v_model_kwargs"}


@dataclass(frozen=True)
class TrainScript:
    """A script's parts; called with a launcher's arguments, it trains a run.

    The runner follows from the rest: the code says whether there are several ranks, or a sampler
    beside the optimizer; the sampler's settings whether to evaluate.
    """

    configs: Mapping[str, Parts]  # by key
    AlgoCls: Any
    AgentCls: Any
    SamplerCls: Any
    EnvCls: Any = AtariEnv
    sampler_kwargs: Mapping[str, Any] = field(default_factory=dict)  # beside the configuration's

    def __call__(
        self, slot_affinity_code: str, log_dir: str, run_ID: int | str, config_key: str
    ) -> Any:
        """Train a run; returns its runner.

        Args:
            slot_affinity_code: the run's share of the machine, such as "0slt_4cpu_1gpu".
            log_dir: of the setting, may hold a variant; results are in ``run_<run_ID>`` in it.
            run_ID: tells the runs of a setting apart.
            config_key: which of ``configs``.

        Raises:
            UnknownName: there is no such key.
            KeyError: the variant has a field that the configuration has not.
            ValueError: the code cannot be read, or is for another kind of runner.
        """
        return self.train(*self.prepared(slot_affinity_code, log_dir, config_key), log_dir, run_ID)

    def prepared(self, code: str, log_dir: str, config_key: str) -> tuple[Parts, Any]:
        """Configuration and runner, with all that can be refused before training."""
        config = self.config(log_dir, config_key)
        return config, self.runner(config, affinity_from_code(code))

    def train(self, config: Parts, runner: Any, log_dir: str, run_ID: int | str) -> Any:
        """Train a runner, with a log; returns it."""
        name = config["env"].get("game") or config["env"].get("id", "")
        with logger_context(log_dir, run_ID, name, config):
            runner.train()
        return runner

    def config(self, log_dir: str, config_key: str) -> Parts:
        """The configuration of this name, with what the variant in ``log_dir`` changes."""
        if config_key not in self.configs:
            raise UnknownName("configuration", config_key, self.configs)
        config = self.configs[config_key]
        variant = load_variant(log_dir) if Path(log_dir, VARIANT).exists() else {}
        return update_config(config, variant)

    def runner(self, config: Parts, affinity: Any) -> Any:
        """All parts, put together."""
        sampler = self.SamplerCls(
            EnvCls=self.EnvCls,
            env_kwargs=config["env"],
            eval_env_kwargs=config.get("eval_env", config["env"]),
            **self.sampler_kwargs,
            **_with_class(config["sampler"], "collector", "CollectorCls", COLLECTORS),
        )
        algo_kwargs = _with_class(
            config["algo"], "replay_buffer", "ReplayBufferCls", REPLAY_BUFFERS
        )
        # Where ``agent`` names a network's arguments, those are used, as in rlpyt's scripts.
        networks = {name: config[part] for part, name in NETWORKS.items() if part in config}
        Runner = self.runner_class(affinity, evaluates=bool(sampler.eval_n_envs))
        return Runner(
            algo=self.AlgoCls(optim_kwargs=config["optim"], **algo_kwargs),
            agent=self.AgentCls(**{**networks, **config["agent"]}),
            sampler=sampler,
            affinity=affinity,
            **config["runner"],
        )

    def runner_class(self, affinity: Any, evaluates: bool) -> Any:
        """Which runner suits a code and this script's sampler.

        Raises:
            ValueError: one is asynchronous and the other is not.
        """
        asynchronous = "optimizer" in affinity
        if asynchronous != issubclass(self.SamplerCls, AsyncSamplerMixin):
            helps = "add 1ass to (async_sample=True)" if not asynchronous else "take 1ass out of"
            raise ValueError(
                f"the script's {self.SamplerCls.__name__} needs another affinity: {helps} the code."
            )
        if asynchronous:
            return AsyncRlEval if evaluates else AsyncRl
        if isinstance(affinity, list):
            return SyncRlEval if evaluates else SyncRl
        return MinibatchRlEval if evaluates else MinibatchRl

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Train the run that the command line names.

        Raises:
            SystemExit: with code 2, as trying again would not help: it names none that can be.
        """
        arguments = list(sys.argv[1:] if argv is None else argv)
        if len(arguments) != 4:
            _refuse(f"usage: python {sys.argv[0]} SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY")
        code, log_dir, run_ID, config_key = arguments
        try:
            prepared = self.prepared(code, log_dir, config_key)
        except (ValueError, TypeError, KeyError, ImportError, FileNotFoundError) as error:
            said = error.args[0] if isinstance(error, KeyError) and error.args else error
            _refuse(f"{Path(sys.argv[0]).name}: error: {said}")
        self.train(*prepared, log_dir, run_ID)


def _with_class(
    part: Mapping[str, Any], key: str, argument: str, classes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments in ``part`` with the class that ``key`` names as ``argument``.

    Raises:
        UnknownName: ``classes`` has no class of that name.
    """
    kwargs = dict(part)
    name = kwargs.pop(key, None)
    if name is None:
        return kwargs
    if name not in classes:
        raise UnknownName(key, name, classes)
    return {**kwargs, argument: classes[name]}


def _refuse(said: str) -> NoReturn:
    print(said, file=sys.stderr)
    raise SystemExit(USAGE)


def atari(configs: Mapping[str, Parts], Algo: Any, Agent: Any, Sampler: Any) -> TrainScript:
    """A script for Atari games."""
    trajectories = {"TrajInfoCls": AtariTrajInfo}
    return TrainScript(configs, Algo, Agent, Sampler, AtariEnv, trajectories)


def mujoco(configs: Mapping[str, Parts], Algo: Any, Agent: Any, Sampler: Any) -> TrainScript:
    """A script for MuJoCo's environments, and others of gymnasium."""
    return TrainScript(configs, Algo, Agent, Sampler, make)
