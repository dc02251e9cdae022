"""rlpyt's settings to compare collectors and replays on Atari, key by key; see ``atari_dqn``.

``config["sampler"]["collector"]`` and ``config["algo"]["replay_buffer"]`` are keys of
``COLLECTORS`` and ``REPLAY_BUFFERS``, or ``None`` for the default class.
``rlpyt.experiments.scripts.train`` passes the classes as ``CollectorCls`` and ``ReplayBufferCls``.
"""

from typing import Any

from rlpyt.experiments.configs.atari.dqn import atari_dqn
from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector

COLLECTORS: dict[str, Any] = {"reset_collector": GpuResetCollector}
REPLAY_BUFFERS: dict[str, Any] = {
    "monolithic_uniform_frame": UniformReplayFrameBuffer,
    "uniform_noframe": UniformReplayBuffer,
}


def _debug(base: Parts, **parts: Any) -> Parts:
    """Return a configuration of ``atari_dqn`` with keys for the collector and the replay buffer."""
    algo = {key: value for key, value in base["algo"].items() if key != "replay_size"}
    named = dict(base, algo=dict(algo, replay_buffer=None))
    return with_parts(with_parts(named, sampler=dict(collector=None)), **parts)


dqn = _debug(atari_dqn.configs["dqn"])
configs: dict[str, Parts] = {
    "dqn": dqn,
    "double_pri_duel": _debug(atari_dqn.configs["double_pri_duel"]),
    "catdqn": _debug(atari_dqn.configs["catdqn"]),
    "ernbw": with_parts(dqn, algo=dict(learning_rate=6.25e-5, n_step_return=3)),
    "reset_collector": with_parts(dqn, sampler=dict(collector="reset_collector")),
    "monolithic_uniformframe": with_parts(dqn, algo=dict(replay_buffer="monolithic_uniform_frame")),
    "uniform_noframe": with_parts(dqn, algo=dict(replay_buffer="uniform_noframe")),
}
