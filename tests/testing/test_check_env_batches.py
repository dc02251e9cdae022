"""``check_env`` for batches: valid ones pass in every autoreset mode, wrong declarations fail."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from rlpyt.envs.vector.base import vector_info
from rlpyt.envs.vector.make import make_envpool, make_vec
from rlpyt.envs.vector.wrappers import StandardizeObservation, StandardizeReward
from rlpyt.testing import ConformanceError, check_env
from rlpyt.testing.env import CHECKS, examine_env
from rlpyt.utils.collections import namedarraytuple
from tests.testing import batched_walks
from tests.testing.batched_walks import Foreign, Walks, changed
from tests.testing.walks import GymWalk

BRIEFLY = dict(max_steps=60, skip=["worker"])
FOR_BATCHES = ["rows", "reset-rows", "waiting-rows", "autoreset", "action-check"]


def sync(mode):
    return gymnasium.vector.SyncVectorEnv([GymWalk] * 3, autoreset_mode=AutoresetMode[mode])


def standardized():
    return StandardizeReward(StandardizeObservation(Walks()))


GOOD = {
    "serial": (Walks, {}),
    "standardized": (standardized, {}),
    "open number of rows": (batched_walks.SeededWhenMade, {}),
    "statistics": (batched_walks.Counting, {}),
    "SyncVectorEnv, NEXT_STEP": (sync, dict(mode="NEXT_STEP")),
    "SyncVectorEnv, SAME_STEP": (sync, dict(mode="SAME_STEP")),
    "SyncVectorEnv, DISABLED": (sync, dict(mode="DISABLED")),
    "foreign, NEXT_STEP": (Foreign, dict(mode="NEXT_STEP")),
    "CartPole's own": (make_vec, dict(id="CartPole-v1")),
    "Pendulum": (make_vec, dict(id="Pendulum-v1")),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_batches_pass(name):
    report = check_env(*GOOD[name])
    assert not report.warnings, str(report)
    assert {*FOR_BATCHES, "final-observation", "seeding", "independence"} <= {*report.passed}


def test_envpool_passes():
    pytest.importorskip("envpool")
    report = check_env(make_envpool, dict(task_id="CartPole-v1"))
    assert {*FOR_BATCHES, "seeding"} <= {*report.passed}


def test_what_later_checks_need_is_found_out_although_it_is_skipped():
    with pytest.raises(ConformanceError, match=r"\[reset-rows\].*another row changed"):
        check_env(batched_walks.ResetsAll, skip=["seeding", "worker"])


class Below(gymnasium.Env):
    """Actions between two negative bounds."""

    observation_space = gymnasium.spaces.Box(-10, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-3, -1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.np_random.uniform(-1, 1, 1).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        observation = self.np_random.uniform(-1, 1, 1) + action
        return observation.astype(np.float32), float(action[0]), self.t == 7, False, {}


def test_bounds_of_actions_may_be_negative():
    batch = lambda: gymnasium.vector.SyncVectorEnv([Below] * 2)
    assert "action-check" in check_env(batch, **BRIEFLY).passed


def test_what_same_step_cannot_do_is_left_open():
    report = check_env(Foreign, dict(mode="SAME_STEP"))
    left_open = {f.check for f in report.findings if f.level == "open"}
    assert {"reset-rows", "waiting-rows", "autoreset"} <= left_open
    assert {"rows", "final-observation", "action-check"} <= {*report.passed}


def test_one_row_passes_and_its_independence_is_left_open():
    report = check_env(batched_walks.OneWalk)
    assert report.ok and "rows" not in report.passed and "waiting-rows" in report.passed


@pytest.mark.parametrize(
    ("declared", "mode", "pretend", "check", "what"),
    [
        # The info gives it away.
        ("SAME_STEP", "NEXT_STEP", False, "structure", "has no final_obs"),
        ("NEXT_STEP", "SAME_STEP", False, "structure", "final_obs .*SAME_STEP"),
        ("DISABLED", "SAME_STEP", False, "structure", "final_obs .*SAME_STEP"),
        # Only behaviour does.
        ("SAME_STEP", "NEXT_STEP", True, "final-observation", "was that of a reset"),
        ("NEXT_STEP", "SAME_STEP", True, "final-observation", "was that of a reset"),
        ("DISABLED", "SAME_STEP", True, "final-observation", "was that of a reset"),
        ("DISABLED", "NEXT_STEP", False, None, None),  # harmless: the mask clears it
    ],
)
def test_wrong_declarations_of_the_autoreset_mode_are_detected(
    declared, mode, pretend, check, what
):
    kwargs = dict(declared=declared, mode=mode, pretend=pretend)
    if check is None:
        assert check_env(Foreign, kwargs).ok
        return
    with pytest.raises(ConformanceError, match=rf"(?s)FAIL \[{check}\].*{what}"):
        check_env(Foreign, kwargs, **BRIEFLY)


class StillResets(Foreign):
    """NEXT_STEP under another name: resets a row once more that has just been reset by mask."""

    def step(self, actions):
        self.pretend = False  # what it shows in info is honest
        result = super().step(actions)
        self.pretend = True
        return result


@pytest.mark.parametrize("declared", ["NEXT_STEP", "DISABLED"])
def test_a_step_lost_to_a_hidden_reset_is_detected(declared):
    kwargs = dict(mode="NEXT_STEP", declared=declared, pretend=True)
    with pytest.raises(ConformanceError, match=r"\[autoreset\] .* row \d"):
        check_env(StillResets, kwargs, **BRIEFLY)


def test_an_undeclared_mode_is_refused():
    class Undeclared(Foreign):
        def __init__(self):
            super().__init__()
            self.metadata = {}

    with pytest.raises(ConformanceError, match=r"\[factory\].*autoreset mode"):
        check_env(Undeclared)


def only_timeout(envs, step):
    return vector_info()._make([step.env_info.timeout[:1], step.env_info.traj_done])


def flags_behind(envs, step):
    info = step.env_info
    Behind = namedarraytuple("Behind", ["place", "timeout", "traj_done"])
    return Behind(info.place, info.timeout, info.traj_done)


ERRORS = [
    (batched_walks.PlainTuple, "structure", r"returned tuple"),
    (batched_walks.SomeRowsShort, "observation", r"\(1, 2\); .*\(3, 2\)"),
    (changed(observation=lambda e, s: s.observation[:2]), "observation", r"expected \(3, 2\)"),
    (changed(observation=lambda e, s: s.observation * 9), "observation", r"outside the bounds"),
    (changed(reward=lambda e, s: s.reward.astype(float)), "reward", r"dtype float64"),
    (changed(reward=lambda e, s: list(s.reward)), "reward", r"is list"),
    (changed(done=lambda e, s: s.done.astype(int)), "done", r"dtype int64"),
    (changed(done=lambda e, s: s.done.any()), "done", r"shape \[3\]|bool"),
    (changed(env_info=lambda e, s: {}), "env-info", r"is a dict"),
    (changed(env_info=only_timeout), "env-info", r"leading dimension \[3\]"),
    (changed(env_info=flags_behind), "env-info", r"begins with timeout and traj_done"),
    (changed(env_info=lambda e, s: s.env_info._replace(timeout=~s.done)), "time-limit", "timeout"),
    (batched_walks.OneGenerator, "rows", r"another order"),
    (batched_walks.NeighboursMatter, "rows", r"another order"),
    (batched_walks.ResetsAll, "reset-rows", r"another row changed"),
    (batched_walks.SortsRows, "reset-rows", r"same order"),
    (batched_walks.NothingIsOneRow, "reset-rows", r"reset_rows\(\[\]\) returned"),
    (batched_walks.WaitingRowsGoOn, "waiting-rows", r"showed reward"),
    (batched_walks.WaitingRowsPay, "waiting-rows", r"showed reward 1.0"),
    (batched_walks.OthersWaitToo, "waiting-rows", r"the run of row \d was different"),
    (batched_walks.ItselfAtOnce, "final-observation", r"was that of a reset"),
    (batched_walks.Unchecked, "action-check", r"one row too many"),
    (batched_walks.Clips, "action-check", r"beyond the last"),
    (batched_walks.Asserts, "action-check", r"raised AssertionError"),
    (batched_walks.ChecksTooLate, "action-check", r"after actions were refused"),
    (batched_walks.Forgets, "statistics", r"does not give the same"),
    (batched_walks.GoesOnLearning, "statistics", r"still change"),
]


@pytest.mark.parametrize(
    ("make_env", "check", "what"), ERRORS, ids=[f"{i}-{case[1]}" for i, case in enumerate(ERRORS)]
)
def test_each_fault_is_reported(make_env, check, what):
    with pytest.raises(ConformanceError, match=rf"(?s)FAIL \[{check}\].*{what}"):
        check_env(make_env, **BRIEFLY)


def test_without_seeds_nothing_is_compared():
    report = examine_env(batched_walks.NeverSeeded)
    assert report.ok
    (left_open,) = [f for f in report.findings if f.level == "open"]
    assert left_open.check == "seeding" and "this hardware has no seed" in left_open.what
    assert not {*FOR_BATCHES} & {*report.passed}


def test_reset_rows_may_be_given_no_row_as_contract_says():
    assert len(Walks().reset_rows(np.zeros(0, np.int64))) == 0


def test_every_check_of_batches_is_shown_to_find_something():
    shown = {check for _, check, _ in ERRORS} | {"autoreset"}
    assert {*FOR_BATCHES, "statistics"} <= shown <= {*CHECKS}
