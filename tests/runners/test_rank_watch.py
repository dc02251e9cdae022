"""Errors of a rank itself, and errors that follow from the loss of another rank."""

import pytest
import torch
from torch import distributed as dist

from rlpyt.errors import NonFiniteError, NonFiniteGradient
from rlpyt.runners.rank_watch import (
    UNLIMITED,
    WAITS,
    WORKS,
    Heartbeat,
    Kind,
    hung_ranks,
    kind_of,
    waiting_ranks,
)


def error_of(function):
    with pytest.raises(RuntimeError) as caught:
        function()
    return caught.value


def own_error():
    raise RuntimeError("lost the connection to the peer of my simulator: broken pipe")


def test_an_error_of_a_users_code_is_its_own_whatever_it_says():
    assert kind_of(error_of(own_error)) is Kind.OWN


class Breaks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        own_error()


def test_an_error_of_a_users_gradient_is_its_own():
    x = torch.ones(1, requires_grad=True)
    assert kind_of(error_of(lambda: Breaks.apply(x).sum().backward())) is Kind.OWN


def test_errors_of_torchs_communication_follow_from_another_rank():
    assert kind_of(dist.DistBackendError("no words that are looked for")) is Kind.LOST
    raised = compile(
        "raise RuntimeError('Connection closed by peer')", "torch/distributed/c10d.py", "exec"
    )
    assert kind_of(error_of(lambda: exec(raised))) is Kind.LOST


def test_a_gradient_that_is_not_finite_is_told_by_its_class():
    message = "the loss is 1, but the gradient is not finite in pi"
    assert kind_of(NonFiniteGradient(message)) is Kind.SHARED
    assert kind_of(NonFiniteError(message)) is Kind.OWN


def beats_of(*ranks):
    """Heartbeats of ranks, each given as (state, collectives begun, seconds without progress)."""
    return {
        rank: (Heartbeat(1, state, still_s, 2, "", 1, "", begun), 0.0)
        for rank, (state, begun, still_s) in enumerate(ranks)
    }


@pytest.mark.parametrize(
    "ranks,waiting,hung",
    [
        pytest.param([(WAITS, 8, 9), (WORKS, 7, 9)], [0], [1], id="outside of collectives"),
        pytest.param([(WAITS, 8, 9), (WAITS, 7, 9)], [0, 1], [1], id="in backward without Python"),
        pytest.param([(WORKS, 8, 9), (WORKS, 7, 9)], [0], [1], id="the other waits for its GPU"),
        pytest.param([(WAITS, 0, 9), (WORKS, 0, 9)], [0], [1], id="before any collective"),
        pytest.param([(WAITS, 8, 9), (WORKS, 7, 1)], [0], [], id="slow, but with progress"),
        pytest.param([(WORKS, 8, 9), (WORKS, 7, 1)], [0], [], id="slow, the other at its GPU"),
        pytest.param([(UNLIMITED, 7, 9), (WAITS, 8, 9)], [1], [], id="evaluation"),
        pytest.param([(WORKS, 8, 0), (WAITS, 7, 9)], [1], [], id="an older heartbeat"),
        pytest.param([(WAITS, 8, 1), (WAITS, 7, 9)], [1], [], id="just ahead"),
        pytest.param([(WORKS, 7, 9), (WORKS, 7, 9)], [], [0, 1], id="nobody waits"),
        pytest.param([(WAITS, 8, 9), (WAITS, 8, 9)], [0, 1], [], id="all wait"),
        pytest.param(
            [(WAITS, 7, 9), (WORKS, 7, 9), (WAITS, 8, 9)], [0, 2], [1, 0], id="a state is sent"
        ),
    ],
)
def test_the_rank_with_the_fewest_collectives_keeps_the_others_waiting(ranks, waiting, hung):
    beats = beats_of(*ranks)
    assert waiting_ranks(beats, 2.0) == waiting
    assert hung_ranks(beats, 2.0) == hung


def test_a_rank_without_heartbeats_hangs():
    beats = beats_of((WAITS, 8, 9), (WAITS, 8, 1))
    beats[1] = (beats[1][0], 3.0)
    assert hung_ranks(beats, 2.0) == [1]
