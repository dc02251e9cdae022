"""MinAtar's games, registered when first asked for."""

import sys

import gymnasium
import numpy as np
import pytest

from rlpyt.envs.gym import make
from rlpyt.experiments.build import env_recipe
from rlpyt.experiments.video import MIN_SIDE, enlarged
from rlpyt.vis.images import picture_of

CHANNELS = dict(Asterix=4, Breakout=4, Freeway=7, Seaquest=10, SpaceInvaders=6)


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)  # import minatar now raises
    for make_env in (make, env_recipe):
        with pytest.raises(ImportError, match=r"MinAtar/Breakout-v1 .*\[minatar\]'"):
            make_env("MinAtar/Breakout-v1")


@pytest.mark.parametrize("game", CHANNELS)
def test_games_give_their_channels_first(game):
    pytest.importorskip("minatar")
    recipe = env_recipe(f"MinAtar/{game}-v1")
    assert recipe.family == "minatar"
    env = recipe.make(render=True)
    observation = env.reset()
    assert observation.shape == env.observation_space.shape == (CHANNELS[game], 10, 10)
    assert observation.dtype == env.observation_space.dtype == bool
    assert not env.step(0).env_info.timeout
    picture = picture_of(env)
    assert picture.shape == (10, 10, 3) and picture.dtype == np.uint8 and picture.max() > 50


def test_the_users_arguments_win():
    pytest.importorskip("minatar")
    args = dict(channels_first=False, sticky_action_prob=0.0)
    env = env_recipe("MinAtar/Breakout-v1", args).make()
    assert env.reset().shape == (10, 10, 4)
    assert env.unwrapped.game.sticky_action_prob == 0.0


def test_seeds_give_the_same_game():
    pytest.importorskip("minatar")
    seen = []
    for _ in range(2):
        env = make("MinAtar/SpaceInvaders-v1", channels_first=True)
        env.seed(2**31 + 5)
        seen.append([env.reset()])
        seen[-1] += [env.step(k % 4).observation for k in range(50)]
    assert (np.stack(seen[0]) == np.stack(seen[1])).all()


def test_unknown_games_get_the_nearest():
    pytest.importorskip("minatar")
    with pytest.raises(ValueError, match="'MinAtar/Asterisk-v1'; .*Asterix"):
        make("MinAtar/Asterisk-v1")
    assert "MinAtar/Asterix-v1" in gymnasium.registry


def test_small_pictures_are_enlarged_pixel_by_pixel():
    picture = np.arange(10 * 12 * 3, dtype=np.uint16).reshape(10, 12, 3)
    large = enlarged(picture)
    assert large.shape == (MIN_SIDE, 192, 3)
    assert (large[::16, ::16] == picture).all() and (large[15::16, 15::16] == picture).all()
    full = np.zeros((210, 160, 3), np.uint8)
    assert enlarged(full) is full
