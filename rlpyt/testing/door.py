"""The way in: the factory, the spaces, and what comes of building an environment twice."""

from typing import Any

import numpy as np

from rlpyt.testing.bench import Bench
from rlpyt.testing.inspection import leaf_spaces
from rlpyt.testing.report import Stop

IMAGE_DIMS = 3
MOST_CHANNELS = 4  # of one picture; more are stacked frames, and then they come first
N_SAMPLES = 20


def check_factory(bench: Bench) -> None:
    """Build two environments."""
    report, make_env = bench.report, bench.make_env
    if not callable(make_env) or (hasattr(make_env, "step") and not isinstance(make_env, type)):
        report.error(
            "factory",
            f"got {make_env!r:.100}, which is no class or function that makes environments",
            "pass the class and env_kwargs, or a function: every worker builds its own. For "
            "Gymnasium ids: make_env=rlpyt.envs.gym.make, env_kwargs=dict(id='CartPole-v1').",
        )
        raise Stop
    try:
        env = bench.build()
    except Exception as error:
        report.error(
            "factory",
            f"no environment came of it: {type(error).__name__}: {error}",
            "mend the factory; samplers would fail in the same way.",
        )
        raise Stop from error
    bench.adopt(env)
    other = bench.build()
    if _source(other) is _source(env):
        report.error(
            "factory",
            "it returned the same environment twice",
            "build a new one at each call: a sampler has several, each on its own way.",
        )
        raise Stop
    _compare_spaces(bench, env, other)


def _compare_spaces(bench: Bench, env: Any, other: Any) -> None:
    for name in ("observation_space", "action_space"):
        own, again = getattr(env, name), getattr(other, name)
        if type(own) is not type(again) or own != again:
            bench.report.error(
                "spaces",
                f"{name} differs between two environments of one factory: {own} and {again}",
                "make spaces depend on the constructor's arguments only, and give spaces of your "
                "own __eq__.",
            )


def _source(env: Any) -> Any:
    """What the factory made, without the adapter put around it."""
    return (
        env.__dict__.get("env", env.__dict__.get("source", env))
        if hasattr(env, "__dict__")
        else env
    )


def check_spaces(bench: Bench) -> None:
    """Both spaces can do what samplers and agents ask of them."""
    env = bench.build()
    for name in ("observation", "action"):
        space = getattr(env, f"{name}_space")
        for path, leaf in leaf_spaces(space, name):
            _check_abilities(bench, path, leaf)
        _check_samples(bench, name, space)
    spaces = getattr(env, "spaces", None)
    if getattr(spaces, "observation", None) is None or getattr(spaces, "action", None) is None:
        bench.report.error(
            "spaces",
            f"env.spaces is {spaces!r:.80}",
            "derive from rlpyt.envs.base.Env, which has it: EnvSpaces(observation, action).",
        )


def _check_abilities(bench: Bench, path: str, space: Any) -> None:
    wanted = ("shape", "dtype", "sample", "null_value", "contains")
    missing = [ability for ability in wanted if not hasattr(space, ability)]
    if missing:
        bench.report.error(
            "spaces",
            f"{path}_space is {space!r:.80}, which lacks {', '.join(missing)}",
            "use the spaces of rlpyt.spaces, or GymSpaceWrapper(space) around a gymnasium space.",
        )
        raise Stop


def _check_samples(bench: Bench, name: str, space: Any) -> None:
    null = space.null_value()
    for _ in range(N_SAMPLES):
        sample = space.sample()
        if not space.contains(sample):
            bench.report.error(
                "spaces",
                f"{name}_space.sample() gave {sample!r:.80}, which it does not contain",
                "make sample() and contains() agree in shape, dtype and bounds.",
            )
            return
        shapes = [[np.shape(leaf) for leaf in _leaves(element)] for element in (sample, null)]
        if shapes[0] != shapes[1]:
            bench.report.error(
                "spaces",
                f"{name}_space: samples have shapes {shapes[0]}, null_value() has {shapes[1]}",
                "let null_value() look like a sample: it stands where there is none.",
            )
            return


def _leaves(element: Any) -> list[Any]:
    if isinstance(element, tuple):
        return [leaf for part in tuple(element) for leaf in _leaves(part)]
    return [element]


def check_images(bench: Bench) -> None:
    """Pictures come with their channels first."""
    env = bench.build()
    for path, space in leaf_spaces(env.observation_space, "observation"):
        shape = space.shape
        if len(shape) != IMAGE_DIMS or shape[-1] > MOST_CHANNELS:
            continue
        if shape[0] > MOST_CHANNELS:
            bench.report.warning(
                "image-layout",
                f"{path} of shape {shape} looks like [height, width, channels]",
                "give [channels, height, width], as the convolutional models read it: "
                "x.transpose(2, 0, 1), the space's shape alike; for one of gymnasium's, "
                "rlpyt.envs.gym.make(..., channels_first=True) does so.",
            )
        elif min(shape) > 1:
            bench.report.warning(
                "image-layout",
                f"{path} of shape {shape} may be [C, H, W] or [H, W, C]",
                "it is read as [channels, height, width]; if it is that, "
                "skip=('image-layout',) says so.",
            )
        if np.dtype(space.dtype).kind == "f":
            bench.report.note(
                "image-layout",
                f"{path} is a picture of {space.dtype}",
                "uint8 in [0, 255] takes a quarter of the memory; the image models scale it.",
            )


def check_close(bench: Bench) -> None:
    """Closing twice, or before anything was done, is harmless."""
    for used in (False, True):
        env = bench.build()
        if not hasattr(env, "close"):
            bench.report.warning(
                "close", "there is no method close", "derive from rlpyt.envs.base.Env."
            )
            return
        if used:
            env.reset()
        for time in ("first", "second"):
            try:
                env.close()
            except Exception as error:
                state = "after a reset" if used else "before the first reset"
                bench.report.error(
                    "close",
                    f"the {time} close() {state} raised {type(error).__name__}: {error}",
                    "make close() harmless at any time and when repeated.",
                )
                return
