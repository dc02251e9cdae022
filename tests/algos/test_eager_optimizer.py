"""Optimizers that work without torch's compiler."""

import copy
import inspect
import warnings

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from rlpyt.algos.eager_optimizer import step_eagerly
from rlpyt.algos.optim import GradientStep

OPTIMIZERS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD)


def step_of(model, OptimCls=torch.optim.Adam, **kwargs):
    return GradientStep(model.parameters(), OptimCls, 0.1, kwargs).optimizer


def learn(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("OptimCls", OPTIMIZERS)
def test_steps_are_equal_to_those_of_torch(OptimCls):
    ours = torch.nn.Linear(3, 2)
    theirs = copy.deepcopy(ours)
    eager = step_of(ours, OptimCls)
    known = inspect.signature(OptimCls).parameters
    usual = OptimCls(theirs.parameters(), **{k: v for k, v in eager.defaults.items() if k in known})
    for _ in range(3):
        learn(ours, eager)
        learn(theirs, usual)
    assert "step" in vars(eager)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_hooks_are_called_once_a_step():
    model, called = torch.nn.Linear(3, 2), []
    optimizer = step_of(model)
    optimizer.register_step_pre_hook(lambda *args: called.append("before"))
    optimizer.register_step_post_hook(lambda *args: called.append("after"))
    everywhere = register_optimizer_step_pre_hook(lambda *args: called.append("global"))
    learn(model, optimizer)
    everywhere.remove()
    assert called == ["global", "before", "after"]


def test_learning_rate_schedulers_of_torch_see_the_steps():
    model = torch.nn.Linear(3, 2)
    optimizer = step_of(model, torch.optim.SGD)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with warnings.catch_warnings(action="error"):
        learn(model, optimizer)
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_a_copy_of_an_optimizer_steps_its_own_parameters():
    model = torch.nn.Linear(3, 2)
    both = copy.deepcopy((model, step_of(model)))
    before = model.weight.detach().clone()
    learn(*both)
    assert torch.equal(model.weight, before) and not torch.equal(both[0].weight, before)


def test_other_steps_are_left_alone():
    class Own(torch.optim.SGD):
        @torch.no_grad()
        def step(self, closure=None):
            """Step in another way."""

    model = torch.nn.Linear(3, 2)
    differentiable = torch.optim.SGD(model.parameters(), 0.1, differentiable=True)
    for optimizer in (Own(model.parameters(), 0.1), differentiable):
        step_eagerly(optimizer)
        assert "step" not in vars(optimizer)
