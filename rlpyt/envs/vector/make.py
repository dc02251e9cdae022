"""Factories of vector environments, for ``EnvCls``.

Their attribute ``batched`` makes samplers pass the number of rows of a worker:

    sampler = SerialSampler(EnvCls=make_vec, env_kwargs=dict(id="CartPole-v1"), batch_B=16, ...)
"""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from rlpyt.envs.vector.base import VectorEnv, adapt
from rlpyt.envs.vector.info import InfoKeys
from rlpyt.utils.checks import whole_number
from rlpyt.utils.completion import takes
from rlpyt.utils.extras import needing
from rlpyt.utils.names import nearest


def make_vec(
    id: str,
    num_envs: int | None = None,
    *,
    vectorization_mode: str | None = None,
    info_keys: InfoKeys = (),
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Any] | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """Make ``num_envs`` Gymnasium environments as one vector environment.

    Args:
        id: as for ``rlpyt.envs.gym.make``.
        num_envs: number of rows.
        vectorization_mode: "vector_entry_point" (the environment's native vector form), "sync" (a
            loop in this process), "async" (one process each). ``None``: the native form if it
            exists and supports the other arguments, else "sync".
        info_keys: entries of info to keep in ``env_info``.
        vector_kwargs: arguments of ``SyncVectorEnv`` or ``AsyncVectorEnv``. ``autoreset_mode``
            defaults to SAME_STEP, which saves a separate call for resets.
        wrappers: functions that wrap each single environment, for example
            ``rlpyt.envs.channels.ChannelsFirst`` for images [H, W, C].
        kwargs: arguments of the environment.

    Raises:
        TypeError: ``id`` is not a string.
        ValueError, ImportError: as in ``rlpyt.envs.gym.make``.
        UnsupportedVectorEnv: the environment's native vector form is not supported.
    """
    import gymnasium

    from rlpyt.envs.gym_registry import current_id
    from rlpyt.envs.masks import add_action_mask

    num_envs = _rows("make_vec", num_envs)
    if not isinstance(id, str):
        raise TypeError(
            f"make_vec requires an environment id, got {id!r:.100}. For functions, use "
            "rlpyt.envs.vector.serial.SerialVectorEnv([make_env() for _ in range(n)])."
        )
    module, _, name = id.rpartition(":")
    if module:  # "module:id": importing the module registers the id
        importlib.import_module(module)
    name, settings = current_id(name)
    settings |= kwargs
    native = _is_native(gymnasium.registry[name].vector_entry_point, settings)
    if not native or wrappers or vector_kwargs:
        vectorization_mode = vectorization_mode or "sync"
    mode = vectorization_mode or "vector_entry_point"
    arguments: dict[str, Any] = {"vectorization_mode": mode, **settings}
    if mode in ("sync", "async"):
        chosen = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP, "copy": False}
        arguments["vector_kwargs"] = {**chosen, **(vector_kwargs or {})}
        arguments["wrappers"] = [*(wrappers or ()), add_action_mask]
        arguments.setdefault("disable_env_checker", True)
    elif name.startswith("ALE/"):  # whose native form clips rewards
        arguments.setdefault("reward_clipping", False)
    if mode not in ("sync", "async") and (wrappers or vector_kwargs):
        # Not supported: gymnasium raises the error.
        arguments.update(wrappers=wrappers, vector_kwargs=vector_kwargs)
    return adapt(gymnasium.make_vec(name, num_envs, **arguments), info_keys)


def make_atari_vec(
    game: str = "pong",
    num_envs: int | None = None,
    *,
    life_loss: bool = True,
    info_keys: InfoKeys = (),
    horizon: int = 27000,
    **kwargs: Any,
) -> VectorEnv:
    """Make ``num_envs`` Atari games on ale_py's native threads.

    Observations are [n, 4, 84, 84] uint8, oldest frame first, zeros before an episode's first.

    Args:
        game: name of the game as for ``AtariEnv``: "pong", "SpaceInvaders", "ALE/Pong-v5".
        num_envs: number of games.
        life_loss: set ``done`` at each lost life while the game continues.
        info_keys: entries to keep in ``env_info``: "lives", "frame_number",
            "episode_frame_number".
        horizon: steps until the time limit.
        kwargs: arguments of ``ale_py.vector_env.AtariVectorEnv``: ``frameskip``, ``noop_max``,
            ``reward_clipping``, ``repeat_action_probability``, ``num_threads`` and so on. Clipped
            rewards, the default, are signs, and ``env_info.raw_reward`` has the scores.

    Raises:
        ImportError: ale_py is not installed.
        ValueError: the game is unknown; the message lists the nearest names.
    """
    from rlpyt.envs.atari.games import import_extra, rom_id

    num_envs = _rows("make_atari_vec", num_envs)
    import_extra("ale_py")
    from ale_py.vector_env import AtariVectorEnv

    from rlpyt.envs.vector.atari import AtariVector
    from rlpyt.envs.vector.wrappers.reward import SignReward

    if kwargs.get("life_loss_info") or kwargs.get("episodic_life"):
        raise ValueError(
            "life_loss_info and episodic_life are not supported, since they do not say whether "
            "the game was reset. Use life_loss=True."
        )
    frames = horizon * kwargs.get("frameskip", 4)
    clips = kwargs.pop("reward_clipping", True)
    settings = {"max_num_frames_per_episode": frames, "autoreset_mode": "SameStep", **kwargs}
    source = AtariVectorEnv(rom_id(game), num_envs, reward_clipping=False, **settings)
    envs = AtariVector(source, info_keys, life_loss, horizon)
    return SignReward(envs) if clips else envs


def make_envpool(
    task_id: str,
    num_envs: int | None = None,
    *,
    seeds: Sequence[int] | None = None,
    life_loss: bool = False,
    info_keys: InfoKeys = (),
    **kwargs: Any,
) -> VectorEnv:
    """Make an EnvPool, which takes seeds only on construction.

    Args:
        task_id: name of the task, e.g. "CartPole-v1", "Pong-v5", "HalfCheetah-v4".
        num_envs: number of rows.
        seeds: one seed per row; ``None`` keeps EnvPool's default, the same in every process.
        life_loss: in Atari, set ``done`` at each lost life while the game continues.
        info_keys: entries of info to keep in ``env_info``.
        kwargs: arguments of ``envpool.make_gymnasium``.

    Raises:
        ImportError: envpool is not installed.
        ValueError: EnvPool has no such task; the message lists the nearest names.
    """
    num_envs = _rows("make_envpool", num_envs)
    with needing("make_envpool", "envpool"):
        import envpool
    from rlpyt.envs.vector.envpool import EnvPoolVector

    if task_id not in envpool.list_all_envs():
        near = nearest(task_id, envpool.list_all_envs())
        raise ValueError(f"EnvPool has no task '{task_id}'; nearest: {', '.join(near) or 'none'}.")
    if seeds is not None:
        kwargs["seed"] = [int(seed) % 2**31 for seed in seeds]
    pool = envpool.make_gymnasium(task_id, num_envs=num_envs, **kwargs)
    return EnvPoolVector(pool, info_keys, life_loss)


_factories: list[Any] = [make_vec, make_atari_vec, make_envpool]
for _factory in _factories:
    _factory.batched = True


def _is_native(entry_point: Any, settings: Mapping[str, Any]) -> bool:
    """Return True if an environment has a native vector form that takes these settings."""
    from gymnasium.envs.registration import load_env_creator

    if entry_point is None:
        return False
    # A native form would take a limit of -1 literally, and a range of frames to skip not at all.
    if settings.get("max_episode_steps") == -1 or isinstance(settings.get("frameskip"), tuple):
        return False
    create = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    return all(name == "max_episode_steps" or takes(create, name) for name in settings)


def _rows(factory: str, num_envs: int | None) -> int:
    if num_envs is None:
        raise TypeError(
            f"{factory}() requires num_envs; samplers pass it unless env_kwargs contains it."
        )
    return whole_number("num_envs", num_envs, least=1)
