"""Environment interface, and the function by which samplers build environments.

    observation = env.reset()
    observation, reward, done, env_info = env.step(action)

An environment is built and used in one process. To write a custom one, subclass ``Env``: set
``_action_space`` and ``_observation_space``, and define ``reset`` and ``step``. The optional
methods (``seed``, ``get_state``, ``set_state``, ``close``) have minimal defaults.
"""

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

from rlpyt.envs.layers import wrappers_of
from rlpyt.spaces.action_mask import has_mask
from rlpyt.spaces.base import Space
from rlpyt.utils.collections import own_containers
from rlpyt.utils.processes import without_exit


class EnvStep(NamedTuple):
    """Result of a step, see `Env`; every field of a vector environment's is an array [n, ...]."""

    observation: Any
    reward: float | Any  # Any: the arrays of vector environments
    done: bool | Any
    env_info: Any


class EnvInfo(NamedTuple):
    """An ``env_info`` without fields."""


class EnvSpaces(NamedTuple):
    """Spaces of an environment."""

    observation: Space
    action: Space


class BatchSpec(NamedTuple):
    """T: time steps in a batch; B: number of environments."""

    T: int
    B: int

    @property
    def size(self) -> int:
        """Number of environment steps in one batch, T * B."""
        return int(self.T * self.B)


class BaseEnv:
    """Base class of single and vector environments: spaces, saved state and `close`."""

    _action_space: Space
    _observation_space: Space
    _known_horizon: int | None = None

    @property
    def action_space(self) -> Space:
        """Space of one environment's actions."""
        return _required(self, "action_space")

    @property
    def observation_space(self) -> Space:
        """Space of one environment's observations."""
        return _required(self, "observation_space")

    @property
    def spaces(self) -> EnvSpaces:
        """Both spaces, as agents and models expect them."""
        return EnvSpaces(observation=self.observation_space, action=self.action_space)

    @property
    def horizon(self) -> int | None:
        """Steps after which an episode is truncated; ``None`` if unlimited or unknown."""
        return self._known_horizon

    def get_state(self) -> dict[str, Any] | None:
        """Return the exact state as a plain tree; a restored environment continues bit for bit.

        The tree consists of dicts with string keys, lists, numbers, strings, ``None`` and numeric
        arrays, so that a checkpoint needs no pickle. ``None`` means that the environment does not
        support it; a resumed run then starts a new episode.
        """
        return None

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by ``get_state`` of an equally constructed environment."""
        raise NotImplementedError(
            f"{type(self).__name__} does not support restoring a saved state."
        )

    def close(self) -> None:
        """Release resources; may be called more than once."""


class Env(BaseEnv):
    """Interface of a single environment.

    A step returns ``EnvStep(observation, reward, done, env_info)``:

    - observation: numpy array or (nested) namedtuple of arrays, as in ``observation_space``. The
      array may be overwritten by the next step; copy it to keep it.
    - reward: float.
    - done: bool; the return ends here, by termination, by truncation (time limit) or by a lost
      life.
    - env_info: namedtuple of numbers and arrays with the same fields, shapes and dtypes at every
      step of every instance, since samplers allocate memory for it after one example step. Three
      optional fields have a meaning:
      ``timeout``: bool, true if and only if the step was truncated and not terminated; the
      algorithm then bootstraps from the final observation.
      ``traj_done``: bool, true if the environment must be ``reset`` now; defaults to ``done``.
      With it, an environment can end returns (lives) within one game.
      ``raw_reward``: float, the reward before it was scaled, of which returns are logged.
    """

    def step(self, action: Any) -> EnvStep:
        """Run one step with ``action``, a value of ``action_space`` (a row ``[b]`` of [B, ...])."""
        raise NotImplementedError

    def reset(self) -> Any:
        """Start an episode and return its first observation."""
        raise NotImplementedError

    def seed(self, seed: int) -> None:
        """Seed both spaces now and, in environments that draw numbers, the next ``reset``.

        A wrapper that does not define this method seeds the environment inside, too.
        """
        for space in self.spaces:
            if hasattr(space, "seed"):
                space.seed(seed)
        if type(self).seed is Env.seed:
            seed_inner = _seed_inside(self)
            if seed_inner is not None:
                seed_inner(seed)


class EnvLayer(Env):
    """Base class of wrappers around one environment, ``env``, to which attributes are forwarded."""

    env: Any

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":  # not set yet: do not forward
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'.")
        return getattr(self.env, name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"


def _seed_inside(env: Env) -> Callable[[int], object] | None:
    """Return ``seed`` of the environment in a wrapper: its ``env``, or what it forwards to."""
    inner = vars(env).get("env")
    if isinstance(inner, Env):
        return inner.seed
    try:  # getattr finds the method of the base class
        method = type(env).__getattr__(env, "seed")  # type: ignore[attr-defined]
    except AttributeError:
        return None
    return method if callable(method) else None


def _required(env: BaseEnv, name: str) -> Space:
    space: Space | None = getattr(env, f"_{name}", None)
    if space is None:
        raise AttributeError(
            f"{type(env).__name__} has no {name}: set self._{name} in its constructor, or define "
            f"the property {name}."
        )
    return space


def own_spaces(env: object) -> None:
    """Give an environment copies of spaces that are attributes of its class.

    All instances share those, so their random samples would depend on the other environments of
    the process. Layers that do not accept attributes keep the shared ones.
    """
    for layer in wrappers_of(env):
        for name in ("action_space", "observation_space", "_action_space", "_observation_space"):
            shared = inspect.getattr_static(type(layer), name, None)
            if hasattr(shared, "sample") and name not in getattr(layer, "__dict__", ()):
                with contextlib.suppress(AttributeError, TypeError):
                    setattr(layer, name, copy.deepcopy(shared))


# True if environments that are built return masks in info; None: unknown, so they are reset to see.
masks_expected: ContextVar[bool | None] = ContextVar("masks_expected", default=None)


@contextlib.contextmanager
def built_like(observation_space: Space) -> Iterator[None]:
    """Build environments inside the context without resetting them to look for masks.

    Args:
        observation_space: that of an environment of the same kind, with its masks.
    """
    token = masks_expected.set(has_mask(observation_space))
    try:
        yield
    finally:
        masks_expected.reset(token)


def build_env(EnvCls: Callable[..., Any], env_kwargs: Mapping[str, Any], where: str = "") -> Any:
    """Build one environment and check its interface.

    A bare ``gymnasium`` or ``gym`` environment is wrapped in ``GymEnvWrapper``, so that
    ``EnvCls=lambda: gymnasium.make("CartPole-v1")`` works; one with rlpyt spaces is returned
    unchanged, as it has rlpyt's interface; a vector environment of gymnasium, ALE or EnvPool
    is adapted to ``rlpyt.envs.vector.VectorEnv``.

    Args:
        EnvCls: class or function that makes an environment.
        env_kwargs: its keyword arguments; it gets copies of dictionaries and lists.
        where: caller named in error messages, e.g. "worker 3, environment 17".

    Raises:
        TypeError: ``EnvCls`` is not callable, lacks ``num_envs``, or did not return an
            environment.
        AttributeError: the environment lacks a space.
        WorkerError: it raised `SystemExit`.
    """
    by = f" ({where})" if where else ""
    with without_exit(f"building {getattr(EnvCls, '__name__', repr(EnvCls))}{by}"):
        return _built(EnvCls, env_kwargs, by)


def _built(EnvCls: Callable[..., Any], env_kwargs: Mapping[str, Any], by: str) -> Any:
    if not callable(EnvCls) or (hasattr(EnvCls, "step") and not isinstance(EnvCls, type)):
        raise TypeError(
            f"EnvCls must be a class or function that makes an environment, got {EnvCls!r}{by}. "
            "Every worker builds its own: pass the class and env_kwargs, or for Gymnasium ids "
            "EnvCls=rlpyt.envs.gym.make, env_kwargs=dict(id='CartPole-v1')."
        )
    name = getattr(EnvCls, "__name__", repr(EnvCls))
    try:
        env = EnvCls(**own_containers(dict(env_kwargs)))
    except TypeError as error:
        if "missing" not in str(error) or "'num_envs'" not in str(error):
            raise
        raise TypeError(
            f"{error}{by}. Samplers pass num_envs only to factories with the attribute batched: "
            f"set {name}.batched = True, or give num_envs in env_kwargs."
        ) from error
    if env is None:
        raise TypeError(
            f"{name} returned None instead of an environment{by}. Add a return statement."
        )
    if isinstance(env, type):
        raise TypeError(f"{name} returned the class {env.__name__}{by}. Return an instance of it.")
    for method in ("reset", "step"):
        if not callable(getattr(env, method, None)):
            raise TypeError(f"{name} returned {env!r}, which has no method {method}{by}.")
    from rlpyt.envs.vector.base import adapt, is_vector_env

    if is_vector_env(env):
        return adapt(env)
    own_spaces(env)
    spaces = getattr(env, "observation_space", None), getattr(env, "action_space", None)
    if is_gym_env(env) and not all(isinstance(space, Space) for space in spaces):
        from rlpyt.envs.gym import GymEnvWrapper

        env = GymEnvWrapper(env)
    for attribute in ("observation_space", "action_space"):
        if getattr(env, attribute, None) is None:
            raise AttributeError(f"{type(env).__name__} has no {attribute}{by}.")
    return env


def is_gym_env(env: object, packages: tuple[str, ...] = ("gymnasium", "gym")) -> bool:
    """Return True if a class of ``env`` comes from one of the packages, without importing any."""
    return any(cls.__module__.partition(".")[0] in packages for cls in type(env).__mro__)
