"""States of optimizers by rlpyt's names: taken apart, put together, loaded, trained on."""

import copy
from functools import partial

import pytest
import torch

from rlpyt.algos.optim_state import join_members, merge_states, split_members, state_of
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.models.qpg.mlp import QofMuMlpModel
from tests.algos.qpg.parts_qpg import (
    AGENTS,
    NARROW,
    SMALL,
    A,
    assert_same_state,
    feed,
    fill,
    one_update,
    prepared,
)

ALGOS = {"ddpg": DDPG, "td3": TD3, "sac": SAC, "sac_v": SAC_V}


def trained(optimizer, parameters, n=2):
    for i in range(n):
        optimizer.zero_grad()
        sum((p * (i + 1 + k)).sum() for k, p in enumerate(parameters)).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "OptimCls, own, others",
    [
        (torch.optim.AdamW, dict(weight_decay=0.3), dict(weight_decay=0.9, betas=(0.5, 0.9))),
        (torch.optim.AdamW, {}, dict(weight_decay=0.9)),
        (torch.optim.SGD, dict(momentum=0.5), dict(momentum=0.9, nesterov=True)),
    ],
)
def test_an_optimizer_keeps_its_arguments_when_it_loads_a_state(OptimCls, own, others):
    """Population-based training copies states between runs."""
    settings = dict(OptimCls=OptimCls, **SMALL)
    source, target, fresh = (
        SAC(**settings, optim_kwargs=kwargs) for kwargs in (others, own, own)
    )  # fmt: skip
    for algo in (source, target, fresh):
        fill(algo, prepared(algo, AGENTS["sac"]()))
    one_update(source)
    target.load_optim_state_dict(source.optim_state_dict())
    groups = [algo.steps["all"].optimizer.param_groups for algo in (target, fresh)]
    for loaded, expected in zip(*groups, strict=True):
        assert {k: v for k, v in loaded.items() if k != "params"} == {
            k: v for k, v in expected.items() if k != "params"
        }
    states = target.steps["all"].optimizer.state
    assert all(torch.is_tensor(x) for x in next(iter(states.values())).values())


@pytest.mark.parametrize("OptimCls", [torch.optim.Adam, torch.optim.SGD, torch.optim.RMSprop])
def test_parts_are_states_of_optimizers_of_their_own(OptimCls):
    torch.manual_seed(0)
    both = [torch.nn.Parameter(torch.randn(s)) for s in ((2, 3), (4,), (2, 2))]
    optimizer = OptimCls(both, lr=0.1)
    trained(optimizer, both)
    state = optimizer.state_dict()
    parts = [state_of(state, [0]), state_of(state, [1, 2])]
    for first, own in ((0, parts[0]), (1, parts[1])):
        group = both[first : first + len(own["param_groups"][0]["params"])]
        alone = OptimCls(group, lr=0.7)
        alone.load_state_dict(own)
        assert alone.param_groups[0]["lr"] == 0.1
        for i, p in enumerate(group):
            for name, value in alone.state[p].items():
                expected = state["state"][first + i][name]
                assert value is expected or torch.equal(value, expected)
    again = merge_states(parts, [[0], [1, 2]], state["param_groups"])
    assert again["param_groups"] == state["param_groups"]
    assert again["state"].keys() == state["state"].keys()


@pytest.mark.parametrize(
    "name, kwargs",
    [("Adam", dict(amsgrad=True)), *((name, {}) for name in ("NAdam", "ASGD", "RMSprop", "Rprop"))],
)
def test_members_are_states_of_their_own_and_join_again(name, kwargs):
    """Each trains on as it would have among the others."""
    OptimCls = getattr(torch.optim, name)
    torch.manual_seed(0)
    pair = [torch.nn.Parameter(torch.randn(shape)) for shape in ((2, 3, 3), (2, 3), (2,))]
    optimizer = OptimCls(pair, lr=0.1, **kwargs)
    trained(optimizer, pair)
    state = copy.deepcopy(optimizer.state_dict())
    members = split_members(state, 2)
    singles = [[torch.nn.Parameter(p[i].detach().clone()) for p in pair] for i in range(2)]
    trained(optimizer, pair)
    for i, (alone, member) in enumerate(zip(singles, members, strict=True)):
        own = OptimCls(alone, lr=0.1, **kwargs)
        own.load_state_dict(copy.deepcopy(member))
        assert all(float(own.state[p]["step"]) == 2 for p in alone)
        trained(own, alone)
        for p, q in zip(alone, pair, strict=True):
            torch.testing.assert_close(p, q[i])
    assert_same_state(join_members(members)["state"], state["state"])


@pytest.mark.parametrize("name", ["LBFGS", "SparseAdam"])
@pytest.mark.parametrize("kind", ALGOS)
def test_optimizers_that_need_something_else_are_refused(kind, name):
    with pytest.raises(ValueError, match=f"OptimCls={name} "):
        ALGOS[kind](OptimCls=getattr(torch.optim, name))


@pytest.mark.parametrize("value", ["Adam", None, torch.optim])
def test_an_optimizer_that_is_no_class_is_refused(value):
    with pytest.raises(TypeError, match="OptimCls="):
        SAC(OptimCls=value)


def test_an_optimizer_that_would_mix_critics_is_refused_for_joined_ones():
    settings = dict(OptimCls=torch.optim.Adafactor, **SMALL)
    with pytest.raises(ValueError, match=r"Adafactor .*\(q\).*OptimCls"):
        prepared(SAC(**settings), AGENTS["sac"]())
    algo, agent = SAC(**settings), AGENTS["sac"]()
    agent.QModelCls = PlainCritic
    fill(algo, prepared(algo, agent))
    assert one_update(algo)


def test_an_untrained_state_survives_too():
    pair = [torch.nn.Parameter(torch.randn(2, 3))]
    state = torch.optim.Adam(pair, lr=0.1).state_dict()
    assert join_members(split_members(state, 2)) == state
    assert merge_states([state_of(state, [0])], [[0]], state["param_groups"]) == state


class BiasesFirst(torch.optim.Adam):
    """Adam with groups of its own, which come in another order than the networks."""

    def __init__(self, params, lr):
        params = list(params)
        vectors = [p for p in params if p.ndim < 2]
        matrices = [p for p in params if p.ndim >= 2]
        super().__init__([dict(params=vectors, lr=lr / 4), dict(params=matrices)], lr=lr)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_states_of_an_optimizer_with_its_own_groups_are_those_of_the_networks(name):
    settings = dict(OptimCls=BiasesFirst, optim_kwargs={}, **SMALL)
    source, target = ALGOS[name](**settings), ALGOS[name](**settings)
    for algo in (source, target):
        fill(algo, prepared(algo, AGENTS[name]()))
        one_update(algo)
    states = copy.deepcopy(source.optim_state_dict())
    target.load_optim_state_dict(states)
    assert_same_state(target.optim_state_dict(), states)
    for a, b in zip(source.steps.values(), target.steps.values(), strict=True):
        for p, q in zip(a.parameters, b.parameters, strict=True):
            assert all(x.shape in (p.shape, ()) for x in a.optimizer.state[p].values())
            assert_same_state(a.optimizer.state[p], b.optimizer.state[q])
        assert [g["lr"] for g in a.optimizer.param_groups] == [
            g["lr"] for g in b.optimizer.param_groups
        ]


KEYS = {
    "ddpg": {"mu", "q"},
    "td3": {"mu", "q"},
    "sac": {"pi_optimizer", "q1_optimizer", "q2_optimizer", "alpha_optimizer", "log_alpha"},
    "sac_v": {"pi_optimizer", "q1_optimizer", "q2_optimizer", "v_optimizer", "log_alpha"},
}


@pytest.mark.parametrize("kind", ALGOS)
def test_loaded_states_train_on_as_if_nothing_had_happened(kind):
    """In a fresh algorithm and agent, given as initial state or loaded."""
    algo, agent = ALGOS[kind](**SMALL), AGENTS[kind]()
    fill(algo, prepared(algo, agent))
    batches = [algo.replay_buffer.sample_batch(16) for _ in range(6)]
    feed(algo, batches[:3])
    for _ in range(3):
        one_update(algo)
    optim, parameters = algo.optim_state_dict(), agent.state_dict()
    assert optim.keys() == KEYS[kind]
    parameters = {k: {n: v.clone() for n, v in s.items()} for k, s in parameters.items()}
    optim = copy.deepcopy(optim)
    feed(algo, batches[3:])
    torch.manual_seed(8)
    for _ in range(3):
        one_update(algo)
    for initial in (True, False):
        more = dict(initial_optim_state_dict=copy.deepcopy(optim)) if initial else {}
        other, fresh = ALGOS[kind](**SMALL, **more), AGENTS[kind]()
        prepared(other, fresh)
        fresh.load_state_dict(parameters)
        if not initial:
            other.load_optim_state_dict(copy.deepcopy(optim))
        other.update_counter = 3
        feed(other, batches[3:])
        torch.manual_seed(8)
        for _ in range(3):
            one_update(other)
        assert_same_state(fresh.state_dict(), agent.state_dict())
        again, now = other.optim_state_dict(), algo.optim_state_dict()
        for name in KEYS[kind] - {"log_alpha"}:
            assert_same_state(again[name]["state"], now[name]["state"])
        if "log_alpha" in KEYS[kind]:
            assert torch.equal(again["log_alpha"], now["log_alpha"])


def test_fixed_alpha_has_no_optimizer():
    algo = SAC(fixed_alpha=0.2, **SMALL)
    prepared(algo, AGENTS["sac"]())
    state = algo.optim_state_dict()
    assert state.keys() == KEYS["sac"] - {"alpha_optimizer"}
    assert float(state["log_alpha"].exp()) == pytest.approx(0.2)


def test_a_fixed_alpha_is_not_overruled_by_a_state_to_begin_with():
    learnt = SAC(**SMALL)
    fill(learnt, prepared(learnt, AGENTS["sac"]()))
    one_update(learnt)
    state = copy.deepcopy(learnt.optim_state_dict())
    algo = SAC(fixed_alpha=0.2, initial_optim_state_dict=state, **SMALL)
    prepared(algo, AGENTS["sac"]())
    assert float(algo.alpha) == pytest.approx(0.2)


class PlainCritic(QofMuMlpModel):
    """A user's critic, which knows nothing of several."""

    def __init__(self, observation_shape, action_size, hidden_sizes):
        super().__init__(observation_shape, hidden_sizes, action_size)


@pytest.mark.parametrize("kind", ["td3", "sac"])
@pytest.mark.parametrize("limit", [None, 0.3])
def test_separate_critics_train_as_joined_ones(kind, limit):
    """A limit on gradients applies to each critic separately in both forms."""
    found = []
    for Model in (QofMuMlpModel, PlainCritic):
        algo = ALGOS[kind](learning_rate=1e-2, clip_grad_norm=limit, **SMALL)
        agent = AGENTS[kind](q_model_kwargs=NARROW)
        agent.QModelCls = Model
        fill(algo, prepared(algo, agent))
        if not found:
            start = {k: {n: v.clone() for n, v in s.items()} for k, s in agent.state_dict().items()}
            batches = [algo.replay_buffer.sample_batch(16) for _ in range(5)]
        agent.load_state_dict(start)
        feed(algo, batches)
        torch.manual_seed(8)
        for _ in range(5):
            one_update(algo)
        found.append(agent.state_dict())
        assert agent.n_joined == (None if Model is PlainCritic else 2)
    assert_same_state(*found, rtol=1e-3, atol=1e-4)


def test_the_state_of_a_users_critics_goes_on_too():
    algo, agent = SAC(**SMALL), AGENTS["sac"]()
    agent.QModelCls = PlainCritic
    fill(algo, prepared(algo, agent))
    one_update(algo)
    state = algo.optim_state_dict()
    assert {"pi_optimizer", "alpha_optimizer", "log_alpha"} < state.keys()
    algo.load_optim_state_dict(state)
    assert A == 2 and one_update(algo)


def test_an_optimizer_may_be_a_partial_or_a_function():
    for OptimCls in (partial(torch.optim.Adam, eps=0.5), lambda p, lr: torch.optim.SGD(p, lr=lr)):
        algo = ALGOS["ddpg"](OptimCls=OptimCls, **SMALL)
        prepared(algo, AGENTS["ddpg"]())
        assert algo.steps["q"].optimizer.defaults.get("eps", 0.5) == 0.5
