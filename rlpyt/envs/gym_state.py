"""Save and restore the exact state of Gymnasium environments, layer by layer, as plain trees.

Supported are classic control, MuJoCo and environments that define ``get_state()`` and
``set_state(state)``, inside the wrappers that ``gymnasium.make`` adds and stateless ones. For
others ``get_state`` returns ``None``: a resumed run starts a new episode. For a custom wrapper
with state, extend ``GymEnvWrapper.get_state`` and ``set_state``.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from rlpyt.envs.layers import EnvLike, wrappers_of
from rlpyt.envs.legacy_gym import LegacyGymEnv
from rlpyt.envs.state import pack, pack_rng, set_rng, unpack

if TYPE_CHECKING:
    from gymnasium.envs.mujoco import MujocoEnv

CLASSIC_ATTRIBUTES = ("state", "steps_beyond_terminated", "last_u")
WRAPPER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "TimeLimit": ("_elapsed_steps",),
    "OrderEnforcing": ("_has_reset",),
    "PassiveEnvChecker": ("checked_reset", "checked_step", "checked_render"),
    "EnvInfoWrapper": (),
    "ChannelsFirst": (),
    "ClipAction": (),
    "RescaleAction": (),
    "ClipReward": (),
    "ActionMaskObservation": (),
    "DtypeObservation": (),
    "FilterObservation": (),
    "FlattenObservation": (),
    "RescaleObservation": (),
    "ReshapeObservation": (),
}
# Gymnasium's checker compares its first steps with data that are not saved.
CHECKED = {"PassiveEnvChecker": {"checked_step": True, "checked_data_reuse": True}}
# MuJoCo computes these from the state before the last substep, and environments read them before
# the next step; mj_forward would compute them for the following substep.
MUJOCO_DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
    "subtree_com", "cinert", "cvel", "cfrc_ext", "cfrc_int", "cacc", "qfrc_actuator",
    "qfrc_constraint", "actuator_force", "ten_length", "ten_velocity", "sensordata",
)  # fmt: skip


OWN = "own"  # key of a state returned by the environment's own get_state
MUJOCO_ATTRIBUTES = ("goal", "goal_pos", "cylinder_pos")


def get_state(env: EnvLike) -> dict[str, Any] | None:
    """Return the state of a wrapped environment, or ``None`` if a layer is not supported."""
    *wrappers, bare = layers = wrappers_of(env, gymnasium.Wrapper)
    simulator = _get_simulator(bare)
    if simulator is None or not all(_is_known(wrapper) for wrapper in wrappers):
        return None
    rng = getattr(bare, "_np_random", None)
    return {
        "layers": [type(layer).__name__ for layer in layers],
        "wrappers": [
            {a: pack(getattr(w, a)) for a in WRAPPER_ATTRIBUTES[type(w).__name__]} for w in wrappers
        ],
        "simulator": simulator,
        "rng": None if rng is None else pack_rng(rng),
    }


def set_state(env: EnvLike, state: Mapping[str, Any]) -> None:
    """Restore the state of an equally constructed environment.

    Raises:
        ValueError: the state belongs to another environment or other wrappers, or has attributes
            or values that `get_state` does not save.
    """
    *wrappers, bare = layers = wrappers_of(env, gymnasium.Wrapper)
    names, saved = [type(layer).__name__ for layer in layers], list(state["layers"])
    if saved != names:
        raise ValueError(f"the saved state must be of {names}, got one of {saved}.")
    for wrapper, attributes in zip(wrappers, state["wrappers"], strict=True):
        name = type(wrapper).__name__
        _set_attributes(wrapper, attributes, WRAPPER_ATTRIBUTES[name])
        vars(wrapper).update(CHECKED.get(name, {}))
    _set_simulator(bare, state["simulator"])
    if state["rng"] is None:
        bare._np_random = None
    else:
        set_rng(bare.np_random, state["rng"])


def _set_attributes(env: object, state: Mapping[str, Any], known: Sequence[str]) -> None:
    for name, packed in state.items():
        value = unpack(packed)
        if name not in known or (value is not None and np.asarray(value).dtype.kind not in "biuf"):
            raise ValueError(f"the saved state must not set {name}={value!r:.80}.")
        setattr(env, name, value)


def _is_known(wrapper: object) -> bool:
    """Return True if the state of this wrapper is in the table; a custom one may have its name."""
    module, name = type(wrapper).__module__, type(wrapper).__name__
    return module.startswith(("gymnasium.", "rlpyt.")) and name in WRAPPER_ATTRIBUTES


def _get_simulator(env: Any) -> Any:
    module = type(env).__module__
    if module.startswith("gymnasium.envs.classic_control"):
        return {a: pack(getattr(env, a)) for a in CLASSIC_ATTRIBUTES if hasattr(env, a)}
    if module.startswith("gymnasium.envs.mujoco"):
        return _get_mujoco(env)
    return _get_own(env)


def _set_simulator(env: Any, state: Mapping[str, Any]) -> None:
    if type(env).__module__.startswith("gymnasium.envs.classic_control"):
        _set_attributes(env, state, CLASSIC_ATTRIBUTES)
    elif OWN in state:
        env.set_state(unpack(state[OWN]))
    else:
        _set_mujoco(env, state)


def _get_own(env: object) -> dict[str, Any] | None:
    """Return the result of the environment's own ``get_state``, if it has a matching one."""
    env = env.env if isinstance(env, LegacyGymEnv) else env
    if inspect.getattr_static(env, "get_state", None) is None:  # nor that of an inner environment
        return None
    get, set_ = getattr(env, "get_state", None), getattr(env, "set_state", None)
    if not callable(get) or not callable(set_):
        return None
    try:
        inspect.signature(get).bind()
        inspect.signature(set_).bind("state")
    except (TypeError, ValueError):  # another meaning of these names
        return None
    state = get()
    try:
        return None if state is None else {OWN: pack(state)}
    except TypeError:  # checkpoints hold plain trees only
        return None


def _get_mujoco(env: "MujocoEnv") -> dict[str, Any]:
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    integration = np.empty(mujoco.mj_stateSize(env.model, spec))
    mujoco.mj_getState(env.model, env.data, integration, spec)
    derived = {name: np.array(getattr(env.data, name)) for name in MUJOCO_DERIVED}
    plain = {a: pack(getattr(env, a)) for a in MUJOCO_ATTRIBUTES if hasattr(env, a)}
    return {"integration": integration, "derived": derived, "plain": plain}


def _set_mujoco(env: "MujocoEnv", state: Mapping[str, Any]) -> None:
    import mujoco

    spec = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(env.model, env.data, state["integration"], spec)
    mujoco.mj_forward(env.model, env.data)
    for name in MUJOCO_DERIVED:
        getattr(env.data, name)[...] = state["derived"][name]
    _set_attributes(env, state["plain"], MUJOCO_ATTRIBUTES)
