"""Common class of train scripts: build a run from a configuration, a variant and a code.

    python SCRIPT SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY
    python atari_dqn_serial.py 0slt_4cpu_1gpu data/dqn 0 double

A script selects the classes of the run; see the scripts in this package. ``LOG_DIR`` may contain a
variant with changes to the configuration, written by a launcher (`rlpyt.utils.launching.variant`).
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from rlpyt.errors import USAGE
from rlpyt.experiments.configs.data import Parts
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.runners.sync_rl import SyncRl, SyncRlEval
from rlpyt.samplers.async_.base import AsyncSamplerMixin
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.variant import VARIANT, load_variant, update_config
from rlpyt.utils.logging.context import logger_context
from rlpyt.utils.names import UnknownName

# Classes that ``atari_dqn_debug`` names.
COLLECTORS: dict[str, Any] = {"reset_collector": GpuResetCollector}
REPLAY_BUFFERS: dict[str, Any] = {
    "monolithic_uniform_frame": UniformReplayFrameBuffer,
    "uniform_noframe": UniformReplayBuffer,
}
NETWORKS = {"model": "model_kwargs", "q_model": "q_model_kwargs", "v_model": "v_model_kwargs"}


@dataclass(frozen=True)
class TrainScript:
    """Classes and configurations of a script; a call with a launcher's arguments trains a run.

    The runner class is derived: the code decides between one rank, several ranks and asynchronous
    sampling, the sampler's settings decide about evaluation.
    """

    configs: Mapping[str, Parts]  # by key
    AlgoCls: Any
    AgentCls: Any
    SamplerCls: Any
    EnvCls: Any
    # arguments of the sampler, in addition to those of the configuration
    sampler_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(
        self, slot_affinity_code: str, log_dir: str, run_ID: int | str, config_key: str
    ) -> Any:
        """Train a run and return its runner.

        Args:
            slot_affinity_code: affinity code with the run slot, such as "0slt_4cpu_1gpu".
            log_dir: directory of the setting, which may contain a variant; results are written to
                ``run_<run_ID>`` in it.
            run_ID: number of the run within its setting.
            config_key: key of ``configs``.

        Raises:
            UnknownName: ``config_key`` is unknown.
            KeyError: the variant has a field that the configuration does not have.
            ValueError: the code is invalid, or is for another kind of runner.
        """
        return self.train(*self.prepared(slot_affinity_code, log_dir, config_key), log_dir, run_ID)

    def prepared(self, code: str, log_dir: str, config_key: str) -> tuple[Parts, Any]:
        """Return configuration and runner, after all checks that are possible before training."""
        config = self.config(log_dir, config_key)
        return config, self.runner(config, affinity_from_code(code))

    def train(self, config: Parts, runner: Any, log_dir: str, run_ID: int | str) -> Any:
        """Train a runner with a log directory, and return it."""
        name = config["env"].get("game") or config["env"].get("id", "")
        with logger_context(log_dir, run_ID, name, config):
            runner.train()
        return runner

    def config(self, log_dir: str, config_key: str) -> Parts:
        """Return the configuration of this key, with the changes of the variant in ``log_dir``."""
        if config_key not in self.configs:
            raise UnknownName("configuration", config_key, self.configs)
        config = self.configs[config_key]
        variant = load_variant(log_dir) if Path(log_dir, VARIANT).exists() else {}
        return update_config(config, variant)

    def runner(self, config: Parts, affinity: Any) -> Any:
        """Build the runner and all its parts."""
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
        # Network arguments in ``agent`` take precedence, as in rlpyt's scripts.
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
        """Return the runner class for an affinity and this script's sampler.

        Raises:
            ValueError: only one of affinity and sampler is asynchronous.
        """
        asynchronous = "optimizer" in affinity
        if asynchronous != issubclass(self.SamplerCls, AsyncSamplerMixin):
            remedy = "remove 1ass from" if asynchronous else "add 1ass (async_sample=True) to"
            raise ValueError(
                f"The script's {self.SamplerCls.__name__} needs another affinity: {remedy} the "
                "code."
            )
        if asynchronous:
            return AsyncRlEval if evaluates else AsyncRl
        if isinstance(affinity, list):
            return SyncRlEval if evaluates else SyncRl
        return MinibatchRlEval if evaluates else MinibatchRl

    def main(self, argv: Sequence[str] | None = None) -> None:
        """Train the run given on the command line.

        Raises:
            SystemExit: the arguments are invalid; code 2, so that launchers do not retry the run.
        """
        arguments = list(sys.argv[1:] if argv is None else argv)
        if len(arguments) != 4:
            _exit(f"usage: python {sys.argv[0]} SLOT_AFFINITY_CODE LOG_DIR RUN_ID CONFIG_KEY")
        code, log_dir, run_ID, config_key = arguments
        try:
            prepared = self.prepared(code, log_dir, config_key)
        except (ValueError, TypeError, KeyError, ImportError, FileNotFoundError) as error:
            message = error.args[0] if isinstance(error, KeyError) and error.args else error
            _exit(f"{Path(sys.argv[0]).name}: error: {message}")
        self.train(*prepared, log_dir, run_ID)


def _with_class(
    part: Mapping[str, Any], key: str, argument: str, classes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments in ``part``, with the name under ``key`` replaced by a class."""
    kwargs = dict(part)
    name = kwargs.pop(key, None)
    if name is not None and name not in classes:
        raise UnknownName(key, name, classes)
    return kwargs if name is None else {**kwargs, argument: classes[name]}


def _exit(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    raise SystemExit(USAGE)
