"""Checks of every environment: construction, seeding, saved states, episodes' ends, processes."""

import copy
import hashlib
import math
import re
import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import env_checker

from rlpyt.envs.layers import missing_seed
from rlpyt.envs.vector.base import UnsupportedVectorEnv
from rlpyt.errors import WorkerError
from rlpyt.processes.call import run_in_child
from rlpyt.spaces.action_mask import checked_mask_sizes, has_mask
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.testing.env_runs import (
    EnvCase,
    Recording,
    first_difference,
    play,
    start,
)
from rlpyt.testing.report import Report, Stop
from rlpyt.testing.trees import equal, shares_memory
from rlpyt.utils.buffer import leaves_of
from rlpyt.utils.state_codec import encode_state

IMAGE_DIMS = 3
IMAGE_SIZE = 16  # least height and width of an array of pixels that is taken for an image
MOST_CHANNELS = 4  # of one image; stacked frames have more, along the first dimension
N_SAMPLES = 20
SAME_LENGTH = 3  # episodes of one length that look like a time limit
COMPARED_ENDS = 3  # ends whose final observations are compared
COMPARED_STEPS = 50  # steps of two environments in turn, or after seeding again
RESUMED_STEPS = 100  # steps after loading a saved state
WORKER_STEPS = 20


def check_factory(case: EnvCase) -> None:
    """Build two environments."""
    expect, make_env = case.report.expect, case.make_env
    expect(
        callable(make_env) and (isinstance(make_env, type) or not hasattr(make_env, "step")),
        f"got {make_env!r:.100}, expected a class or function that makes environments",
        "pass the class and env_kwargs, or a function: every worker builds its own. For Gymnasium "
        "IDs: make_env=rlpyt.envs.gym.make, env_kwargs=dict(id='CartPole-v1').",
        stop=True,
    )
    try:
        env = case.build()
    except Exception as error:
        text = f"building an environment raised {type(error).__name__}: {error}"
        case.report.error(text, "fix the factory; samplers would fail likewise.")
        raise Stop from error
    case.adopt(env)
    other = case.build()
    expect(
        _source(other) is not _source(env),
        "it returned the same environment twice",
        "build a new environment at each call: a sampler steps several of them.",
        stop=True,
    )
    for name in ("observation_space", "action_space"):
        own, again = getattr(env, name), getattr(other, name)
        expect(
            type(own) is type(again) and own == again,
            f"{name} differs between two environments of one factory: {own} and {again}",
            "let spaces depend on constructor arguments only; custom spaces need __eq__.",
            check="spaces",
        )


# Remedies for remarks of Gymnasium's checker, by words in them.
GYMNASIUM_REMEDIES = (
    (r"space (minimum|maximum) value is", "give bounds if there are any; rlpyt needs none."),
    (r"symmetric and normalized space", "nothing: rlpyt's agents scale actions to the space."),
    (r"share an object", "return a copy in `reset` and `step`: `self.observation.copy()`."),
    (
        r"super\(\)\.reset|[Dd]eterministic|np_random|random number gen",
        "call `super().reset(seed=seed)` first in `reset`, and draw all random numbers from "
        "`self.np_random`.",
    ),
    (
        r"default seed argument|(seed|options).*(keyword argument|signature|passed)",
        "declare `def reset(self, *, seed=None, options=None)`.",
    ),
    (
        r"not within the observation space|numpy array|np\.int64|obs keys|obs length",
        "return observations with shape, dtype and bounds of `observation_space`, for example "
        "`np.asarray(x, self.observation_space.dtype)`.",
    ),
    (
        r"not a tuple|2-tuple|four or five",
        "return `(observation, info)` from `reset` and `(observation, reward, terminated, "
        "truncated, info)` from `step`.",
    ),
    (r"`(terminated|truncated|done)`", "return Python bools: `bool(x)`."),
    (r"reward", "return `float(reward)`."),
    (r"info", "return a dictionary as `info`, a new one in each step."),
    (
        r"render",
        "nothing for training; for videos set `metadata = {'render_modes': ['rgb_array'], "
        "'render_fps': 30}` and take `render_mode` in the constructor.",
    ),
)


def _source(env: Any) -> Any:
    """Return the environment inside of the adapter that `build_env` put around it."""
    inside = getattr(env, "__dict__", {})
    return inside.get("env", inside.get("source", env))


def check_gymnasium(case: EnvCase) -> None:
    """Run Gymnasium's own checker on the environment inside of the adapter.

    Its errors are warnings here, since the adapter may correct them: the contract with samplers is
    checked behind it.
    """
    source = getattr(_source(case.build()), "unwrapped", None)
    if not isinstance(source, gymnasium.Env):
        return
    name = "gymnasium.utils.env_checker.check_env"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            env_checker.check_env(source, skip_render_check=True, skip_close_check=True)
        except Exception as error:
            what = f"{name} raised {type(error).__name__}: {error}"
            if has_mask(case.build().observation_space):
                case.report.note(what, "it takes actions that the mask forbids.")
            else:
                case.report.warning(what, _gymnasium_remedy(what))
    texts = [re.sub(r"\x1b\[\d*m|WARN: ", "", str(warning.message)) for warning in caught]
    by_remedy: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        by_remedy.setdefault(_gymnasium_remedy(text), []).append(text)
    for fix, remarks in by_remedy.items():
        case.report.note(f"{name} warned: {' '.join(remarks)}", fix)


def _gymnasium_remedy(remark: str) -> str:
    """Return what to do about a remark of Gymnasium's checker."""
    default = "fix it for other users of the environment; rlpyt's adapter may accept it."
    return next((fix for words, fix in GYMNASIUM_REMEDIES if re.search(words, remark)), default)


def check_spaces(case: EnvCase) -> None:
    """Check the methods of both spaces, and their samples."""
    env, expect = case.build(), case.report.expect
    methods = ("shape", "dtype", "sample", "null_value", "contains")
    for name in ("observation", "action"):
        space = getattr(env, f"{name}_space")
        for path, leaf in leaf_spaces(space, name):
            expect(
                all(hasattr(leaf, method) for method in methods),
                f"{path}_space is {leaf!r:.80}, which lacks "
                f"{', '.join(method for method in methods if not hasattr(leaf, method))}",
                "use the spaces of rlpyt.spaces, or GymSpaceWrapper(space) around a Gymnasium one.",
                stop=True,
            )
        shapes = [np.shape(leaf) for leaf in leaves_of(space.null_value())]
        for sample in (space.sample() for _ in range(N_SAMPLES)):
            expect(
                space.contains(sample),
                f"{name}_space.sample() gave {sample!r:.80}, which it does not contain",
                "make sample() and contains() agree in shape, dtype and bounds.",
            )
            expect(
                [np.shape(leaf) for leaf in leaves_of(sample)] == shapes,
                f"the shapes of {name}_space.null_value() are {shapes}, unlike those of samples",
                "return from null_value() an element shaped like samples.",
            )
    try:
        checked_mask_sizes(env.observation_space, env.action_space)
    except ValueError as error:
        case.report.error(str(error), "declare spaces.MultiBinary(n).", check="action-mask")
        raise Stop from error
    spaces = getattr(env, "spaces", None)
    expect(
        None not in (getattr(spaces, "observation", None), getattr(spaces, "action", None)),
        f"env.spaces is {spaces!r:.80}",
        "derive from rlpyt.envs.base.Env, which defines it: EnvSpaces(observation, action).",
    )


def check_images(case: EnvCase) -> None:
    """Check that images are clearly [C, H, W] or [H, W, C]."""
    report = case.report
    for path, space in leaf_spaces(case.build().observation_space, "observation"):
        shape = space.shape
        if len(shape) == IMAGE_DIMS - 1 and space.dtype == np.uint8 and min(shape) >= IMAGE_SIZE:
            report.warning(
                f"{path} of shape {shape} is read as a vector of {math.prod(shape)} numbers",
                "if it is an image, add a dimension for channels, for example by "
                "gymnasium.wrappers.GrayscaleObservation(env, keep_dim=True); otherwise "
                "skip=['image-layout'].",
            )
        if len(shape) != IMAGE_DIMS or shape[-1] > MOST_CHANNELS:
            continue
        if shape[0] > MOST_CHANNELS:
            report.note(
                f"{path} of shape {shape} is read as [height, width, channels]",
                "models of your own that expect [channels, height, width] need "
                "rlpyt.envs.gym.make(..., channels_first=True).",
            )
        elif min(shape) > 1:
            report.warning(
                f"{path} of shape {shape} may be [C, H, W] or [H, W, C]",
                "models read [channels, height, width]; if that is right, skip=['image-layout'].",
            )
        if np.dtype(space.dtype).kind == "f":
            text = "uint8 in [0, 255] takes a quarter of the memory; image models scale it."
            report.note(f"{path} is an image of {space.dtype}", text)


def check_seeding(case: EnvCase) -> None:
    """Check that the same seed gives the same run, in a new environment and in a used one."""
    report = case.report
    if case.unseedable:
        report.open(f"cannot be seeded, so runs cannot be compared: {case.unseedable}")
        return
    rows = case.rows()
    unseeded = missing_seed(rows.env)
    if unseeded is not None:
        report.warning(*unseeded)
    again = play(rows, start(rows), case.actions, case.short)
    found = first_difference(case.reference, again, info=False)
    if found:
        _report_irreproducible(case, rows.env, found)
        return
    case.reproducible = True
    found = case.compare(again)
    case.same_info = found is None
    if found:
        fix = "remove clock times and the like from env_info, which is part of the recorded batch."
        report.warning(f"the same seed gave another env_info: {found}", fix)
    if not case.seeds_at_construction:
        rows.seed(case.seeds())
        found = case.compare(play(rows, start(rows), case.actions, min(case.short, COMPARED_STEPS)))
        report.expect(
            not found,
            f"seeded again after {case.short} steps, it does not start again: {found}",
            "let every reset() after seed(seed) start from that seed alone.",
        )
    if first_difference(case.reference, case.replay(which=1)) is None:
        report.warning(
            f"another seed gave the same {case.short} steps: the environment is deterministic or "
            "ignores its seed",
            "ignore this if it is deterministic by design.",
        )


def _report_irreproducible(case: EnvCase, env: Any, found: str) -> None:
    if not case.batched and not hasattr(env, "seed"):
        what = f"two runs with the same actions differ ({found}), and the method seed is missing"
        fix = "derive from rlpyt.envs.base.Env and define seed(seed), used by the next reset."
    elif found.startswith("the first observation"):
        what = f"reset does not honor the seed: {found}"
        fix = (
            "create the generator in reset() from the seed that seed(seed) stored, and use only it "
            "(gymnasium: super().reset(seed=seed), then self.np_random)."
        )
    else:
        what = f"the same seed and actions gave another run: {found}"
        fix = (
            "draw from the seeded generator only, not from the global ones of numpy or random, and "
            "do not depend on the clock, the order of a set, or earlier instances."
        )
    case.report.error(what, fix)


def check_independence(case: EnvCase) -> None:
    """Check that two environments stepped in turn do not influence each other."""
    a, b = case.rows(), case.rows(1)
    run, other = start(a), start(b)
    shared = shares_memory(a.raw, b.raw)
    for _ in range(min(case.short, COMPARED_STEPS)):
        play(a, run, case.actions, 1)
        play(b, other, case.actions, 1)
    found = case.compare(run)
    if case.report.expect(
        not found,
        f"stepped in turn with another environment, it runs differently: {found}",
        "keep state and generators in the instance, not in the class, module or global generator.",
    ):
        case.report.expect(
            not shared,
            "two environments return observations in the same memory",
            "allocate the buffer in the constructor, not in the class.",
        )


def check_state(case: EnvCase) -> None:
    """Check that a new environment with a loaded state continues like the one that saved it."""
    rows, expect = case.rows(), case.report.expect
    if not hasattr(rows.env, "get_state") or rows.env.get_state() is None:
        case.report.open("get_state() returns None: resumed runs start new episodes")
        return
    run = start(rows)
    saved: list[tuple[int, Any, Any, bytes, Any]] = []
    for k in sorted({0, case.short // 8, case.short // 2}):
        play(rows, run, case.actions, k - len(run.steps))
        state = rows.env.get_state()
        try:
            saved.append((k, state, copy.deepcopy(state), fingerprint(state), dict(rows.masks)))
        except (TypeError, RecursionError) as error:
            case.report.error(
                f"get_state() is not a plain tree: {error}",
                "use dicts, lists, numbers, strings, None and arrays (rlpyt.envs.state.pack).",
            )
            return
    play(rows, run, case.actions, case.short - len(run.steps))
    found = case.compare(run)
    fix = "do not change anything in get_state()."
    if not expect(not found, f"get_state() changed the run: {found}", fix):
        return
    for k, state, kept, digest, masks in saved:
        expect(
            fingerprint(state) == digest,
            f"the state taken after {k} steps changed while the environment was stepped",
            "return copies: np.array(x), rlpyt.envs.state.pack(x).",
        )
        fresh = case.rows(2)
        fresh.env.set_state(kept)
        fresh.masks = masks
        resumed = Recording(list(case.reference.first), case.reference.steps[:k])
        T = min(RESUMED_STEPS, len(case.reference.steps) - k)
        found = case.compare(play(fresh, resumed, case.actions, T), since=k)
        expect(
            not found,
            f"a new environment with the state after {k} steps continues differently: {found}",
            "include all that step and reset read: simulator, counters, generators, new seed.",
        )


def fingerprint(state: Any) -> bytes:
    """Return a digest of a plain tree, as a checkpoint would hold it.

    Raises:
        TypeError: a part is not plain; the message says which.
    """
    encoded = encode_state(state)
    digest = hashlib.sha256(repr(encoded.tree).encode())
    for part in (*encoded.arrays.values(), *encoded.tensors.values()):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.digest()


def check_time_limit(case: EnvCase) -> None:
    """Check that episodes end, and that flags, horizon and lengths agree."""
    report, run = case.report, case.reference
    lengths: list[tuple[int, bool]] = []  # of episodes: steps, timeout
    running = np.zeros(case.n, np.int64)
    for at in run.steps:
        running += 1
        for b, step in enumerate(at):
            if step.over:
                lengths.append((int(running[b]), bool(np.any(getattr(step.info, "timeout", 0)))))
                running[b] = 0
    env = case.build()
    horizon = getattr(env, "horizon", None)
    number = horizon is None or (isinstance(horizon, int) and not isinstance(horizon, bool))
    fix = "make it a number of steps, or None."
    if not report.expect(number, f"horizon is {horizon!r:.40}", fix, check="time-limit"):
        horizon = None
    if not lengths:
        _report_endless(case, horizon)
    longest = max([*(length for length, _ in lengths), *running.tolist()], default=0)
    report.expect(
        horizon is None or longest <= horizon,
        f"an episode lasted {longest} steps; horizon is {horizon}",
        "truncate there (done, and env_info.timeout unless it terminated), or correct horizon.",
        check="time-limit",
    )
    limit = horizon or _registered_limit(env)
    if limit and "timeout" not in run.steps[0][0].info._fields:
        report.warning(
            f"there is a time limit of {limit} steps, but no env_info.timeout",
            "set env_info.timeout where a step truncated; else the limit is learned as an end.",
            check="time-limit",
        )
        return
    early = [length for length, timeout in lengths if timeout and horizon not in (None, length)]
    if early:
        what = f"timeout was set after {early[0]} steps; horizon is {horizon}"
        fix = "correct horizon, if there is no other limit, and no wrapper repeats actions."
        report.warning(what, fix, check="time-limit")
    ended = [timeout for length, timeout in lengths if length == horizon]
    if len(ended) >= SAME_LENGTH and not any(ended) and len(ended) < len(lengths):
        report.warning(
            f"{len(ended)} of {len(lengths)} episodes ended at the horizon of {horizon} steps, "
            "none by timeout",
            "set env_info.timeout at the step of the limit; else it is learned as an end.",
            check="time-limit",
        )
    same = len(lengths) >= SAME_LENGTH and len({length for length, _ in lengths}) == 1
    if same and lengths[0][0] > 1 and not any(timeout for _, timeout in lengths):
        report.warning(
            f"all {len(lengths)} episodes lasted {lengths[0][0]} steps, none by timeout",
            "if this is a time limit, set env_info.timeout at its step; if the task ends there, "
            "pass skip=['time-limit'].",
            check="time-limit",
        )


def _report_endless(case: EnvCase, horizon: int | None) -> None:
    steps = len(case.reference.steps)
    if horizon is not None and horizon > steps:
        text = f"none ended within {steps} steps; horizon is {horizon}"
        case.report.open(text, f"pass max_steps={horizon + 1} to check the ends.")
        return
    case.report.warning(
        f"none ended within {steps} steps of random actions",
        "add a time limit (gymnasium.make(..., max_episode_steps=1000), or done with "
        "env_info.timeout): returns are counted when episodes end. If episodes are longer, pass a "
        "larger max_steps.",
    )


def _registered_limit(env: Any) -> int | None:
    """Return the registered time limit of the Gymnasium environment inside, if there is one."""
    inner = getattr(env, "env", None) or getattr(env, "_env", None)
    limit = getattr(getattr(inner, "spec", None), "max_episode_steps", None)
    return limit if isinstance(limit, int) else None


def check_final_observation(case: EnvCase) -> None:
    """Check that an episode's last observation is not the first of the next episode.

    It is compared with the observation of a reset just before the ending step (an environment that
    resets itself draws its episode from the same position of the random stream), and with the
    observation of the reset that followed. The step before is the control: where it looks like a
    reset as well, because observations are drawn independently, say, nothing can be concluded.
    """
    wrong: list[bool] = []
    replayed = 0
    for t, row in case.reference.ends():
        replayed += 2 * t
        if wrong and (len(wrong) == COMPARED_ENDS or replayed > case.max_steps):
            break
        step, before = case.reference.steps[t][row], case.reference.before(t, row)
        one_step = t == 0 or case.reference.steps[t - 1][row].over
        if one_step or equal(step.observation, before) or _looks_reset(case, t - 1, row):
            continue
        wrong.append(equal(step.observation, step.first) or _looks_reset(case, t, row))
    if not wrong:
        case.report.open("no end of an episode allowed a comparison")
        return
    case.report.expect(
        not all(wrong),
        f"in all of {len(wrong)} episodes the observation of the last step was that of a reset",
        "return the observation that the last step led to, and start the next episode in reset "
        "(batches: in reset_rows). A batch that resets itself must declare how: "
        "metadata['autoreset_mode'], with info['final_obs'] for SAME_STEP.",
    )


def _looks_reset(case: EnvCase, t: int, row: int) -> bool:
    """Return True if a reset before step t gives the observation of step t."""
    rows = case.rows()
    play(rows, start(rows), case.actions, t)
    try:
        (first,) = rows.reset_rows([row])
    except UnsupportedVectorEnv:  # a batch that cannot reset a row within an episode
        return False
    return equal(first, case.reference.steps[t][row].observation)


def check_worker(case: EnvCase) -> None:
    """Check that the factory works in another process, with the same result."""
    report = case.report
    actions = [case.actions(t) for t in range(min(WORKER_STEPS, len(case.reference.steps)))]
    settings = (case.make_env, case.env_kwargs, case.seed, case.n)
    try:
        run = run_in_child(_play_in_child, *settings, actions, what="building the environment")
    except TypeError as error:  # it cannot be pickled
        fix = "build live objects (environments, files, locks) inside of the environment, and keep "
        report.error(f"{error}", f"{fix}them out of closures and env_kwargs.")
    except WorkerError as error:
        fix = "let the factory import and register what it needs: workers do not run your script."
        report.error(f"it does not work in a worker process: {error}", fix)
    else:
        found = first_difference(case.reference, run, info=False)
        report.expect(
            not (found and case.reproducible),
            f"with the same seed it runs differently in a worker process: {found}",
            "depend on arguments and seed only, not on other state of the process.",
        )


def _play_in_child(
    make_env: Any, env_kwargs: Mapping[str, Any], seed: int, n_rows: int, actions: list[list[Any]]
) -> Recording:
    """Play these actions and return the recording without env_info."""
    case = EnvCase(make_env, env_kwargs, Report("worker", {}), seed, n_rows=n_rows)
    case.adopt(case.build())
    try:
        run = case.replay(len(actions), actions=actions.__getitem__)
        return Recording(run.first, [[s._replace(info=None) for s in at] for at in run.steps])
    finally:
        case.close()


def check_close(case: EnvCase) -> None:
    """Check that closing works before the first reset, and twice."""
    for state in ("before the first reset", "after a reset"):
        env = case.build()
        if not hasattr(env, "close"):
            case.report.warning("close() is missing", "derive from rlpyt.envs.base.Env.")
            return
        if state == "after a reset":
            env.reset()
        for time in ("first", "second"):
            try:
                env.close()
            except Exception as error:
                text = f"the {time} close() {state} raised {type(error).__name__}: {error}"
                case.report.error(text, "make close() harmless at any time and when repeated.")
                return
