"""An agent meets an environment with other spaces than it was trained with."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiDiscrete

import rlpyt
from rlpyt.errors import DamagedFile
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.record import check_spaces, record_of

FORM = {"names": ["position", "velocity"], "high": 1.0, "seen": 5.0}


class Changeable(gymnasium.Env):
    """Two vectors of observations, in the form that ``FORM`` says at present."""

    def __init__(self):
        low, high = -FORM["high"], FORM["high"]
        box = gymnasium.spaces.Box(-5, FORM["seen"], (2,), np.float32)
        # Pairs keep their order; a dictionary would be sorted.
        self.observation_space = gymnasium.spaces.Dict([(name, box) for name in FORM["names"]])
        self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        return self._seen(), float(action[0]), False, self.t == 5, {}

    def _seen(self):
        space = self.observation_space
        return {name: np.ones(box.shape, box.dtype) for name, box in space.items()}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("spaces") / "run"
    return rlpyt.train("ppo", Changeable, **small(), run_dir=path).path


def small():
    return {
        "steps": 32,
        "log_interval_steps": 32,
        "algo": {"minibatches": 2, "epochs": 1},
        "sampler": {"kind": "serial", "batch_T": 8, "batch_B": 2, "max_decorrelation_steps": 0},
    }


def uses(run_dir, tmp_path):
    """The ways in which an agent and an environment come together."""
    return {
        "load": lambda: rlpyt.load(run_dir, env=Changeable),
        "resume": lambda: rlpyt.train(
            "ppo", Changeable, **{**small(), "steps": 64}, run_dir=run_dir, resume=True
        ),
        "init_from": lambda: rlpyt.train(
            "ppo", Changeable, **small(), run_dir=tmp_path / "new", init_from=str(run_dir)
        ),
    }


@pytest.mark.parametrize("use", ["load", "resume", "init_from"])
def test_parts_in_another_order_are_refused(use, trained, tmp_path, monkeypatch):
    monkeypatch.setitem(FORM, "names", ["velocity", "position"])
    with pytest.raises(ValueError, match="position, observation.velocity.*velocity, observation"):
        uses(trained, tmp_path)[use]()


@pytest.mark.parametrize(
    "use,bound,part",
    [(use, "high", "action") for use in ("load", "init_from", "resume")]
    + [("load", "seen", "observation.position"), ("resume", "seen", "observation.velocity")],
)
def test_other_bounds_are_told_once(use, bound, part, tmp_path, monkeypatch):
    """Those of observations tell of a normalizing wrapper that is missing."""
    run_dir = rlpyt.train("ppo", Changeable, **small(), run_dir=tmp_path / "run").path
    before, now = FORM[bound], FORM[bound] + 1
    monkeypatch.setitem(FORM, bound, now)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        uses(run_dir, tmp_path)[use]()
    texts = [str(w.message) for w in caught if f"high of {part}" in str(w.message)]
    # A vector of equal bounds is written as one number, but one of one number in brackets.
    numbers = texts[0].replace("[", "").replace("]", "")
    assert len(texts) == 1 and f"is {now}, but was {before} when" in numbers


def test_equal_spaces_are_taken_in_silence_also_of_an_older_version(trained, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uses(trained, tmp_path)["load"]()
    check_spaces(None, rlpyt.load(trained).agent.env_spaces, "x")
    saved = torch.load(trained / "params.pkl", weights_only=True)
    assert [x["name"] for x in saved["spaces"]["observation"]] == [
        "observation.position",
        "observation.velocity",
    ]


def test_numbers_of_another_kind_and_damaged_records_are_named(trained, monkeypatch):
    spaces = rlpyt.load(trained).agent.env_spaces
    saved = record_of(spaces)
    saved["observation"][1]["dtype"] = "unsigned integer"
    with pytest.raises(ValueError, match="dtype of observation.velocity is float, but was unsig"):
        check_spaces(saved, spaces, "the agent")
    made = [GymSpaceWrapper(MultiDiscrete(n), 0, "action") for n in ([2, 3], [3, 2])]
    choices = [spaces._replace(action=space) for space in made]
    with pytest.raises(ValueError, match=r"choices of action is \[3, 2\], but was \[2, 3\]"):
        check_spaces(record_of(choices[0]), choices[1], "the agent")
    for damaged in ({"observation": 3}, [1], {"observation": [], "action": [{}]}, "text"):
        with pytest.raises(DamagedFile, match="the agent"):
            check_spaces(damaged, spaces, "the agent")


def test_the_best_agent_of_a_run_without_an_ended_episode(tmp_path):
    run_dir = tmp_path / "run"
    rlpyt.train("ppo", "Pendulum-v1", **small(), run_dir=run_dir, keep_best=True)
    with pytest.raises(FileNotFoundError, match="no episode has ended"):
        rlpyt.load(run_dir, best=True)
