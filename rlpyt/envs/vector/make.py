"""Factories of batched environments, for ``EnvCls``.

Samplers call them with as many rows as a worker has, because of their attribute ``batched``:

    sampler = SerialSampler(EnvCls=make_vec, env_kwargs=dict(id="CartPole-v1"), batch_B=16, ...)
"""

import importlib
from collections.abc import Sequence
from typing import Any

from rlpyt.envs.vector.base import VectorEnv, adapt
from rlpyt.utils.checks import whole_number
from rlpyt.utils.names import nearest


def make_vec(
    id: str,
    num_envs: int | None = None,
    *,
    vectorization_mode: str | None = None,
    info_keys: Any = (),
    vector_kwargs: dict[str, Any] | None = None,
    wrappers: Sequence[Any] | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """Make ``num_envs`` Gymnasium environments as one batch, in the way that loses least.

    Args:
        id: as for ``rlpyt.envs.gym.make``.
        num_envs: number of rows.
        vectorization_mode: "vector_entry_point" (the environment's own batched form), "sync" (a
            loop in this process), "async" (a process each; not inside a sampler's workers, which
            may have no children). ``None``: its own form where that exists and nothing given here
            excludes it, else "sync".
        info_keys: entries of info to keep in ``env_info``.
        vector_kwargs: for ``SyncVectorEnv`` or ``AsyncVectorEnv``. Their ``autoreset_mode`` is
            SAME_STEP unless given, since the resets then cost no call of their own.
        wrappers: functions from environment to environment, for each single one; for example
            ``rlpyt.envs.channels.ChannelsFirst``, for pictures that come as [H, W, C].
        kwargs: for the environment.

    Raises:
        TypeError: ``id`` is no string.
        ValueError, ImportError: as ``rlpyt.envs.gym.make``.
        UnsupportedVectorEnv: the environment's own batched form cannot be adapted.
    """
    import gymnasium

    from rlpyt.envs.gym_registry import current_id

    num_envs = _rows("make_vec", num_envs)
    if not isinstance(id, str):
        raise TypeError(
            f"make_vec takes an environment's id, not {id!r:.100}; of functions make a batch by "
            "rlpyt.envs.vector.serial.SerialVectorEnv([make_env() for _ in range(n)])."
        )
    module, _, name = id.rpartition(":")
    if module:  # "module:id" registers it by being imported
        importlib.import_module(module)
    name, settings = current_id(name)
    if gymnasium.registry[name].vector_entry_point is None or wrappers or vector_kwargs:
        vectorization_mode = vectorization_mode or "sync"
    mode = vectorization_mode or "vector_entry_point"
    arguments: dict[str, Any] = {"vectorization_mode": mode, **settings, **kwargs}
    if mode in ("sync", "async"):
        chosen = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP, "copy": False}
        arguments["vector_kwargs"] = {**chosen, **(vector_kwargs or {})}
        arguments["wrappers"] = list(wrappers or ())
        arguments.setdefault("disable_env_checker", True)
    elif wrappers or vector_kwargs:
        arguments.update(wrappers=wrappers, vector_kwargs=vector_kwargs)  # gymnasium says why not
    return adapt(gymnasium.make_vec(name, num_envs, **arguments), info_keys)


def make_atari_vec(
    game: str = "pong",
    num_envs: int | None = None,
    *,
    life_loss: bool = True,
    info_keys: Any = (),
    horizon: int = 27000,
    **kwargs: Any,
) -> VectorEnv:
    """Make ``num_envs`` Atari games on ale_py's native threads.

    Observations are [n, 4, 84, 84] uint8, oldest frame first, zeros before an episode's first.

    Args:
        game: as for ``AtariEnv``: "pong", "SpaceInvaders", "ALE/Pong-v5".
        num_envs: number of games.
        life_loss: ``done`` at each lost life, while the game goes on.
        info_keys: "lives", "frame_number", "episode_frame_number".
        horizon: steps until the time limit.
        kwargs: for ``ale_py.vector_env.AtariVectorEnv``: ``frameskip``, ``noop_max``,
            ``reward_clipping``, ``repeat_action_probability``, ``num_threads`` and so on.

    Raises:
        ImportError: ale_py is missing.
        ValueError: unknown game, with the nearest names.
    """
    from rlpyt.envs.atari.games import import_extra, rom_id

    num_envs = _rows("make_atari_vec", num_envs)
    import_extra("ale_py")
    from ale_py.vector_env import AtariVectorEnv

    from rlpyt.envs.vector.atari import AtariVector

    if kwargs.get("life_loss_info") or kwargs.get("episodic_life"):
        raise ValueError("use life_loss=True: ale_py's own signals do not say whether it resets.")
    frames = horizon * kwargs.get("frameskip", 4)
    settings = {"max_num_frames_per_episode": frames, "autoreset_mode": "SameStep", **kwargs}
    envs = AtariVectorEnv(rom_id(game), num_envs, **settings)
    return AtariVector(envs, info_keys, life_loss, horizon)


def make_envpool(
    task_id: str,
    num_envs: int | None = None,
    *,
    seeds: Sequence[int] | None = None,
    life_loss: bool = False,
    info_keys: Any = (),
    **kwargs: Any,
) -> VectorEnv:
    """Make an EnvPool, which takes seeds only now.

    Args:
        task_id: e.g. "CartPole-v1", "Pong-v5", "HalfCheetah-v4".
        num_envs: number of rows.
        seeds: one per row; ``None`` leaves EnvPool's default, the same in every process.
        life_loss: Atari: ``done`` at each lost life, while the game goes on.
        info_keys: entries of info to keep in ``env_info``.
        kwargs: for ``envpool.make_gymnasium``.

    Raises:
        ImportError: envpool is missing.
        ValueError: it has no such task.
    """
    num_envs = _rows("make_envpool", num_envs)
    try:
        import envpool
    except ImportError as error:
        raise ImportError(f'make_envpool: {error}. pip install "rlpyt[envpool]".') from error
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


def _rows(factory: str, num_envs: Any) -> int:
    if num_envs is None:
        raise TypeError(
            f"{factory}() needs num_envs; samplers give it, unless env_kwargs has it already."
        )
    return whole_number("num_envs", num_envs, least=1)
