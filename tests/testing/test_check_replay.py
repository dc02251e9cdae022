"""``check_replay`` passes all replays of rlpyt and reports each fault of others."""

import numpy as np
import pytest
import torch

from rlpyt.replays.non_sequence import frame, prioritized, time_limit, uniform
from rlpyt.replays.non_sequence.prioritized import PrioritizedReplayBuffer
from rlpyt.replays.non_sequence.uniform import UniformReplayBuffer
from rlpyt.replays.sequence import frame as sequence_frame
from rlpyt.replays.sequence.prioritized import PrioritizedSequenceReplayBuffer
from rlpyt.replays.sequence.uniform import UniformSequenceReplayBuffer
from rlpyt.testing import ConformanceError
from tests.oracles.replay import CHECKS, check_replay, examine_replay

PRIORITIES = {"ticket", "is-weights", "zero-priority"}


@pytest.mark.parametrize(
    "ReplayCls",
    [
        uniform.UniformReplayBuffer,
        prioritized.PrioritizedReplayBuffer,
        frame.PrioritizedReplayFrameBuffer,
        time_limit.TlUniformReplayBuffer,
        prioritized.AsyncPrioritizedReplayBuffer,
    ],
)
def test_replays_of_transitions_pass(ReplayCls):
    report = check_replay(ReplayCls, n_step_return=3)
    assert not report.warnings, str(report)
    left_out = set() if "Prioritized" in ReplayCls.__name__ else set(PRIORITIES)
    left_out |= {"pickle"} if "Async" in ReplayCls.__name__ else set()
    assert {*CHECKS} - {*report.passed} == left_out


@pytest.mark.parametrize(
    "ReplayCls",
    [PrioritizedSequenceReplayBuffer, sequence_frame.UniformSequenceReplayFrameBuffer],
)
def test_replays_of_sequences_pass(ReplayCls):
    report = check_replay(ReplayCls, rnn_state_interval=2, batch_T=3)
    assert not report.warnings, str(report)


class KeepsAsking(UniformReplayBuffer):
    def sample_batch(self, batch_B):
        try:
            return super().sample_batch(batch_B)
        except Exception as error:
            raise ValueError("nothing here") from error


class TooNew(UniformReplayBuffer):
    """Rows whose next ones are not written yet."""

    def sample_idxs(self, batch_B):
        T_idxs, B_idxs = super().sample_idxs(batch_B)
        return np.where(np.arange(batch_B) == 0, (self.t - 1) % self.T, T_idxs), B_idxs


class Shifted(UniformReplayBuffer):
    def extract_batch(self, T_idxs, B_idxs):
        batch = super().extract_batch(T_idxs, B_idxs)
        return batch._replace(action=torch.roll(batch.action, 1, 0))


class Undiscounted(UniformReplayBuffer):
    def __init__(self, discount, **kwargs):
        super().__init__(discount=1.0, **kwargs)


class FinalLost(UniformReplayBuffer):
    """Goes on from the first observation of the next episode."""

    def append_samples(self, samples, final=None):
        return super().append_samples(samples)


class OneEnvironmentOnly(UniformReplayBuffer):
    def sample_idxs(self, batch_B):
        T_idxs, B_idxs = super().sample_idxs(batch_B)
        return T_idxs, 0 * B_idxs


class GlobalNumbers(UniformReplayBuffer):
    def sample_idxs(self, batch_B):
        self.rng = np.random.default_rng()
        return super().sample_idxs(batch_B)


class LatestOnly(PrioritizedReplayBuffer):
    """Forgets which batch the priorities are of, as rlpyt did."""

    def update_batch_priorities(self, priorities, ticket=None):
        super().update_batch_priorities(priorities)


class Revived(PrioritizedReplayBuffer):
    def update_batch_priorities(self, priorities, ticket=None):
        super().update_batch_priorities(np.maximum(priorities, 0.1), ticket)


class Unweighted(PrioritizedReplayBuffer):
    def sample_batch(self, batch_B):
        batch = super().sample_batch(batch_B)
        batch.is_weights.fill_(1)
        return batch


class Forgetful(UniformReplayBuffer):
    def load_state_dict(self, state):
        t = self.t
        super().load_state_dict(state)
        self.t = t - 1


class RnnStateOfEnd(UniformSequenceReplayBuffer):
    def sample_batch(self, batch_B):
        batch = super().sample_batch(batch_B)
        return batch._replace(init_rnn_state=batch.init_rnn_state + 1)


@pytest.mark.parametrize(
    "ReplayCls, check",
    [
        (KeepsAsking, "not-ready"),
        (TooNew, "held"),
        (Shifted, "inputs"),
        (Undiscounted, "targets"),
        (FinalLost, "targets"),
        (OneEnvironmentOnly, "coverage"),
        (GlobalNumbers, "seeding"),
        (LatestOnly, "ticket"),
        (Revived, "zero-priority"),
        (Unweighted, "is-weights"),
        (Forgetful, "state"),
        (RnnStateOfEnd, "inputs"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_each_fault_is_reported(ReplayCls, check):
    more = dict(rnn_state_interval=2, batch_T=3) if "Rnn" in ReplayCls.__name__ else {}
    with pytest.raises(ConformanceError) as caught:
        check_replay(ReplayCls, **more)
    assert check in {finding.check for finding in caught.value.report.errors}, str(caught.value)


def test_a_rule_that_leaves_rows_out_on_purpose_can_skip_coverage():
    with pytest.raises(ConformanceError, match=r'pass skip=\["coverage"\]'):
        check_replay(OneEnvironmentOnly)
    assert check_replay(OneEnvironmentOnly, skip=["coverage"]).ok


def test_a_lambda_cannot_be_pickled():
    class Unpicklable(UniformReplayBuffer):
        pass

    report = examine_replay(Unpicklable, dict(size=40, n_step_return=1))
    assert [finding.check for finding in report.errors] == ["pickle"]


def test_findings_can_be_skipped():
    class Louder(UniformReplayBuffer):
        def extract_batch(self, T_idxs, B_idxs):
            batch = super().extract_batch(T_idxs, B_idxs)
            return batch._replace(return_=batch.return_ + 1)

    assert check_replay(Louder, skip=["targets", "pickle"]).ok
    with pytest.raises(ValueError, match="did you mean 'targets'"):
        check_replay(Louder, skip=["target"])
