"""Atari on the emulator: frames, lives, time limit, seeds and exact state."""

import numpy as np
import pytest

ale_py = pytest.importorskip("ale_py")
cv2 = pytest.importorskip("cv2")

from rlpyt.envs.atari.atari_env import (
    ACTION_INDEX,
    ACTION_MEANING,
    AtariEnv,
    AtariTrajInfo,
    EnvInfo,
    rom_id,
)


def run(env, actions):
    """Step through the actions with resets; everything seen, as bytes."""
    seen = []
    for action in actions:
        observation, reward, done, info = env.step(action)
        seen.append((observation.tobytes(), reward, done, info))
        if info.traj_done:
            seen.append(env.reset().tobytes())
    return seen


def actions_for(env, n):
    return np.random.default_rng(0).integers(env.action_space.n, size=n)


def test_frames_are_the_downsampled_maximum_of_two_newest_last():
    env = AtariEnv("breakout", max_start_noops=0, num_img_obs=3)
    plain = ale_py.ALEInterface()
    plain.setFloat("repeat_action_probability", 0.0)
    plain.loadROM(ale_py.roms.get_rom_path("breakout"))
    plain.reset_game()
    names = list(plain.getMinimalActionSet())
    first = env.reset()
    assert first.shape == (3, 104, 80) and first.dtype == np.uint8
    assert first[2].any() and not first[:2].any()
    assert env.observation_space.shape == first.shape

    previous = first
    for action in (1, 2, 2, 3):
        for _ in range(3):
            plain.act(names[action])
        before = plain.getScreenGrayscale()
        plain.act(names[action])
        both = np.maximum(before, plain.getScreenGrayscale())[1:-1]
        blocks = both.reshape(104, 2, 80, 2).astype(float).mean((1, 3))
        observation = env.step(action).observation
        assert np.abs(observation[2] - blocks).max() <= 0.5  # rounding
        assert (observation[:2] == previous[1:]).all()
        assert (env.get_obs() == observation).all() and observation is not previous
        previous = observation


def test_reward_is_the_sign_of_the_game_score():
    env, raw = (AtariEnv("asterix", clip_reward=clip, seed=1) for clip in (True, False))
    env.reset(), raw.reset()
    scores, traj_info = [], AtariTrajInfo()
    for action in actions_for(env, 40):
        step, raw_step = env.step(action), raw.step(action)
        scores.append(step.env_info.game_score)
        assert step.reward == np.sign(scores[-1]) and raw_step.reward == scores[-1]
        assert type(step.reward) is float and type(step.done) is bool
        traj_info.step(None, action, step.reward, step.done, None, step.env_info)
        if step.env_info.traj_done:
            break
    assert max(scores) > 1  # there was something to clip
    assert traj_info.GameScore == sum(scores) and traj_info.Return == np.sign(scores).sum()
    assert traj_info.Length == len(scores)


def test_a_lost_life_ends_the_return_and_not_the_game():
    env = AtariEnv("breakout", fire_on_reset=True, seed=0)
    env.reset()
    kinds = []
    while len(kinds) < 5:
        observation, _, done, info = env.step(0)  # never moves: loses all five lives
        if done:
            kinds.append(info.traj_done)
            history = observation[:-1].any()
            assert history == info.traj_done  # a new life starts with an empty history
            assert not info.timeout
    assert kinds == [False] * 4 + [True]

    env = AtariEnv("breakout", fire_on_reset=True, seed=0, episodic_lives=False)
    env.reset()
    step = env.step(0)
    while not step.done:
        assert step.observation.any()
        step = env.step(0)
    assert step.env_info.traj_done and env.ale.lives() == 0


def test_horizon_is_exact_and_timeout_says_so():
    env = AtariEnv("pong", horizon=7)
    assert env.horizon == 7
    for _ in range(2):
        env.reset()
        steps = [env.step(0) for _ in range(7)]
        assert [s.done for s in steps] == [False] * 6 + [True]
        assert [s.env_info for s in steps] == [EnvInfo(0.0, False, False)] * 6 + [
            EnvInfo(0.0, True, True)
        ]


def test_a_life_lost_with_the_last_step_is_no_timeout():
    env = AtariEnv("breakout", fire_on_reset=True, max_start_noops=0)
    env.reset()
    steps = 1
    while not env.step(0).done:
        steps += 1
    limited = AtariEnv("breakout", fire_on_reset=True, max_start_noops=0, horizon=steps)
    limited.reset()
    last = [limited.step(0) for _ in range(steps)][-1]
    assert last.done and last.env_info.traj_done and not last.env_info.timeout


def test_seeds_decide_noops_and_sticky_actions():
    kwargs = dict(game="breakout", repeat_action_probability=0.25, frame_skip=2)
    env, other = AtariEnv(**kwargs, seed=1), AtariEnv(**kwargs, seed=1)
    actions = actions_for(env, 20)
    streams = []
    for e, seed in ((env, None), (other, None), (env, 2), (other, 2), (other, 3)):
        if seed is not None:
            e.seed(seed)
        e.reset()
        streams.append(run(e, actions))
    assert streams[0] == streams[1] and streams[2] == streams[3]
    assert streams[0] != streams[2] != streams[4]


def test_a_seed_undoes_what_was_played():
    env, fresh = AtariEnv("assault"), AtariEnv("assault")  # its second game differs from the first
    env.reset()
    run(env, actions_for(env, 10))
    streams = []
    for e in (env, fresh):
        e.seed(4)
        e.reset()
        streams.append(run(e, actions_for(e, 30)))
    assert streams[0] == streams[1]


class Recorder:
    """The emulator, keeping the names of the actions it was given."""

    def __init__(self, ale):
        self.ale, self.taken = ale, []

    def __getattr__(self, name):
        return getattr(self.ale, name)

    def act(self, action):
        self.taken.append(action.name)
        return self.ale.act(action)


@pytest.mark.parametrize("probability, least, most", [(0.0, 0, 0), (0.5, 10, 40), (1.0, 100, 100)])
def test_sticky_actions_hold_the_previous_action(probability, least, most):
    env = AtariEnv("pong", repeat_action_probability=probability, seed=0, max_start_noops=0)
    env.reset()
    env.ale = recorder = Recorder(env.ale)
    if probability == 0:
        env._act = recorder.act
    meant = []
    for index in range(25):
        env.step(2 + index % 2)
        meant += [env.get_action_meanings()[2 + index % 2]] * 4
    held = sum(taken != name for taken, name in zip(recorder.taken, meant, strict=True))
    # In each step of four frames, 0.5 + 0.25 + 0.125 + 0.0625 are expected to hold: 23 in 100.
    assert least <= held <= most
    assert probability < 1 or set(recorder.taken) == {"NOOP"}


class ShortGame:
    """An emulator whose game is over after three frames; counts resets."""

    def __init__(self, ale):
        self.ale, self.frames, self.resets = ale, 0, 0

    def __getattr__(self, name):
        return getattr(self.ale, name)

    def reset_game(self):
        self.frames, self.resets = 0, self.resets + 1

    def act(self, action):
        assert self.frames < 3, "stepped a finished game"
        self.frames += 1
        return 0

    def game_over(self):
        return self.frames >= 3


def test_start_noops_respect_game_over_and_their_limit():
    env = AtariEnv("pong", max_start_noops=10, seed=0)
    env.ale = game = ShortGame(env.ale)
    env._act = game.act
    counts = set()
    for _ in range(200):
        before = game.resets
        env.reset()
        counts.add((game.resets - before - 1) * 3 + game.frames)
    assert counts == set(range(11))


@pytest.mark.parametrize("game", ["qbert", "pong"])  # qbert is the touchy one
@pytest.mark.parametrize("steps_before", [0, 23])
def test_a_restored_game_goes_on_bit_for_bit(game, steps_before):
    kwargs = dict(game=game, repeat_action_probability=0.25, horizon=45)
    env, fresh = AtariEnv(**kwargs, seed=1), AtariEnv(**kwargs, seed=2)
    actions = actions_for(env, 73)
    env.reset()
    if steps_before == 0:
        run(env, actions[:5])
        env.reset()
    run(env, actions[:steps_before])
    state = env.get_state()
    expected = run(env, actions[steps_before : steps_before + 50])
    assert state["ale"].dtype == np.uint8
    for _ in range(2):  # into a fresh one, and into one that has played
        fresh.set_state(state)
        assert run(fresh, actions[steps_before : steps_before + 50]) == expected


def test_a_state_of_another_game_is_refused():
    state = AtariEnv("breakout").get_state()
    with pytest.raises(ValueError, match="'pong'.*got 'breakout'"):
        AtariEnv("pong").set_state(state)
    with pytest.raises(ValueError, match=r"\(2, 104, 80\).*\(4, 104, 80\)"):
        AtariEnv("breakout", num_img_obs=2).set_state(state)
    with pytest.raises(TypeError, match="next_seed"):
        AtariEnv("breakout").set_state({**state, "next_seed": 1.5})


def test_options_for_size_colour_and_actions(capfd):
    env = AtariEnv("pong", frame_shape=(84, 84), num_img_obs=2, full_action_set=True)
    assert env.reset().shape == (2, 84, 84) and env.action_space.n == 18
    assert env.get_action_meanings() == [ACTION_MEANING[i] for i in range(18)]
    env = AtariEnv("pong", grayscale=False, num_img_obs=2)
    observation = env.reset()
    assert observation.shape == env.observation_space.shape == (6, 104, 80)
    assert observation[3:].any() and not observation[:3].any()
    red = env.ale.getScreenRGB()[1:-1, :, 0].reshape(104, 2, 80, 2).mean((1, 3))
    assert np.abs(observation[3] - red).max() <= 0.5
    assert env.get_action_meanings()[:2] == ["NOOP", "FIRE"] and ACTION_INDEX["FIRE"] == 1
    assert env.render(mode="rgb_array").shape == (210, 160, 3)
    assert (env.render("rgb_array") == env.ale.getScreenRGB()).all()
    assert capfd.readouterr() == ("", "")  # the emulator is silent


class Square(AtariEnv):
    """A game with frames of another size and its own resets, in the form of rlpyt's (2019)."""

    def __init__(self, size, fire_on_reset):
        self._game, self._frame_skip, self._num_img_obs = "breakout", 4, 3
        self._clip_reward = self._episodic_lives = True
        self._fire_on_reset, self._max_start_noops, self._horizon = fire_on_reset, 0, 1000
        self._repeat_action_probability = 0.0
        self.ale = ale_py.ALEInterface()
        self.ale.loadROM(ale_py.roms.get_rom_path("breakout"))
        self._action_set = self.ale.getMinimalActionSet()
        self._raw_frame_1 = self.ale.getScreenGrayscale()
        self._raw_frame_2, self._max_frame = np.zeros((2, *self._raw_frame_1.shape), np.uint8)
        self._obs = np.zeros((3, size, size), np.uint8)
        self.n_life_resets = 0
        self.reset()

    def reset(self):
        self.ale.reset_game()
        self._reset_obs()
        self._life_reset()
        self._update_obs()
        self._step_counter = 0
        return self.get_obs()

    def fire_and_up(self):
        self.ale.act(1)

    def _life_reset(self):
        self.ale.act(0)
        if self._fire_on_reset:
            self.fire_and_up()
        self._lives = self.ale.lives()
        self.n_life_resets += 1


class Resized(Square):
    def _update_obs(self):
        self._get_screen(2)
        np.maximum(self._raw_frame_1, self._raw_frame_2, out=self._max_frame)
        image = cv2.resize(self._max_frame, self._obs.shape[:0:-1], None, 0, 0, cv2.INTER_AREA)
        self._obs = np.concatenate([self._obs[1:], image[None]])


class CheckingLives(Resized):
    def _check_life(self):
        lost = 0 < self.ale.lives() < self._lives
        if lost:
            self._life_reset()
        return lost


class Firing(AtariEnv):
    def fire_and_up(self):  # without a score, as that of rlpyt (2019)
        self.ale.act(1)


@pytest.mark.parametrize("fire", [True, False])
@pytest.mark.parametrize("cls", [Square, Resized, CheckingLives])
def test_subclasses_for_rlpyt_have_frames_and_resets_of_their_own(cls, fire):
    env = cls(84, fire)
    for observation in (env.reset(), lose_a_life(env)):
        assert observation.shape == (3, 84, 84)
        assert observation[2].any() and not observation[:2].any()
    assert env.n_life_resets == 3  # of two games and a life
    env.set_state(env.get_state())
    assert env.step(1).observation.shape == (3, 84, 84)


def lose_a_life(env):
    step = env.step(1)
    while not step.done:
        step = env.step(1)
    assert not step.env_info.traj_done
    return step.observation


def test_a_life_may_be_started_without_a_score():
    env = Firing("breakout", fire_on_reset=True)
    env.reset()
    assert lose_a_life(env)[-1].any()


def test_arguments_are_documented_properties():
    env = AtariEnv("pong", 3, 2, False, False, True, 5, 0.25, 99)
    assert (env.game, env.frame_skip, env.num_img_obs, env.clip_reward) == ("pong", 3, 2, False)
    assert (env.episodic_lives, env.max_start_noops) == (False, 5)
    assert (env.repeat_action_probability, env.horizon) == (0.25, 99)


@pytest.mark.parametrize(
    "name, rom",
    [
        ("pong", "pong"),
        ("Pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("SpaceInvaders-ram-v0", "space_invaders"),
        ("space_invaders", "space_invaders"),
    ],
)
def test_a_game_has_many_names(name, rom):
    assert rom_id(name) == rom


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="game 'brekout'; .*breakout"):
        AtariEnv("brekout")
    for name, value in dict(
        frame_skip=0, num_img_obs=1.5, max_start_noops=-1, horizon=0, repeat_action_probability=1.5
    ).items():
        with pytest.raises((ValueError, TypeError), match=f"{name}={value} "):
            AtariEnv("pong", **{name: value})
    env = AtariEnv("pong", frame_skip=4.0, num_img_obs=2.0, max_start_noops=30.0, horizon=27e3)
    assert env.reset().shape == (2, 104, 80) and env.horizon == 27_000
    env = AtariEnv("pong")
    env.reset()
    for action in (6, -1, 99):
        with pytest.raises(ValueError, match=rf"action {action} .*'pong' .*\[0, 6\)"):
            env.step(action)


def test_missing_packages_say_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cv2", None)
    with pytest.raises(ImportError, match=r"AtariEnv .* opencv-python-headless\. .*\[atari\]'"):
        AtariEnv("pong")
