"""Small runs that try out collectors and replays, under rlpyt's keys; see ``atari_dqn``."""

from rlpyt.experiments.configs.atari.dqn import atari_dqn
from rlpyt.experiments.configs.compose import Parts, with_parts
from rlpyt.replays.non_sequence.frame import UniformReplayFrameBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.samplers.parallel.gpu.collectors import GpuResetCollector

_small = dict(
    algo=dict(min_steps_learn=1000, replay_size=int(1e4), eps_steps=int(1e4)),
    runner=dict(n_steps=int(1e5), log_interval_steps=int(1e4)),
)
configs: dict[str, Parts] = {
    name: with_parts(atari_dqn.configs[name], **_small)
    for name in ("dqn", "double_pri_duel", "catdqn", "ernbw")
}
configs["reset_collector"] = with_parts(
    configs["dqn"], sampler=dict(CollectorCls=GpuResetCollector)
)
configs["monolithic_uniformframe"] = with_parts(
    configs["dqn"], algo=dict(ReplayBufferCls=UniformReplayFrameBuffer)
)
configs["uniform_noframe"] = with_parts(
    configs["dqn"], algo=dict(ReplayBufferCls=UniformReplayBuffer)
)
