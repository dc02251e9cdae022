"""Subclasses of ``AtariEnv`` that choose their actions or their emulator themselves."""

import numpy as np
import pytest

ale_py = pytest.importorskip("ale_py")

from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.spaces.int_box import IntBox

FAST = dict(max_start_noops=0, num_img_obs=1)


class FewActions(AtariEnv):
    """NOOP, RIGHT and LEFT as plain integers."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._action_set = np.array([0, 3, 4])
        self._action_space = IntBox(low=0, high=len(self._action_set))


class OwnEmulator(FewActions):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.ale = self.own = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(ale_py.roms.get_rom_path("pong"))


def play(env, actions):
    env.seed(1)
    env.reset()
    return np.stack([env.step(a).observation for a in actions])


@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("EnvCls", [FewActions, OwnEmulator])
def test_own_actions_and_emulators_play_as_the_ready_ones(EnvCls, sticky):
    kwargs = dict(game="pong", repeat_action_probability=sticky, **FAST)
    env, ready = EnvCls(**kwargs), AtariEnv(full_action_set=True, **kwargs)
    assert env.get_action_meanings() == ["NOOP", "RIGHT", "LEFT"]
    assert (play(env, [1, 1, 2, 0]) == play(ready, [3, 3, 4, 0])).all()
    emulator = env.ale
    play(env, [1])  # seeded again, after a game
    assert EnvCls is not OwnEmulator or env.ale is emulator
    saved = env.get_state()
    after = env.step(1).observation
    env.set_state(saved)
    assert (env.step(1).observation == after).all()
