"""All replays of rlpyt's documentation, and how to construct each in a test."""

from rlpyt.replays.non_sequence import frame, prioritized, time_limit, uniform
from rlpyt.replays.sequence import frame as seq_frame
from rlpyt.replays.sequence import prioritized as seq_prioritized
from rlpyt.replays.sequence import uniform as seq_uniform
from rlpyt.testing.trees import difference
from tests.oracles.plain_replay import Episodes

LOCAL = [
    uniform.UniformReplayBuffer,
    prioritized.PrioritizedReplayBuffer,
    frame.UniformReplayFrameBuffer,
    frame.PrioritizedReplayFrameBuffer,
    time_limit.TlUniformReplayBuffer,
    time_limit.TlPrioritizedReplayBuffer,
    seq_uniform.UniformSequenceReplayBuffer,
    seq_prioritized.PrioritizedSequenceReplayBuffer,
    seq_frame.UniformSequenceReplayFrameBuffer,
    seq_frame.PrioritizedSequenceReplayFrameBuffer,
]
SHARED = [
    uniform.AsyncUniformReplayBuffer,
    prioritized.AsyncPrioritizedReplayBuffer,
    frame.AsyncUniformReplayFrameBuffer,
    frame.AsyncPrioritizedReplayFrameBuffer,
    time_limit.AsyncTlUniformReplayBuffer,
    time_limit.AsyncTlPrioritizedReplayBuffer,
    seq_uniform.AsyncUniformSequenceReplayBuffer,
    seq_prioritized.AsyncPrioritizedSequenceReplayBuffer,
    seq_frame.AsyncUniformSequenceReplayFrameBuffer,
    seq_frame.AsyncPrioritizedSequenceReplayFrameBuffer,
]


def make(cls, T=20, B=2, n=2, seed=0, **kwargs):
    """A replay, and the episodes that fill it."""
    name = cls.__name__
    sequence = "Sequence" in name
    episodes = Episodes(B, C=2, seed=7, rnn=sequence, timeout="Tl" in name)
    if sequence:
        kwargs = dict(rnn_state_interval=2, batch_T=3) | kwargs
    settings = dict(size=T * B, B=B, discount=0.9, n_step_return=n, seed=seed) | kwargs
    return cls(example=episodes.example, **settings), episodes


def update(replay, batch):
    """Priorities that depend on the batch, where there are priorities."""
    if batch.ticket is not None:
        leaf = batch.return_.reshape(-1, len(batch.is_weights))[0]
        replay.update_batch_priorities(leaf.abs() + 0.5, batch.ticket)


def assert_same(one, other):
    """Two batches, with the attributes beside their fields."""
    assert difference(one, other) is None
    assert set(one.__dict__) == set(other.__dict__)
    for name in set(one.__dict__) - {"ticket"}:
        assert difference(getattr(one, name), getattr(other, name)) is None
