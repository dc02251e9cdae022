"""Films of agents: read again, picture by picture."""

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import time
from collections import namedtuple
from functools import partial

import gymnasium
import numpy as np
import pytest

from rlpyt.agents.dqn.vector import dqn_agent_for
from rlpyt.agents.pg.vector import agent_for
from rlpyt.agents.random import RandomAgent
from rlpyt.envs.gym import GymEnvWrapper, make
from rlpyt.envs.toy import CountEnv
from rlpyt.experiments import video
from rlpyt.experiments.video import MAX_WIDTH, follow_agent, record_agent
from rlpyt.vis.images import CAPTION_HEIGHT
from tests.masked_env import MaskedEnv
from tests.parts import EchoAgent

imageio = pytest.importorskip("imageio.v2")
pytest.importorskip("imageio_ffmpeg")
pygame = pytest.importorskip("pygame")

SIDE = 160


class Shade(CountEnv):
    """Shows how far the episode is: 40 at its beginning, 30 brighter with every step."""

    metadata = {"render_fps": 10}

    def render(self):
        return np.full((SIDE, SIDE, 3), 40 + 30 * self._t, np.uint8)


def still(observation):
    return 0


class Wandering(Shade):
    """Changes the working directory and seeds the global generators."""

    def reset(self):
        os.chdir("/")
        np.random.seed(0)
        return super().reset()


def read(path):
    with imageio.get_reader(path) as film:
        return [np.asarray(picture)[..., :3].astype(int) for picture in film]


def lengths(*lengths):
    """A factory of environments; the episodes of the n-th all last ``lengths[n]`` steps."""
    left = list(lengths)
    return lambda: Shade(length=left.pop(0), fixed=True)


def middles(pictures, row=0, column=0, captions=False):
    """Brightness in the middle of one place of the grid, in each picture."""
    bar = CAPTION_HEIGHT if captions else 0
    y = row * (SIDE + bar + 2) + bar + SIDE // 2
    x = column * (SIDE + 2) + SIDE // 2
    return [int(picture[y, x, 0]) for picture in pictures]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_one_episode_after_the_other(tmp_path, suffix):
    path = tmp_path / f"film{suffix}"
    n = record_agent(still, lengths(3), path, episodes=2, captions=False)
    pictures = read(path)
    assert n == len(pictures) == 2 * (3 + 1) and pictures[0].shape == (SIDE, SIDE, 3)
    np.testing.assert_allclose(middles(pictures), 2 * [40, 70, 100, 130], atol=4)


@pytest.mark.parametrize("kind", ["policy", "dqn"])
def test_masked_agents_play_valid_actions(kind, tmp_path):
    def make(**kwargs):
        return GymEnvWrapper(MaskedEnv(**kwargs))  # refuses invalid actions

    spaces, path = make().spaces, tmp_path / "film.gif"
    agent = agent_for(spaces) if kind == "policy" else dqn_agent_for(kind, spaces)
    n = record_agent(agent, make, path, episodes=5, grid=(1, 2), captions=False)
    assert n == len(read(path)) >= 2 * 4
    with pytest.raises(ValueError, match="environment 0: action_mask"):
        record_agent(agent, lambda: make(fault="empty", fault_at=1, length=20), path)


def test_a_video_has_the_frame_rate_of_its_environment(tmp_path):
    record_agent(still, lengths(3), tmp_path / "film.mp4")
    assert imageio.get_reader(tmp_path / "film.mp4").get_meta_data()["fps"] == 10
    record_agent(still, lengths(3), tmp_path / "film.gif")
    assert imageio.get_reader(tmp_path / "film.gif").get_meta_data()["duration"] == 100
    record_agent(still, lengths(3), tmp_path / "film.gif", fps=125)
    assert imageio.get_reader(tmp_path / "film.gif").get_meta_data()["duration"] == 20


def test_an_environment_that_changes_the_directory_keeps_the_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.random.seed(5)
    record_agent(still, lambda: Wandering(length=2, fixed=True), "own.gif", episodes=1)
    assert os.getcwd() == str(tmp_path) and (tmp_path / "own.gif").exists()
    assert np.random.rand() == np.random.RandomState(5).rand()


def test_a_grid_plays_until_no_episode_is_left(tmp_path):
    # Places 0 and 1 begin episodes 1 and 2; place 0 ends first and begins the third.
    path = tmp_path / "film.gif"
    n = record_agent(still, lengths(2, 4), path, episodes=3, grid=(1, 2), captions=False)
    pictures = read(path)
    assert n == len(pictures) == 6
    assert pictures[0].shape == (SIDE + 4, 2 * (SIDE + 2) + 2, 3)
    left, right = middles(pictures), [int(p[SIDE // 2, SIDE + 90, 0]) for p in pictures]
    np.testing.assert_allclose(left, [40, 70, 100, 40, 70, 100], atol=4)
    np.testing.assert_allclose(right, [40, 70, 100, 130, 160, 80], atol=4)  # dimmed at the end


def test_cells_without_an_episode_stay_black(tmp_path):
    record_agent(still, lengths(1, 1, 1), tmp_path / "f.gif", episodes=3, grid=(2, 2))
    (first, last) = read(tmp_path / "f.gif")
    assert first.shape == (2 * (SIDE + CAPTION_HEIGHT + 2) + 2, 2 * (SIDE + 2) + 2, 3)
    assert middles([last], 1, 0, captions=True) == [70]
    assert last[-SIDE // 2 :, -SIDE // 2 :].max() == 0


def test_a_video_ends_after_max_steps(tmp_path):
    assert record_agent(still, lengths(50), tmp_path / "film.mp4", max_steps=7) == 7
    assert len(read(tmp_path / "film.mp4")) == 7


def test_sides_are_even_and_wide_grids_are_shrunk(tmp_path):
    class Wide(Shade):
        def render(self):
            return np.zeros((201, 901, 3), np.uint8)

    make = lambda: Wide(length=1, fixed=True)
    record_agent(still, make, tmp_path / "one.mp4", captions=False)
    assert read(tmp_path / "one.mp4")[0].shape == (202, 902, 3)
    record_agent(still, make, tmp_path / "four.mp4", episodes=4, grid=(1, 4))
    height, width, _ = read(tmp_path / "four.mp4")[0].shape
    assert width <= MAX_WIDTH and width % 2 == height % 2 == 0


def test_actions_come_from_the_agent_with_the_episodes_own_memory(tmp_path):
    """A remembering agent acts in a grid as it does alone."""
    played = []

    class Noting(Shade):
        def step(self, action):
            self.actions.append(int(action))
            return super().step(action)

        def reset(self):
            self.actions = []
            played.append(self.actions)
            return super().reset()

    make = lambda: Noting(length=4, fixed=True)
    record_agent(EchoAgent(), make, tmp_path / "f.gif", episodes=5, grid=(1, 2))
    # memory 0, 1, 2, 3 plus the action before, modulo 3, whatever ran beside it
    assert played == [[0, 1, 0, 0]] * 5


def test_named_environments_and_single_ones(tmp_path):
    agent = RandomAgent()
    n = record_agent(agent, "CartPole-v1", tmp_path / "a.mp4", episodes=2, grid=(1, 2), max_steps=4)
    assert n == 4 and read(tmp_path / "a.mp4")[0].shape == (422, 1206, 3)  # of 400 x 600
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    assert record_agent(lambda o: 0, env, tmp_path / "b.mp4", max_steps=3) == 3
    assert env.render().shape == (400, 600, 3)  # still open
    env.close()


def test_episodes_start_from_their_seeds(tmp_path):
    seen = []

    class Seeded(Shade):
        def seed(self, seed):
            seen.append(seed)
            super().seed(seed)

    make = lambda: Seeded(length=2, fixed=True)
    record_agent(still, make, tmp_path / "film.gif", episodes=3, seed=7)
    assert seen == [7, 8, 9]


def test_bad_requests_leave_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"film\.avi .*\.mp4, \.gif"):
        record_agent(still, Shade, tmp_path / "film.avi")
    with pytest.raises(ValueError, match="episodes=0"):
        record_agent(still, Shade, tmp_path / "film.mp4", episodes=0)
    with pytest.raises(ValueError, match="function that makes"):
        record_agent(still, Shade(), tmp_path / "film.mp4", episodes=2, grid=(1, 2))
    with pytest.raises(ValueError, match="method render"):
        record_agent(still, CountEnv, tmp_path / "film.mp4")
    with pytest.raises(ValueError, match="an agent"):
        record_agent(3, Shade, tmp_path / "film.mp4")
    assert not list(tmp_path.iterdir())


def test_captions_say_number_steps_and_return():
    episode = video._Episode(3, np.zeros((1, 1, 3), np.uint8), 12, 1234.56, done=True)
    assert episode.caption == "#3  step 12  return 1.2346k  end"


class Scoring(Shade):
    """Has scores of 10 a step, of which rewards are clipped to 1."""

    def step(self, action):
        step = super().step(action)
        info = namedtuple("Info", [*step.env_info._fields, "game_score"])(*step.env_info, 10.0)
        return step._replace(reward=1.0, env_info=info)


def test_returns_of_games_are_their_scores():
    env = Scoring(length=3, fixed=True)
    actor = video._actor(still, [env], deterministic=True, itr=0)
    shown = [(row.steps, row.return_) for (row,) in video._play([env], actor, episodes=1, seed=0)]
    assert shown == [(0, 0.0), (1, 10.0), (2, 20.0), (3, 30.0)]


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_video_that_cannot_be_completed_is_named_and_keeps_the_old_one(suffix, tmp_path, capfd):
    path = tmp_path / f"film{suffix}"
    path.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (512, limits[1]))  # for ffmpeg, too
    try:
        with pytest.raises(OSError, match=rf"film\{suffix}"):
            record_agent(still, partial(Shade, 5), path, episodes=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    gc.collect()
    assert "Traceback" not in capfd.readouterr().err
    assert [(file, file.read_text()) for file in tmp_path.iterdir()] == [(path, "old")]


def test_a_failed_video_leaves_no_file(tmp_path):
    def act(observation):
        raise ZeroDivisionError("the agent is lost")

    with pytest.raises(ZeroDivisionError):
        record_agent(act, "CartPole-v1", tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [dict(fps=0), dict(grid="2x2"), dict(grid=(0, 1))])
def test_invalid_arguments_are_refused(wrong, tmp_path):
    with pytest.raises((TypeError, ValueError), match="|".join(wrong)):
        record_agent(lambda x: 0, "CartPole-v1", tmp_path / "film.gif", **wrong)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "camera"),
    [
        ("HalfCheetah-v5", {}, 0),  # "track", the only camera of the model
        ("HalfCheetah-v5", {"camera_id": -1}, -1),
        ("Hopper-v5", {}, -1),  # its free camera has a body to follow
    ],
)
def test_the_camera_follows_the_agent_unless_another_is_chosen(env_id, kwargs, camera):
    pytest.importorskip("mujoco")
    env = make(env_id, render_mode="rgb_array", **kwargs)
    follow_agent(env)
    assert env.unwrapped.mujoco_renderer.camera_id == camera
    env.close()


def test_environments_without_mujoco_have_no_camera():
    follow_agent(object())


def ends_by_sigterm(window):
    pygame.quit()
    os.environ.pop("SDL_NO_SIGNAL_HANDLERS", None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with window():
        os.environ["SDL_VIDEODRIVER"] = "dummy"
        pygame.display.init()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.2)


def test_sigterm_ends_a_recording_in_which_pygame_draws():
    fork = multiprocessing.get_context("fork")
    codes = []
    for window in (video._without_window, contextlib.nullcontext):
        child = fork.Process(target=ends_by_sigterm, args=(window,))
        child.start()
        child.join()
        codes.append(child.exitcode)
    assert codes == [-signal.SIGTERM, 0]
