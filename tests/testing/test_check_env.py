"""``check_env`` passes valid environments and reports each fault of others."""

import os
import threading
import time
from itertools import repeat

import gymnasium
import numpy as np
import pytest

from rlpyt.envs import toy
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.envs.gym import make
from rlpyt.testing import ConformanceError, ConformanceWarning, check_env
from rlpyt.testing.env import CHECKS, examine_env, examine_env_in_child
from tests.testing import walks
from tests.testing.walks import GymWalk, Walk, changed, observed

BRIEFLY = dict(max_steps=60, skip=["worker"])
GOOD = {
    "walk": (Walk, {}),
    "channels first": (walks.ChannelsFirst, {}),
    "independent draws": (walks.IndependentDraws, {}),
    "count": (toy.CountEnv, {}),
    "lives": (toy.CountEnv, dict(life=2, length=7)),
    "bandit": (toy.BanditEnv, dict(noise=1.0)),
    "gymnasium": (GymWalk, {}),
    "cartpole": (make, dict(id="CartPole-v1")),
    "pendulum": (make, dict(id="Pendulum-v1")),
    "frozen lake": (make, dict(id="FrozenLake-v1")),
    "blackjack": (make, dict(id="Blackjack-v1")),
}
QUESTIONABLE = {  # deterministic, or with ends that look like time limits
    "memory": (toy.MemoryEnv, {}, ["time-limit"]),
    "delay": (toy.DelayEnv, {}, ["time-limit", "seeding"]),
    "truncation": (toy.TruncationEnv, {}, ["seeding"]),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_environments_pass_without_a_warning(name, recwarn):
    report = check_env(*GOOD[name])
    assert report.ok and not report.warnings, str(report)
    assert not [w for w in recwarn if w.category is ConformanceWarning]
    assert {"factory", "spaces", "observation", "seeding", "independence", "close"} <= {
        *report.passed
    }


@pytest.mark.parametrize("name", QUESTIONABLE)
def test_questionable_environments_are_warned_of(name):
    make_env, kwargs, expected = QUESTIONABLE[name]
    with pytest.warns(ConformanceWarning) as warned:
        report = check_env(make_env, kwargs)
    assert sorted(f.check for f in report.warnings) == sorted(expected)
    assert len(warned) == len(expected)


@pytest.mark.slow
def test_atari_keeps_the_contract():
    pytest.importorskip("ale_py")
    report = check_env(AtariEnv, dict(repeat_action_probability=0.25), max_steps=300)
    assert report.ok and "state" in report.passed


def test_mujoco_keeps_the_contract():
    pytest.importorskip("mujoco")
    report = check_env(make, dict(id="Hopper-v5"))
    assert report.ok and {"state", "final-observation"} <= {*report.passed}


def int_reward_then_none(env, step):
    return None if env.t == 4 else 1


def growing(env, step):
    return walks.WalkInfo(np.zeros(env.t), step.env_info.timeout)


def sometimes_int(env, step):
    return step.env_info._replace(place=1 if env.t == 2 else 0.5)


def fields_at_the_end(env, step):
    return step.env_info if step.done else walks.Bare(0.0)


def local_type(env, step):
    from collections import namedtuple

    info = namedtuple("Local", ["get", "timeout"])
    return info(0.0, step.env_info.timeout)


def timeout_from_the_start(env, step):
    return step.env_info._replace(timeout=True)


def traj_done_alone(env, step):
    return walks.Living(0.0, False, env.t == 2 or step.done)


ERRORS = [
    # structure
    (walks.GymnasiumForm, "structure", r"Gymnasium's five"),
    (walks.ResetGivesInfo, "structure", r"\(observation, info\)"),
    (walks.RaisesInStep, "structure", r"RuntimeError: .*walks\.py:\d+"),
    # factory and spaces
    (walks.MaskOfAnotherLength, "action-mask", r"action_mask"),
    (Walk(), "factory", r"class or function"),
    (lambda: None, "factory", r"returned None"),
    (lambda: Walk, "factory", r"returned the class Walk"),
    (repeat(Walk()).__next__, "factory", r"same environment twice"),
    (walks.NoActionSpace, "factory", r"no action_space"),
    (walks.OtherSpaceEachTime, "spaces", r"observation_space differs"),
    (walks.BareGymSpace, "spaces", r"action_space .*null_value"),
    (walks.SamplesOutside, "spaces", r"action_space.sample\(\) gave .*7"),
    # observations
    (observed(lambda env, o: o[:1]), "observation", r"\(1,\); .*\(2,\)"),
    (observed(lambda env, o: o.astype(np.float64)), "observation", r"float64, .*float3"),
    (observed(lambda env, o: o if env.t < 5 else o * 1.0e0 + 0.0j), "observation", r"ndarray"),
    (observed(lambda env, o: list(o)), "observation", r"is a list"),
    (observed(lambda env, o: o * 10), "observation", r"bounds \[-3.0, 3.0\]"),
    (observed(lambda env, o: o * np.float32("nan")), "observation", r"not finite"),
    # reward and done
    (changed(reward=int_reward_then_none), "reward", r"step 3: reward is None"),
    (changed(reward=lambda env, s: np.array([1.0])), "reward", r"array\(\[1.\]\)"),
    (changed(reward=lambda env, s: "1"), "reward", r"'1' of str"),
    (changed(reward=lambda env, s: float("inf")), "reward", r"reward is inf"),
    (changed(done=lambda env, s: int(s.done)), "done", r"done is 0 of int"),
    (changed(done=lambda env, s: np.array([s.done])), "done", r"of ndarray"),
    # env_info
    (changed(env_info=lambda env, s: {}), "env-info", r"env_info is a dict"),
    (changed(env_info=lambda env, s: None), "env-info", r"env_info is a NoneType"),
    (changed(env_info=growing), "env-info", r"\[2\].*at the first step it was .*\[1\]"),
    (changed(env_info=sometimes_int), "env-info", r"place: int64.*place: float64"),
    (changed(env_info=fields_at_the_end), "env-info", "timeout.*first step"),
    (changed(env_info=lambda e, s: walks.Named(0.0, False, "x")), "env-info", r"text has dtype <U"),
    (changed(env_info=local_type), "env-info", r"reserved"),
    # actions and memory
    (walks.WritesIntoAction, "actions", r"wrote into the action"),
    (walks.SharesBuffer, "independence", r"same memory"),
    # randomness
    (walks.IgnoresSeed, "seeding", "the seed"),
    (walks.HonoursSeedOnce, "seeding", r"seeded again after"),
    (walks.NoiseFromElsewhere, "seeding", r"step 0 of row 0: 'observation'"),
    (walks.Unseedable, "seeding", r"method seed is missing"),
    (walks.GlobalGenerator, "independence", r"in turn with another environment"),
    (walks.KeepsPlaceInClass, "independence", r"in turn with another environment"),
    # ends
    (changed(env_info=timeout_from_the_start), "time-limit", r"timeout is true"),
    (changed(env_info=traj_done_alone), "time-limit", r"traj_done is true"),
    (walks.LateLimit, "time-limit", r"12 steps; horizon is 8"),
    (walks.WrongHorizon, "time-limit", r"horizon is '12'"),
    (walks.ResetsItself, "final-observation", r"was that of a reset"),
    (walks.ResetsItselfOnce, "final-observation", r"was that of a reset"),
    (walks.ResetsItselfToZero, "final-observation", r"was that of a reset"),
    # state, close
    (walks.ForgetsGenerator, "state", r"continues differently: step \d+"),
    (walks.ForgetsTime, "state", r"continues differently: step 7 of row 0"),
    (walks.LiveState, "state", r"not a plain tree: state/rng"),
    (walks.StateIsView, "state", r"changed while the environment was stepped"),
    (walks.LookingMoves, "state", r"get_state\(\) changed the run"),
    (walks.CannotBeSet, "state", r"NotImplementedError"),
    (walks.ClosesOnce, "close", r"second close\(\) .*OSError"),
]


@pytest.mark.parametrize(
    ("make_env", "check", "what"), ERRORS, ids=[f"{i}-{case[1]}" for i, case in enumerate(ERRORS)]
)
def test_each_fault_is_reported(make_env, check, what):
    with pytest.raises(ConformanceError, match=rf"(?s)FAIL \[{check}\].*{what}") as caught:
        check_env(make_env, **BRIEFLY)
    found = [f for f in caught.value.report.errors if f.check == check]
    assert found and all(f.fix for f in found)


WARNINGS = [
    (walks.PlainTuple, "structure", r"plain tuple"),
    (walks.Ambiguous, "image-layout", r"\[C, H, W\] or \[H, W, C\]"),
    (walks.WithoutChannels, "image-layout", r"\(16, 20\) is read as a vector of 320 numbers"),
    (walks.Deterministic, "seeding", r"another seed gave the same"),
    (walks.TellsTheTime, "seeding", r"another env_info"),
    (walks.NeverEnds, "episodes", r"none ended within 60 steps"),
    (walks.LimitWithoutTimeout, "time-limit", r"lasted 12 steps, none by timeout"),
    (walks.LimitAsEnd, "time-limit", r"ended at the horizon of 12 steps, none by timeout"),
    (walks.NoTimeoutField, "time-limit", r"12 steps, .*env_info.timeout"),
]


@pytest.mark.parametrize(
    ("make_env", "check", "what"), WARNINGS, ids=[f"{case[0].__name__}" for case in WARNINGS]
)
def test_each_questionable_property_is_warned_of(make_env, check, what):
    with pytest.warns(ConformanceWarning, match=rf"\[{check}\].*{what}"):
        report = check_env(make_env, **BRIEFLY)
    assert check not in report.passed


class Categories(gymnasium.Env):
    """Observes 9, beyond its categories from 2 to 5."""

    observation_space = gymnasium.spaces.Dict(c=gymnasium.spaces.Discrete(4, start=2))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"c": np.int64(9)}, {}

    def step(self, action):
        return {"c": np.int64(9)}, 0.0, False, False, {}


def test_categories_are_named_in_the_environments_numbers():
    with pytest.raises(ConformanceError, match=r"bounds \[2, 5\].*9"):
        check_env(Categories, **BRIEFLY)


def test_images_with_channels_last_are_noted():
    report = check_env(walks.Picture, **BRIEFLY)
    assert any("is read as [height, width, channels]" in f.what for f in report.findings)
    assert not report.warnings


def test_reused_buffers_are_noted_and_in_gymnasium_warned_of():
    report = check_env(walks.ReusesBuffer)
    (note,) = report.findings
    assert (note.check, note.level) == ("buffers", "note") and "same memory" in note.what
    with pytest.warns(ConformanceWarning, match=r"\[gymnasium\]"):
        check_env(GymWalk, dict(reuse=True))


@pytest.mark.parametrize(
    "kwargs, what, fix",
    [
        (dict(deaf=True), "super().reset(seed", "draw all random numbers from `self.np_random`"),
        (dict(old=True), "a tuple of the form", "return `(observation, info)` from `reset`"),
        (dict(reuse=True), "share an object", "self.observation.copy()"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*old interface")
def test_errors_of_gymnasiums_own_checker_are_warned_of(kwargs, what, fix):
    report = examine_env(GymWalk, kwargs)
    (finding,) = [f for f in report.warnings if f.check == "gymnasium"]
    assert "env_checker.check_env raised" in finding.what and what in finding.what
    assert fix in finding.fix
    assert "gymnasium" in examine_env(GymWalk).passed
    assert "gymnasium" not in examine_env(Walk).passed


def test_remarks_of_gymnasiums_own_checker_have_remedies():
    class Unbounded(GymWalk):
        def __init__(self):
            super().__init__()
            low = np.full(self.observation_space.shape, -np.inf, np.float32)
            self.observation_space = gymnasium.spaces.Box(low, -low)

    notes = [f for f in examine_env(Unbounded).findings if f.check == "gymnasium"]
    (note,) = [note for note in notes if "minimum value is -infinity" in note.what]
    assert "maximum value is infinity" in note.what and "rlpyt needs none" in note.fix


def test_faults_of_gymnasium_environments_are_named():
    with pytest.raises(ConformanceError, match=r"FAIL \[seeding\] .*the seed"):
        check_env(GymWalk, dict(deaf=True))


@pytest.mark.filterwarnings("ignore:.*float64", "ignore:.*old interface")
@pytest.mark.parametrize("kwargs", [dict(wide=True), dict(old=True)], ids=str)
def test_conversions_of_the_wrapper_are_not_faults(kwargs):
    """Observations in float64, and steps of four values."""
    assert check_env(GymWalk, kwargs).ok


def test_an_unsupported_space_is_named_with_its_place():
    class WithText(GymWalk):
        def __init__(self):
            super().__init__()
            parts = dict(where=self.observation_space, said=gymnasium.spaces.Text(3))
            self.observation_space = gymnasium.spaces.Dict(parts)

    with pytest.raises(ConformanceError, match=r"'obs.said'.*Text"):
        check_env(WithText)


def test_unpicklable_factories_are_reported():
    lock = threading.Lock()
    with pytest.raises(ConformanceError, match=r"\[worker\] cannot send .*lock"):
        check_env(lambda: Walk() if lock else None)


def test_factories_that_depend_on_the_script_are_reported(monkeypatch):
    monkeypatch.setattr(walks, "registered", True, raising=False)

    def make_registered():
        return Walk() if hasattr(walks, "registered") else None

    with pytest.raises(ConformanceError, match=r"\[worker\].*returned None"):
        check_env(make_registered)


def test_dependence_on_state_of_the_process_is_reported(monkeypatch):
    monkeypatch.setattr(walks.Walk, "horizon", 5)

    class ByModule(Walk):
        def step(self, action):
            self.t += walks.Walk.horizon != 5
            return super().step(action)

    with pytest.raises(ConformanceError, match=r"\[worker\] .*differently"):
        check_env(ByModule, skip=["time-limit"])


def test_all_findings_are_reported_at_once():
    class Several(changed(done=lambda env, s: int(s.done)), walks.ClosesOnce):
        def observe(self):
            return super().observe().astype(np.float64)

    with pytest.raises(ConformanceError) as caught:
        check_env(Several)
    assert {f.check for f in caught.value.report.errors} == {"observation", "done", "close"}
    assert isinstance(caught.value, AssertionError)


def test_checks_can_be_skipped():
    make_env = observed(lambda env, o: o * 10)
    assert check_env(make_env, skip=["observation"]).ok
    assert check_env(walks.IgnoresSeed, skip="seeding").ok
    with pytest.raises(ValueError, match="did you mean 'observation'"):
        check_env(make_env, skip=["observations"])


def test_a_report_distinguishes_passed_open_and_failed():
    report = examine_env(walks.Unseedable)
    assert not report.ok and not report.warnings
    assert "observation" in report.passed
    assert not {"seeding", "independence", "state"} & {*report.passed}
    assert "1 errors, 0 warnings" in str(report)
    alike = examine_env(toy.BanditEnv)
    assert [f.check for f in alike.findings if f.level == "open"] == ["final-observation"]
    assert "final-observation" not in alike.passed and alike.ok


def test_tracebacks_of_the_environment_are_kept():
    report = examine_env(walks.RaisesInStep)
    assert "walks.py" in report.tracebacks[0] and "the simulator is gone" in report.tracebacks[0]


def test_environments_are_closed_again():
    opened, closed = [], []

    class Counted(Walk):
        def __init__(self):
            super().__init__()
            opened.append(id(self))

        def close(self):
            closed.append(id(self))

    check_env(Counted, skip=["worker"])
    assert len(opened) > 10 and {*opened} == {*closed}


def test_every_check_of_single_environments_is_shown_to_find_something():
    batches = {"rows", "reset-rows", "waiting-rows", "autoreset", "action-check", "statistics"}
    shown = {check for _, check, _ in ERRORS + WARNINGS} | {"buffers", "worker", "gymnasium"}
    assert shown | {"return"} == {*CHECKS} - batches


class Hangs(Walk):
    def step(self, action):
        time.sleep(1000)


class Exits(Walk):
    def step(self, action):
        os._exit(3)


@pytest.mark.parametrize("make_env, said", [(Hangs, "no progress for 5 s"), (Exits, "3")])
def test_a_hang_and_an_exit_are_reported_like_other_findings(make_env, said):
    report = examine_env_in_child(make_env, timeout_s=5)
    (finding,) = report.findings
    assert finding.check == "return" and said in finding.what and report.passed == []
    if make_env is Hangs:
        assert "in step" in finding.what  # the stacks say where


def test_a_child_process_reports_the_same_findings():
    here, there = examine_env(Walk), examine_env_in_child(Walk)
    assert str(here) == str(there) and "worker" in there.passed
