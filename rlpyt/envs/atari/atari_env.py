"""Atari games for reinforcement learning, directly on the emulator (ale-py's ``ALEInterface``).

The emulator takes about 90 % of a step's time: screens, maximum and downsampled frame are written
to arrays allocated once.
"""

import inspect
from collections import namedtuple
from collections.abc import Mapping
from typing import Any, SupportsInt

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.atari.games import (  # noqa: F401 - action names are imported from here in rlpyt
    ACTION_INDEX,
    ACTION_MEANING,
    import_extra,
    rom_id,
)
from rlpyt.envs.base import Env, EnvStep
from rlpyt.envs.state import pack_rng, set_rng
from rlpyt.envs.traj_info import TrajInfo
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.checks import whole_number
from rlpyt.utils.old_names import OldName
from rlpyt.utils.seed import saved_seed

W, H = (80, 104)  # half the screen, cropped by one row above and below
Frame = NDArray[np.uint8]

# Attributes that the constructor sets, and rlpyt's (2019) did not.
OWN_ATTRIBUTES = frozenset(
    f"_{name}"
    for name in (
        *("action_type", "cv2", "frame_1", "frame_2", "frame_channels", "grayscale", "has_played"),
        *("held", "kept_rows", "lives", "loaded", "next_seed", "noop", "rng", "small_frame"),
        *("start_actions", "step_counter"),
    )
)

EnvInfo = namedtuple("EnvInfo", ["game_score", "traj_done", "timeout"])


class AtariTrajInfo(TrajInfo):
    """Trajectory statistics with ``GameScore``, the sum of rewards before clipping.

    With episodic lives a trajectory still lasts to the end of the game.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.GameScore = 0.0

    def step(
        self,
        observation: Any,
        action: Any,
        reward: float,
        done: bool,
        agent_info: Any,
        env_info: Any,
    ) -> None:
        """Add one step to the statistics."""
        super().step(observation, action, reward, done, agent_info, env_info)
        raw = getattr(env_info, "raw_reward", reward)  # of vector environments
        self.GameScore += float(getattr(env_info, "game_score", raw))


class AtariEnv(Env):
    """Atari game with frame skip, two-frame maximum, frame stack, lives, no-ops and time limit.

    Observations are [C, H, W] uint8 with ``num_img_obs`` frames, oldest first, zeros for frames
    before the episode (or life) started. Each step returns a new array. A frame is the maximum of
    the last two screens of a step (sprites flicker), cropped by one row above and below, and
    averaged over 2 x 2 pixels. Actions are indices into the game's action set.

    ``env_info`` has ``game_score`` (float, the reward before clipping), ``traj_done`` (bool, game
    over or time limit: reset now) and ``timeout`` (bool, time limit and neither game over nor
    life lost). A lost life sets only ``done``: the game continues with the next step, with an
    empty frame history.

    Args:
        game: "pong"; also "Pong", "ALE/Pong-v5", "PongNoFrameskip-v4" (only the name counts).
        frame_skip: emulator frames per step, at least 1.
        num_img_obs: frames in an observation, at least 1.
        clip_reward: use the sign of the score as reward.
        episodic_lives: end the return, but not the game, when a life is lost.
        fire_on_reset: press FIRE and UP at the start of a game and of each life, if the game has
            these actions.
        max_start_noops: upper limit for the random number of no-op frames after reset.
        repeat_action_probability: chance in [0, 1], per emulator frame, that the previous action
            is executed instead (sticky actions; 0.25 in Machado et al. 2018).
        horizon: steps until the time limit, at least 1.
        seed: seed of no-ops and sticky actions; ``None`` draws one from the operating system.
        frame_shape: (H, W) of a frame; any other than (104, 80) is resized from the full screen
            by pixel area, e.g. (84, 84).
        grayscale: if False, each frame has three channels, R, G, B.
        full_action_set: use all 18 actions in every game.

    Raises:
        ImportError: ale_py or cv2 is missing.
        TypeError: a count is not an integer.
        ValueError: the game is unknown (the message lists the nearest names), or a number is out
            of range.
    """

    def __init__(
        self,
        game: str = "pong",
        frame_skip: int = 4,
        num_img_obs: int = 4,
        clip_reward: bool = True,
        episodic_lives: bool = True,
        fire_on_reset: bool = False,
        max_start_noops: int = 30,
        repeat_action_probability: float = 0.0,
        horizon: int = 27000,
        *,
        seed: int | None = None,
        frame_shape: tuple[int, int] = (H, W),
        grayscale: bool = True,
        full_action_set: bool = False,
    ) -> None:
        self._frame_skip = whole_number("frame_skip", frame_skip, 1)
        self._num_img_obs = whole_number("num_img_obs", num_img_obs, 1)
        self._max_start_noops = whole_number("max_start_noops", max_start_noops, 0)
        self._horizon = whole_number("horizon", horizon, 1)
        if not 0 <= repeat_action_probability <= 1:
            raise ValueError(
                f"repeat_action_probability={repeat_action_probability!r} must be in [0, 1]."
            )
        self._game = rom_id(game)
        self._clip_reward, self._episodic_lives = clip_reward, episodic_lives
        self._fire_on_reset = fire_on_reset
        self._repeat_action_probability = repeat_action_probability
        self._load()
        self._rng = np.random.default_rng(seed)
        self._next_seed: int | None = None

        legal = self.ale.getLegalActionSet() if full_action_set else self.ale.getMinimalActionSet()
        self._action_set = list(legal)
        named = {action.name: action for action in self._action_set}
        self._start_actions = [named[name] for name in ("FIRE", "UP") if name in named]

        self._allocate(frame_shape, grayscale)
        self._lives = self._step_counter = 0
        self._action_space = IntBox(low=0, high=len(self._action_set))
        self._observation_space = IntBox(low=0, high=256, shape=self._obs.shape, dtype="uint8")

    _raw_frame_1, _raw_frame_2 = OldName("_frame_1"), OldName("_frame_2")
    _life_score = 0  # of the frames in which `_life_reset` advanced

    def __getattr__(self, name: str) -> Any:
        """Complete the object of a subclass whose constructor does not call this one's.

        Attributes that are missing are those of an `AtariEnv` with the same arguments, which rlpyt
        (2019) stored with a leading underscore.
        """
        if name not in OWN_ATTRIBUTES or "_completed" in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._completed = True
        names = inspect.signature(AtariEnv).parameters
        given = {x: vars(self)[f"_{x}"] for x in names if f"_{x}" in vars(self)}
        for attribute, value in vars(AtariEnv(**given)).items():
            vars(self).setdefault(attribute, value)
        return vars(self)[name]

    def _load(self) -> None:
        """Start a new emulator; takes about 0.1 s."""
        ale_py = import_extra("ale_py")
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self._noop = self._held = ale_py.Action.NOOP
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", 0)  # unused: its own sticky actions are off
        self.ale.setFloat("repeat_action_probability", 0.0)  # see _act
        self._action_type = ale_py.Action
        self._loaded = self.ale  # subclasses may replace the emulator
        self.ale.loadROM(ale_py.roms.get_rom_path(self._game))
        self._has_played = False

    def _allocate(self, frame_shape: tuple[int, int], grayscale: bool) -> None:
        self._cv2 = import_extra("cv2")
        self._cv2.setNumThreads(0)  # threads would compete with other workers
        height, width = self.ale.getScreenDims()
        colors = () if grayscale else (3,)
        self._frame_1, self._frame_2, self._max_frame = np.zeros(
            (3, height, width, *colors), np.uint8
        )
        h, w = frame_shape
        crop = height - 2 * h if width == 2 * w else 0
        self._kept_rows = slice(1, -1) if crop == 2 else slice(None)
        self._frame_channels = 1 if grayscale else 3
        self._grayscale = grayscale
        self._small_frame = np.zeros((h, w, *colors), np.uint8)
        self._obs = np.zeros((self._num_img_obs * self._frame_channels, h, w), np.uint8)

    def reset(self) -> Frame:
        """Start a new game; return the first observation, [C, H, W] uint8."""
        if self._next_seed is not None:
            if self._has_played and self.ale is self._loaded:  # some games depend on earlier ones
                self._load()
            self._rng, self._next_seed = np.random.default_rng(self._next_seed), None
        self._has_played = True
        self.ale.reset_game()
        self._held = self._noop
        for _ in range(self._rng.integers(self._max_start_noops + 1)):
            self._act(self._noop)
            if self.ale.game_over():
                self.ale.reset_game()
        if self._fire_on_reset:
            self.fire_and_up()
        self._lives = self.ale.lives()
        self._step_counter = 0
        self._reset_obs()
        self._update_obs()
        return self._obs

    def step(self, action: int | np.integer[Any]) -> EnvStep:
        """Repeat one action for ``frame_skip`` frames.

        Raises:
            ValueError: the action is not in [0, n).
        """
        if not 0 <= action < len(self._action_set):
            raise ValueError(
                f"action {action!r} of '{self._game}' must be in [0, {len(self._action_set)})."
            )
        held, act = self._as_action(self._action_set[action]), self._act
        score = 0
        for _ in range(self._frame_skip - 1):
            score += act(held)
        self._get_screen(1)
        score += act(held)
        lost_life = self._check_life()
        if lost_life:
            score += self._life_score
            if self._episodic_lives:
                self._reset_obs()
        self._update_obs()

        self._step_counter += 1
        game_over = self.ale.game_over()
        terminated = game_over or (lost_life and self._episodic_lives)
        out_of_time = self._step_counter >= self._horizon
        reward = float((score > 0) - (score < 0)) if self._clip_reward else float(score)
        info = EnvInfo(float(score), game_over or out_of_time, out_of_time and not terminated)
        return EnvStep(self._obs, reward, terminated or out_of_time, info)

    def seed(self, seed: int) -> None:
        """Seed both spaces now, and no-ops and sticky actions at the next ``reset``."""
        super().seed(seed)
        self._next_seed = int(seed)

    def get_state(self) -> dict[str, Any]:
        """Return emulator, counters, observation and random streams, about 50 kB."""
        state = self.ale.cloneState(include_rng=True).serialize()
        return {
            "game": self._game,
            "ale": np.frombuffer(state, np.uint8).copy(),
            "observation": self._obs.copy(),
            "lives": self._lives,
            "step_counter": self._step_counter,
            "held": int(self._held.value),
            "rng": pack_rng(self._rng),
            "next_seed": self._next_seed,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state of an equally constructed environment.

        Raises:
            ValueError: the state has another game or observation shape.
        """
        shape = np.shape(state["observation"])
        if state["game"] != self._game or shape != self._obs.shape:
            raise ValueError(
                f"the saved state must be of '{self._game}' with observations {self._obs.shape}, "
                f"got '{state['game']}' with {shape}."
            )
        ALEState = import_extra("ale_py").ALEState
        saved = ALEState.__new__(ALEState)
        saved.__setstate__(np.asarray(state["ale"], np.uint8).tobytes())
        # The emulator's state does not say whether it has stepped since its last reset (found by
        # experiment: Q*bert continues differently). Reproduce that before restoring.
        self._has_played = True
        self.ale.reset_game()
        if saved.getEpisodeFrameNumber() > 0:
            self.ale.act(self._noop)
        self.ale.restoreState(saved)
        self._obs = np.array(state["observation"], np.uint8)
        self._lives, self._step_counter = int(state["lives"]), int(state["step_counter"])
        self._held = import_extra("ale_py").Action(int(state["held"]))
        set_rng(self._rng, state["rng"])
        self._next_seed = saved_seed(state)

    def render(
        self, wait: int | str = 10, show_full_obs: bool = False, mode: str | None = None
    ) -> Any:
        """Show the newest frame in a window, or return the screen.

        Args:
            wait: milliseconds that the window waits for a key.
            show_full_obs: show all frames of the observation side by side.
            mode: "rgb_array" (also as first argument) returns the screen, [210, 160, 3] uint8,
                and opens no window.

        Raises:
            RuntimeError: cv2 was built without window support.
        """
        if "rgb_array" in (wait, mode):
            return self.ale.getScreenRGB()
        frames = self._obs.reshape(self._num_img_obs, self._frame_channels, *self._obs.shape[1:])
        shown = np.concatenate(list(frames if show_full_obs else frames[-1:]), axis=-1)
        try:
            self._cv2.imshow(self._game, shown.transpose(1, 2, 0)[..., ::-1])
            self._cv2.waitKey(wait)
        except self._cv2.error as error:
            raise RuntimeError(
                'could not open a window. Install opencv-python, or use render(mode="rgb_array").'
            ) from error
        return None

    def get_obs(self) -> Frame:
        """Return the current observation, [C, H, W] uint8."""
        return self._obs

    def _as_action(self, action: SupportsInt) -> Any:
        """Return an action of the emulator; subclasses may pass an integer."""
        known = isinstance(action, self._action_type)
        return action if known else self._action_type(int(action))

    def _act(self, action: object) -> int:
        """Emulate one frame, at random with the previous frame's action (sticky actions).

        Implemented here because the emulator's state does not contain its previous action.
        """
        sticky = self._repeat_action_probability
        if sticky > 0:
            if self._rng.random() >= sticky:
                self._held = action
            action = self._held
        reward: int = self.ale.act(action)
        return reward

    def _get_screen(self, frame: int = 1) -> None:
        buffer = self._frame_1 if frame == 1 else self._frame_2
        if self._grayscale:
            self.ale.getScreenGrayscale(buffer)
        else:
            self.ale.getScreenRGB(buffer)

    def _update_obs(self) -> None:
        """Push the maximum of ``frame_1`` and the current screen into a new observation."""
        self._get_screen(2)
        np.maximum(self._frame_1, self._frame_2, out=self._max_frame)
        c = self._frame_channels
        obs = np.empty_like(self._obs)
        obs[:-c] = self._obs[c:]
        target = obs[-1] if self._grayscale else self._small_frame
        self._cv2.resize(
            self._max_frame[self._kept_rows],
            target.shape[1::-1],
            dst=target,
            interpolation=self._cv2.INTER_AREA,
        )
        if not self._grayscale:
            obs[-c:] = target.transpose(2, 0, 1)
        self._obs = obs

    def _reset_obs(self) -> None:
        """Clear the frame history."""
        self._obs = np.zeros_like(self._obs)
        self._frame_1.fill(0)

    def _check_life(self) -> bool:
        """Return True if a life, and not the last one, was lost since the last call.

        Advance past it if that ends the return, or if the next life must be started.
        """
        lives: int = self.ale.lives()
        lost = 0 < lives < self._lives
        self._lives = lives
        if lost and (self._episodic_lives or self._fire_on_reset):
            self._life_reset()
        return lost

    def _life_reset(self) -> None:
        """Advance past the lost life's last screen."""
        self._life_score = self._act(self._noop)
        if self._fire_on_reset:
            self._life_score += self.fire_and_up() or 0  # None of an override for rlpyt (2019)
        self._lives = self.ale.lives()

    def fire_and_up(self) -> int:
        """Press FIRE, then UP, if the game has them; return the score."""
        return sum(self._act(action) for action in self._start_actions)

    @property
    def game(self) -> str:
        """Name of the game in the emulator, e.g. "space_invaders"."""
        return self._game

    @property
    def frame_skip(self) -> int:
        """Emulator frames per step."""
        return self._frame_skip

    @property
    def num_img_obs(self) -> int:
        """Frames in an observation."""
        return self._num_img_obs

    @property
    def clip_reward(self) -> bool:
        """Return True if rewards are clipped to their sign."""
        return self._clip_reward

    @property
    def max_start_noops(self) -> int:
        """Upper limit for no-op frames after reset."""
        return self._max_start_noops

    @property
    def episodic_lives(self) -> bool:
        """Return True if a lost life ends the return."""
        return self._episodic_lives

    @property
    def repeat_action_probability(self) -> float:
        """Probability per frame that the previous action is repeated."""
        return self._repeat_action_probability

    @property
    def horizon(self) -> int:
        """Steps until the time limit."""
        return self._horizon

    def get_action_meanings(self) -> list[str]:
        """Return the name of each action, in order."""
        return [self._as_action(action).name for action in self._action_set]
