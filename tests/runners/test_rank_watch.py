"""Errors of a rank itself, and errors that follow from the loss of another rank."""

import pytest
import torch
from torch import distributed as dist

from rlpyt.runners.rank_watch import Kind, kind_of


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
