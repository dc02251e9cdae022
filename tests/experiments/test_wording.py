"""Messages about runs and their settings, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest

import rlpyt
from rlpyt.experiments.api import options_of
from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.config import Config, Grid
from rlpyt.experiments.presets.families import layers
from rlpyt.utils.names import UnknownName
from tests.wording import check

MESSAGES = {
    "type of a setting": (
        TypeError,
        lambda: options_of("ppo", "CartPole-v1", batch_B="many"),
        "sampler.batch_B='many' must be a whole number.",
    ),
    "preset": (
        UnknownName,
        lambda: options_of("ppo", "CartPole-v1", preset="none"),
        "unknown preset 'none'. Known: atari, classic, minatar, mujoco.",
    ),
    "setting of several parts": (
        ValueError,
        lambda: options_of("r2d1", "CartPole-v1", batch_T=2),
        (
            "batch_T is a setting of several parts. Give algo=dict(batch_T=...) or "
            "sampler=dict(batch_T=...)."
        ),
    ),
    "class of an algorithm": (
        ValueError,
        lambda: options_of("os:path", "CartPole-v1"),
        "algorithm='os:path' must not be a part of the standard module os.",
    ),
    "algorithm for other environments": (
        ValueError,
        lambda: layers("td3", "pong", "atari"),
        (
            "td3 is for continuous actions of vector environments, but atari has images and "
            "discrete actions. Use a2c, ppo, vtrace, impala, dqn, catdqn, rainbow, qrdqn, iqn, "
            "pqn, r2d1, or another preset."
        ),
    ),
    "function of a library": (
        ValueError,
        lambda: env_recipe("subprocess:Popen"),
        (
            "env='subprocess:Popen' must name an environment class, or a custom function that "
            "returns an environment, got a part of the standard module subprocess. Call "
            "functions of installed packages in a function of your module, and give "
            "module:function."
        ),
    ),
    "missing run": (
        FileNotFoundError,
        lambda: rlpyt.load("absent"),
        "run directory not found: 'absent'.",
    ),
    "grid without values": (
        ValueError,
        lambda: Config({"a": Grid([])}),
        "a: Grid has no values. Give at least one, or remove a.",
    ),
    "reserved name": (
        ValueError,
        lambda: Config({"ID": 2}),
        "'ID' is set by make_configs. Rename the item.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(*MESSAGES[name])
