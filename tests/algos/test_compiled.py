"""An update as one compiled function does what the plain update does."""

import functools
import os

import pytest
import torch
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch.utils._python_dispatch import TorchDispatchMode

from rlpyt.algos.compiled import CACHE, compiled_function
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import QRDQN
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.errors import NonFiniteError
from tests.algos.dqn import parts_dqn
from tests.algos.qpg import parts_qpg

Q = dict(min_steps_learn=48, replay_size=180, batch_size=16, replay_ratio=2, clip_grad_norm=0.5)
SLOW_TARGET = dict(target_update_tau=0.1, target_update_interval=2)
ALGOS = {
    "dqn": functools.partial(DQN, **Q, double_dqn=True, prioritized_replay=True),
    "cat": functools.partial(CategoricalDQN, -3, 3, **Q, **SLOW_TARGET),
    "qr": functools.partial(QRDQN, **Q, optim_kwargs=dict(weight_decay=0.1)),
    "ddpg": functools.partial(DDPG, **Q, OptimCls=torch.optim.AdamW),
    "td3": functools.partial(TD3, **Q),
    "sac": functools.partial(SAC, **Q, q_learning_rate=1e-3, optim_kwargs=dict(weight_decay=0.1)),
    # Normalization cancels the biases of units that are always active: their gradients are rounding
    # errors, which Adam makes steps of with a small eps.
    "crossq": functools.partial(
        SAC, **Q, joint_critics=True, policy_update_interval=3, optim_kwargs=dict(eps=1e-4)
    ),
    "xqc": functools.partial(
        SAC, **Q, joint_critics=True, normalize_reward=True, optim_kwargs=dict(eps=1e-4)
    ),
    "sac_v": functools.partial(SAC_V, **Q),
}
NETWORKS = {
    "crossq": parts_qpg.CROSSQ,
    "xqc": dict(
        model_kwargs=parts_qpg.CROSSQ["model_kwargs"],
        q_model_kwargs=dict(n_atoms=11, **parts_qpg.CROSSQ["q_model_kwargs"]),
    ),
}
KINDS = {
    "cat": 2,
    "td3": 2,
    "crossq": 2,
}  # kinds of updates: with targets or policy, and without; else 1


@pytest.fixture(autouse=True)
def traced(monkeypatch, tmp_path):
    """Trace functions as for compilation, but run them without a C++ compiler."""
    trace = functools.partial(torch.compile, backend="eager", fullgraph=True)
    monkeypatch.setattr(torch, "compile", lambda function, options: trace(function))
    monkeypatch.setenv(CACHE, str(tmp_path / "given"))
    yield
    torch.compiler.reset()


def ready(name, compile="update", **kwargs):
    """An algorithm with a filled replay."""
    algo = ALGOS[name](compile=compile, **kwargs)
    parts = parts_dqn if name in parts_dqn.AGENTS else parts_qpg
    agent = parts.AGENTS["sac" if name in NETWORKS else name](**NETWORKS.get(name, {}))
    parts.fill(algo, parts.prepared(algo, agent))
    return algo


def state_of(algo):
    """Parameters, targets and the state of the optimizers."""
    return {"agent": algo.agent.state_dict(), "optim": algo.optim_state_dict()}


def assert_close(own, plain, path=""):
    if isinstance(plain, dict):
        assert own.keys() == plain.keys(), path
        for key in plain:
            assert_close(own[key], plain[key], f"{path}.{key}")
    elif isinstance(plain, list | tuple):
        for i, (x, y) in enumerate(zip(own, plain, strict=True)):
            assert_close(x, y, f"{path}.{i}")
    elif isinstance(plain, torch.Tensor | float):
        torch.testing.assert_close(own, plain, rtol=1e-4, atol=1e-5, msg=lambda m: f"{path}: {m}")


def updates(algo, n):
    """Learn from n batches; the statistics."""
    torch.manual_seed(7)
    return [parts_qpg.one_update(algo) for _ in range(n)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("dqn", "td3") else pytest.mark.slow)
        for name in ALGOS
    ],
)
def test_the_compiled_update_is_the_plain_one_whatever_the_learning_rate(name):
    found = []
    for compile in (None, "update"):
        algo = ready(name, compile)
        statistics = updates(algo, 4)
        algo.learning_rate = 0.01
        algo.clip_grad_norm = None
        statistics += updates(algo, 2)
        algo.learning_rate = 0.001
        algo.clip_grad_norm = 0.1
        algo.target_update_tau = algo.target_update_tau / 2
        statistics += updates(algo, 2)
        found.append((statistics, state_of(algo)))
    assert_close(found[1][1], found[0][1])
    for plain, own in zip(*(statistics for statistics, _ in found), strict=True):
        assert own._fields == plain._fields
        assert_close([*own], [*plain])
    assert algo.update.n_compilations == KINDS.get(name, 1)


@pytest.mark.parametrize("name", ["sac", pytest.param("td3", marks=pytest.mark.slow)])
def test_a_resumed_run_continues_as_it_would_have(name):
    algo, other = ready(name), ready(name)
    updates(algo, 4)
    states = (algo.agent.state_dict(), algo.state_dict())
    assert "_orig_mod" not in repr([*_names(states)])
    other.agent.load_state_dict(states[0])
    other.load_state_dict(states[1])
    for one in (algo, other):
        updates(one, 3)
    parts_qpg.assert_same_state(state_of(other)["agent"], state_of(algo)["agent"])
    assert_close(state_of(other), state_of(algo))


def _names(tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key
            yield from _names(value)
    elif isinstance(tree, list | tuple):
        for value in tree:
            yield from _names(value)


def test_weights_loaded_into_a_compiled_update_are_those_that_it_trains():
    algo, plain = ready("sac"), ready("sac", compile=None)
    before = updates(algo, 3)[-1]
    updates(plain, 3)
    parts_qpg.shake(plain.agent.q_model, 1.0)
    algo.agent.load_state_dict(plain.agent.state_dict())
    algo.load_optim_state_dict(plain.optim_state_dict())
    (own,), (expected,) = updates(algo, 1), updates(plain, 1)
    assert algo.update.n_compilations == 1
    assert own.q1Loss == pytest.approx(expected.q1Loss, rel=1e-4)
    assert own.q1Loss != pytest.approx(before.q1Loss, rel=1e-2)


@pytest.mark.parametrize("name", ["dqn", "sac", pytest.param("td3", marks=pytest.mark.slow)])
def test_a_loss_that_is_not_finite_changes_nothing(name):
    algo = ready(name)
    updates(algo, 4)
    before = state_of(algo)
    before = {k: {n: _copied(x) for n, x in v.items()} for k, v in before.items()}
    batch = algo.draw_batch()
    batch.return_[0] = torch.nan
    with pytest.raises(NonFiniteError, match=r"the loss is nan"):
        algo.learn_from(batch, algo.empty_opt_info())
    assert_close(state_of(algo), before)
    updates(algo, 1)


def _copied(tree):
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_copied(value) for value in tree]
    return tree.clone() if isinstance(tree, torch.Tensor) else tree


class Operations(TorchDispatchMode):
    """Mode that lists operations and the shapes and devices of their results."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = result if isinstance(result, tuple | list) else [result]
        shapes = [(tuple(x.shape), x.device.type) for x in tensors if isinstance(x, torch.Tensor)]
        self.found.append((str(func), shapes))
        return result


HOST = ("_local_scalar_dense", "item", "is_nonzero", "equal")
CHANGING = ("nonzero", "masked_select", "unique", "index.Tensor_bool", "repeat_interleave.Tensor")


@pytest.mark.parametrize("name", ALGOS)
def test_the_update_can_be_a_cuda_graph(name, monkeypatch):
    """It reads nothing on the host, and allocates the same tensors each time."""
    monkeypatch.setattr(torch, "compile", lambda function, options: function)
    algo = ready(name)
    updates(algo, 4)
    algo.update._set_numbers()
    # So that the code which is traced is run operation by operation.
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    runs = []
    for _ in range(2):
        batch = algo.to_device(algo.draw_batch())
        with Operations() as operations:
            algo.update.traced(batch, True)
        algo.recorded.current = {}
        runs.append(operations.found)
    assert runs[0] == runs[1] and len(runs[0]) > 50
    names = {func.removeprefix("aten.") for func, _ in runs[0]}
    assert not [n for n in names if n.startswith((*HOST, *CHANGING))]


def statistics_of_three(algo):
    """Learn from three batches before the statistics are read, as in an iteration."""
    torch.manual_seed(7)
    opt_info = algo.make_opt_info([] for _ in algo.returned_fields)
    for _ in range(3):
        algo.learn_from(algo.draw_batch(), opt_info)
    return [*algo.add_recorded(opt_info)]


def test_statistics_outlive_the_memory_in_which_a_cuda_graph_returns_them():
    algo, plain = ready("sac"), ready("sac", compile=None)
    compiled, given = algo.update, []
    function = compiled.function

    def in_one_memory(*args):
        for tensor in given:  # of the call before
            tensor.fill_(torch.nan)
        before = {*map(id, algo.recorded.current.values())}
        result = function(*args)
        given[:] = [x for x in algo.recorded.current.values() if id(x) not in before]
        return result

    compiled.function, compiled._copies = in_one_memory, True
    assert_close(statistics_of_three(algo), statistics_of_three(plain))
    assert given


def test_what_reads_the_host_or_changes_shape_is_found():
    with Operations() as operations:
        x = torch.arange(3.0)
        x[x > 0].sum().item()
    names = [func.removeprefix("aten.") for func, _ in operations.found]
    assert any(n.startswith(HOST) for n in names) and any(n.startswith("index") for n in names)


@pytest.mark.filterwarnings("always")
def test_another_shape_is_compiled_and_warned_of():
    algo = ready("dqn")
    updates(algo, 3)
    algo.batch_size = 12
    with pytest.warns(UserWarning, match="compiled again.*TORCH_LOGS"):
        updates(algo, 1)
    assert algo.update.n_compilations == 2


@pytest.mark.filterwarnings("always")
def test_a_setting_that_is_changed_in_the_optimizer_acts_in_the_next_update():
    found = []
    for compile in (None, "update"):
        algo = ready("dqn", compile)
        updates(algo, 3)
        algo.optimizer.param_groups[0]["weight_decay"] = 1.0
        if compile:
            with pytest.warns(UserWarning, match="compiled again"):
                updates(algo, 2)
        else:
            updates(algo, 2)
        found.append(algo.agent.state_dict())
    assert_close(found[1], found[0])


@pytest.mark.parametrize(
    ("name", "one"),
    [
        ("dqn", False),
        ("dqn", True),
        ("ddpg", False),  # with several steps
        *(
            pytest.param(n, one, marks=pytest.mark.slow)
            for n, one in [("ddpg", True), ("td3", False), ("td3", True)]
        ),
    ],
)
def test_moments_that_are_cleared_begin_at_zero(name, one):
    found = []
    for compile in (None, "update"):
        algo = ready(name, compile)
        updates(algo, 4)
        for step in getattr(algo, "steps", {"": getattr(algo, "gradient_step", None)}).values():
            for p in step.parameters[-1:] if one else step.parameters:
                step.optimizer.state[p] = {}
        updates(algo, 3)
        found.append(state_of(algo))
    assert_close(found[1], found[0])


def registered(kind, algo, called):
    """Register a hook that changes a layer, its gradients or its input; return its handle."""
    layer = next(m for m in algo.agent.model.modules() if isinstance(m, torch.nn.Linear))

    def halve(x, *args):
        called.append(kind)
        return (0.5 * args[-1][0],) if args else 0.5 * x

    def double(p):
        called.append(kind)
        p.grad *= 2

    def shrink(*_):
        called.append(kind)
        layer.weight.data.mul_(0.5)

    return {
        "step": lambda: algo.optimizer.register_step_post_hook(shrink),
        "tensor": lambda: layer.weight.register_hook(halve),
        "accumulated": lambda: layer.weight.register_post_accumulate_grad_hook(double),
        "forward": lambda: layer.register_forward_pre_hook(halve),
        "backward": lambda: layer.register_full_backward_pre_hook(halve),
    }[kind]()


def test_hooks_are_called_although_compiled_code_would_not():
    """Of every kind, one after another; updates without hooks continue in the compiled function."""
    found = []
    for compile in (None, "update"):
        algo, called = ready("dqn", compile), []
        updates(algo, 3)
        for kind in ("tensor", "accumulated", "forward", "backward", "step"):
            n_before = len(called)
            handle = registered(kind, algo, called)
            if compile:
                algo.update._warned_of_hooks = False
                with pytest.warns(UserWarning, match="not compiled while hooks"):
                    updates(algo, 2)
            else:
                updates(algo, 2)
            handle.remove()
            assert len(called) > n_before, kind
            updates(algo, 1)
        found.append((state_of(algo), called))
    assert_close(found[1][0], found[0][0])
    assert found[1][1] == found[0][1]
    assert algo.update.n_compilations == 1


@pytest.mark.parametrize("kind", ["tensor", "forward"])
def test_compiled_losses_call_hooks_that_are_registered_later(kind):
    found = []
    for compile in (None, "loss"):
        algo, called = ready("dqn", compile), []
        updates(algo, 2)
        registered(kind, algo, called)
        updates(algo, 2)
        found.append((state_of(algo), called))
    assert_close(found[1][0], found[0][0])
    assert found[1][1] == found[0][1] != []


def test_without_a_compiler_it_continues_with_one_warning(monkeypatch):
    plain = ready("sac", compile=None)
    monkeypatch.setattr(torch, "compile", _without_compiler)
    algo = ready("sac")
    with pytest.warns(UserWarning, match="without it.*no g\\+\\+") as caught:
        own = updates(algo, 4)
    assert len([w for w in caught if "torch.compile" in str(w.message)]) == 1
    for x, y in zip(own, updates(plain, 4), strict=True):
        assert_close([*x], [*y])


def _without_compiler(function, options):
    def call(*args):
        raise torch._dynamo.exc.BackendCompilerFailed(print, RuntimeError("no g++"), None)

    return call


def test_errors_of_the_update_are_its_own():
    def wrong(x):
        raise ValueError("of the update")

    with pytest.raises(ValueError, match="of the update"):
        compiled_function(wrong)(torch.zeros(1))


def test_the_cache_is_the_users_unless_one_is_given(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled_function(torch.abs)
    assert os.environ[CACHE] == str(tmp_path / "given")
    for default in ("", default_cache_dir()):
        monkeypatch.setenv(CACHE, default)
        if not default:
            monkeypatch.delenv(CACHE)
        compiled_function(torch.abs)
        assert os.environ[CACHE] == str(tmp_path / "rlpyt" / "inductor")


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(ValueError, match=r'compile="update" .*Adam.*got SGD.*compile="loss"'):
        ready("dqn", OptimCls=torch.optim.SGD)
    with pytest.raises(ValueError, match="Adam and AdamW without amsgrad"):
        ready("dqn", optim_kwargs=dict(amsgrad=True))
    with pytest.raises(ValueError, match="compile='update'"):
        PPO(compile="update")
    assert DQN(compile_loss=True).compile == "loss" and DQN().compile is None
