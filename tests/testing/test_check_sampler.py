"""``check_sampler`` passes all samplers of rlpyt and reports each fault of others."""

import pytest

from rlpyt.agents.pg.vector import CategoricalLstmAgent, GaussianMlpAgent
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv, MemoryEnv
from rlpyt.envs.vector.make import make_vec
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.collectors import GpuWaitResetCollector
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.testing import ConformanceError, ConformanceWarning
from tests.oracles import sampler_runs
from tests.oracles.sampler import CHECKS, check_sampler
from tests.parts import EchoAgent, ForgetfulEchoAgent
from tests.testing import odd_samplers
from tests.testing.odd_samplers import changed, returning, telling

SAMPLERS = {
    SerialSampler: CpuWaitResetCollector,
    CpuSampler: CpuWaitResetCollector,
    GpuSampler: GpuWaitResetCollector,
    AlternatingSampler: GpuWaitResetCollector,
    NoOverlapAlternatingSampler: GpuWaitResetCollector,
}


@pytest.mark.parametrize("waiting", [False, True], ids=["reset", "wait"])
@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_every_sampler_passes_exactly_with_deterministic_agents(SamplerCls, waiting):
    Collector = SAMPLERS[SamplerCls] if waiting else None
    report = check_sampler(SamplerCls, CountEnv, {}, EchoAgent, CollectorCls=Collector, exact=True)
    assert not report.warnings, str(report)
    assert {*CHECKS} - {*report.passed} == {"state"}  # the echo records no recurrent state


@pytest.mark.parametrize("SamplerCls", [CpuSampler, AlternatingSampler])
def test_samplers_pass_with_a_recurrent_network(SamplerCls):
    agent = CategoricalLstmAgent(model_kwargs=dict(hidden_sizes=[8], lstm_size=8))
    report = check_sampler(SamplerCls, MemoryEnv, dict(delay=2), agent)
    assert {*report.passed} == {*CHECKS}, str(report)


def test_gymnasium_single_and_batched():
    assert {*check_sampler(SerialSampler, make, dict(id="CartPole-v1")).passed} == {*CHECKS}
    report = check_sampler(
        CpuSampler, make_vec, dict(id="Pendulum-v1"), GaussianMlpAgent, evaluate=False
    )
    assert {"same-as-serial", "trajectories", "shutdown"} <= {*report.passed}


def test_lost_lives_that_wait_are_left_open():
    report = check_sampler(
        SerialSampler, CountEnv, dict(life=2), EchoAgent, CollectorCls=CpuWaitResetCollector
    )
    assert "trajectories" not in report.passed and "same-as-serial" in report.passed
    assert "trajectories" in check_sampler(SerialSampler, CountEnv, dict(life=2), EchoAgent).passed


ERRORS = [
    (returning(lambda s, itr: s.env), "batch", r"EnvSamples"),
    (changed("env", done=lambda x, s: x.numpy()), "batch", r"env.done .*ndarray"),
    (changed("env", reward=lambda x, s: x.T), "batch", r"env.reward .*\(4, 5\)"),
    (odd_samplers.LeavesGaps, "batch", r"agent.agent_info.value .*NaN at \[4, 0\]"),
    (changed("agent", prev_action=odd_samplers.one_step_late), "shift", r"prev_action\[1\]"),
    (changed("env", prev_reward=odd_samplers.one_step_late), "shift", r"prev_reward\[1\]"),
    (changed("env", prev_reward=odd_samplers.forgets_over_batches), "shift", r"the batch before"),
    (changed("env", done=odd_samplers.never_done_by_timeout), "ends", r"timeout without done"),
    (changed("agent", timeout_value=lambda x, s: x + 1), "ends", r"timeout_value is not zero"),
    (odd_samplers.WaitsWithReward, "ends", r"earns rewards"),
    (odd_samplers.WaitsUndone, "ends", r"not marked done"),
    (telling(lambda infos: infos[1:]), "trajectories", r"the batches add up to"),
    (telling(odd_samplers.longer), "trajectories", r"the batches add up to"),
    (odd_samplers.OtherSeed, "same-as-serial", r"batch 0: agent.action"),
    (odd_samplers.KeepsReward, "same-as-serial", r"env.prev_reward|env.reward|agent_info"),
    (odd_samplers.NoSeed, "repeatable", r"another first batch"),
    (odd_samplers.TrainsWhileEvaluating, "evaluation", r"without evaluations, batch 1 "),
    (odd_samplers.EvaluatesTooMuch, "evaluation", r"12 trajectories, .* 4"),
    (odd_samplers.EvaluatesOther, "evaluation", r"4 trajectories.*serial sampler"),
    (odd_samplers.LoadsNothing, "state", r"after load_state_dict"),
    (odd_samplers.ShutsDownOnce, "shutdown", r"OSError: already down"),
]


@pytest.mark.parametrize(
    ("part", "check", "what"), ERRORS, ids=[f"{i}-{case[1]}" for i, case in enumerate(ERRORS)]
)
def test_each_fault_is_reported(part, check, what):
    is_sampler = issubclass(part, SerialSampler)
    SamplerCls, Collector = (part, None) if is_sampler else (SerialSampler, part)
    with pytest.raises(ConformanceError, match=rf"(?s)FAIL \[{check}\].*{what}") as caught:
        check_sampler(SamplerCls, CountEnv, {}, ForgetfulEchoAgent, CollectorCls=Collector)
    assert all(f.fix for f in caught.value.report.errors)


def test_processes_left_running_are_reported(monkeypatch):
    monkeypatch.setattr(sampler_runs, "PATIENCE_S", 0.5)
    try:
        with pytest.raises(ConformanceError, match=r"\[shutdown\] .*sleep 100"):
            check_sampler(odd_samplers.LeavesProcess, CountEnv, {}, ForgetfulEchoAgent)
    finally:
        for process in odd_samplers.LeavesProcess.left:
            process.kill()
            process.wait()


def test_files_left_open_and_missing_values_are_warned_of(monkeypatch):
    monkeypatch.setattr(sampler_runs, "PATIENCE_S", 0.5)
    with pytest.warns(ConformanceWarning, match=r"\[shutdown\] .*odd_samplers.py"):
        check_sampler(odd_samplers.LeavesFiles, CountEnv, {}, ForgetfulEchoAgent)
    for file in odd_samplers.LeavesFiles.left:
        file.close()
    plain = returning(odd_samplers.without_timeout_value)
    with pytest.warns(ConformanceWarning, match=r"\[ends\].*timeout_value"):
        check_sampler(plain, CountEnv, {}, ForgetfulEchoAgent)


def test_what_a_sampler_cannot_do_is_left_open():
    report = check_sampler(odd_samplers.NoState, CountEnv, {}, ForgetfulEchoAgent, evaluate=False)
    left_open = {f.check for f in report.findings if f.level == "open"}
    assert left_open == {"state", "evaluation"}


def test_one_batch_is_refused():
    with pytest.raises(ValueError, match="n_batches=1"):
        check_sampler(SerialSampler, CountEnv, n_batches=1)


def test_every_check_is_shown_to_find_something():
    assert {check for _, check, _ in ERRORS} | {"shutdown"} == {*CHECKS}
