"""Process-wide settings of environments that run in the process of the trainer.

An environment may seed the global generators, change the working directory, or set torch's default
dtype. In a worker process this concerns the worker alone. In the trainer's process, `Surroundings`
keeps two values of each setting that an environment has changed: the environment's, in force while
environments run, and the trainer's, in force otherwise. Settings that no environment has changed
are not touched. All settings are compared in the first calls, then ever more rarely; the
generators that the trainer draws from and the default dtype in every call (grad mode and autocast
end with the inference mode of a call).
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import locale
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.utils.processes import set_signal_handlers, signal_handlers
from rlpyt.utils.seed import random_state, set_random_state, undisturbed

NUMPY_RANDOM: Any = np.random  # numpy's types leave some functions out
N_FIRST = 16  # calls that are all checked; later ones are at powers of two


class Setting(NamedTuple):
    """A setting of the process: its name, and how to read and to set it."""

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], object]
    is_generator: bool = False
    shared: bool = True  # False: environments do not get their own value back


def _torch_generators() -> Any:
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if used else []
    return torch.initial_seed(), torch.get_rng_state(), cuda


def _set_torch_generators(state: Any) -> None:
    torch.set_rng_state(state[1])
    if state[2]:
        torch.cuda.set_rng_state_all(state[2])


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return None


def _enter_directory(path: str | None) -> None:
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            os.chdir(path)


def _set_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # any device slows torch


def _set_torch_print_options(options: Any) -> None:
    vars(torch._tensor_str.PRINT_OPTS).update(vars(options))


def _umask() -> int:
    with contextlib.suppress(OSError, IndexError):  # Linux tells it without a change
        return int(Path("/proc/self/status").read_text().split("Umask:")[1].split()[0], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _autocast() -> tuple[bool, torch.dtype]:
    return torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")


def _set_autocast(state: tuple[bool, torch.dtype]) -> None:
    torch.set_autocast_enabled("cpu", state[0])
    torch.set_autocast_dtype("cpu", state[1])


def _flushes_denormals() -> bool:
    smallest = torch.tensor([torch.finfo(torch.float64).smallest_normal], dtype=torch.float64)
    return (smallest / 2).item() == 0


def _set_deterministic(state: Any) -> None:
    torch.use_deterministic_algorithms(state[0], warn_only=state[1])


PYTHON = Setting("Python's random generator", random.getstate, random.setstate, True)
NUMPY = Setting("numpy's random generator", np.random.get_state, np.random.set_state, True)
TORCH = Setting("torch's random generator", _torch_generators, _set_torch_generators, True)
DTYPE = Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype)
SETTINGS = (
    PYTHON,
    NUMPY,
    TORCH,
    DTYPE,
    Setting("torch's grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Setting("torch's autocast", _autocast, _set_autocast),
    Setting("the working directory", _working_directory, _enter_directory),
    Setting("the file mode mask (umask)", _umask, os.umask),
    Setting("torch's default device", torch.get_default_device, _set_default_device),
    Setting("torch's flushing of denormals", _flushes_denormals, torch.set_flush_denormal),
    Setting("the number of torch threads", torch.get_num_threads, torch.set_num_threads),
    Setting(
        "torch's use of deterministic algorithms",
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        _set_deterministic,
    ),
    Setting(
        "torch's matmul precision",
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    Setting(
        "torch's print options",
        lambda: copy.copy(torch._tensor_str.PRINT_OPTS),
        _set_torch_print_options,
    ),
    Setting(
        "numpy's print options",
        np.get_printoptions,
        lambda options: np.set_printoptions(**options),
    ),
    Setting("numpy's error handling", np.geterr, lambda kinds: np.seterr(**kinds)),
    Setting(
        "the locale",
        lambda: locale.setlocale(locale.LC_ALL),
        lambda name: locale.setlocale(locale.LC_ALL, name),
    ),
    # Ctrl-C stops a run at all times.
    Setting("signal handlers", signal_handlers, set_signal_handlers, shared=False),
)

# Functions that put a generator at the start of another stream, which depends on the state of the
# generator and on a number. From the trainer's own state environments would draw its numbers.
ANEW: dict[Setting, Callable[[int], object]] = {
    PYTHON: lambda n: random.seed(random.getrandbits(64) + n),
    NUMPY: lambda n: np.random.seed(np.random.randint(2**31) + n),
    TORCH: lambda n: torch.default_generator.manual_seed(int(torch.randint(2**62, ())) + n),
}


class Surroundings:
    """Keeps settings of the process apart that environments change.

    Args:
        who: name of the environment, for the warning; empty: do not warn.
    """

    def __init__(self, who: str = "") -> None:
        self._who = who
        self._changed: dict[Setting, Any] = {}  # value of the environments
        self._n_calls = self._n_trials = 0
        self._watch = _Watch(self)

    @property
    def changed(self) -> list[str]:
        """Return the names of the settings that are kept apart."""
        return [setting.name for setting in self._changed]

    def around(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context for a call in which environments step and the agent may act."""
        self._n_calls += 1
        n = self._n_calls
        if n <= N_FIRST or not n & (n - 1):
            return self.checked(acting=True)
        return self._swapped_and_watched() if self._changed else self._watch

    @contextlib.contextmanager
    def checked(self, acting: bool = False) -> Iterator[None]:
        """Keep every setting apart that changes in this block, from now on.

        Args:
            acting: True if the agent may act, which draws from global generators.
        """
        before = [setting.get() for setting in SETTINGS]
        found = []
        with self._swapped():
            self._n_trials += 1
            own = [] if acting else [x for x in ANEW if x not in self._changed]
            for setting in own:
                ANEW[setting](self._n_trials)
            start = [
                setting.get() if setting.is_generator or setting in self._changed else old
                for setting, old in zip(SETTINGS, before)
            ]
            try:
                yield
            finally:
                for setting, old, first in zip(SETTINGS, before, start):
                    new = setting.get()
                    if acting and setting is TORCH:  # agents draw from it, so compare the seeds
                        unchanged = first[0] == new[0]
                    else:
                        unchanged = same(first, new)
                    if setting in self._changed:
                        continue
                    if not unchanged:
                        self._keep(setting, old)
                        found.append(setting.name)
                    elif setting in own:
                        setting.set(old)
        self._warn(found, acting)

    def keep_apart(self, changed: dict[Setting, Any]) -> None:
        """Keep settings apart from now on, which have just been changed.

        Args:
            changed: the trainer's values, put in force again.
        """
        new = {setting: value for setting, value in changed.items() if setting not in self._changed}
        for setting, value in new.items():
            self._keep(setting, value)
        self._warn([setting.name for setting in new], True)

    def _keep(self, setting: Setting, old: Any) -> None:
        """Keep the present value for environments, and put the trainer's in force again.

        A generator that environments have drawn from does not go on from there: the trainer will
        draw the same numbers. A seed stays in force.
        """
        if setting in (PYTHON, NUMPY) and _draws_lead(old, setting.get()):
            ANEW[setting](0)
        self._changed[setting] = setting.get()
        setting.set(old)

    def _warn(self, found: list[str], acting: bool) -> None:
        if found and self._who:
            who = f"{self._who}{' or its agent' if acting else ''}"
            warnings.warn(
                f"{who} changes {', '.join(found)} of this process. Training keeps its own, and "
                "environments theirs. Let the environment use its own generators "
                "(self.np_random of gymnasium.Env) and restore what it sets, or run it in worker "
                "processes (CpuSampler; --sampler.kind cpu).",
                stacklevel=2,
            )

    @contextlib.contextmanager
    def _swapped_and_watched(self) -> Iterator[None]:
        with self._swapped(), self._watch:
            yield

    @contextlib.contextmanager
    def _swapped(self) -> Iterator[None]:
        """Put the environments' values of changed settings in force for a block."""
        changed = list(self._changed)
        trainer = [setting.get() for setting in changed]
        for setting in changed:
            if setting.shared:
                setting.set(self._changed[setting])
        try:
            yield
        finally:
            for setting, value in zip(changed, trainer):
                self._changed[setting] = setting.get()
                setting.set(value)

    def state_dict(self) -> dict[str, Any]:
        """Return the environments' random generators, if they are kept apart."""
        names = [setting.name for setting in self._changed if setting.is_generator]
        if not names:
            return {}
        with self._swapped():
            state = random_state()
        state.pop("cuda", None)
        return {"names": names, "random": state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state from ``state_dict``."""
        if state:
            names = set(state["names"])
            for setting in SETTINGS:
                if setting.name in names:
                    self._changed.setdefault(setting, setting.get())
            with undisturbed(), self._swapped():
                set_random_state(state["random"])


def _draws_lead(before: Any, after: Any) -> bool:
    """Return True if a generator gets from one state to the other by draws alone.

    Those of numpy and ``random`` have 624 words, which are replaced after as many draws. At most
    100 rounds are tried.
    """
    generator = NUMPY_RANDOM.RandomState()
    generator.set_state(("MT19937", *_words(before)))
    words, _ = _words(after)
    for _ in range(100):
        if np.array_equal(generator.get_state()[1], words):
            return True
        generator.bytes(4 * 624)
    return False


def _words(state: Any) -> tuple[Any, int]:
    """Return the words of a state, [624], and the position of the next one."""
    if isinstance(state[0], str):  # numpy's
        return state[1], int(state[2])
    return np.array(state[1][:-1], np.uint32), state[1][-1]


def mark_torch_seed() -> None:
    """Change the seed that torch's generator reports, but none of its numbers.

    An environment that seeds torch is recognized by the seed; it may use the same one as the run.
    """
    state = torch.get_rng_state()
    seed = (torch.initial_seed() + 0x9E3779B97F4A7C15) % 2**63
    state[:8] = torch.frombuffer(bytearray(seed.to_bytes(8, sys.byteorder)), dtype=torch.uint8)
    torch.set_rng_state(state)


class _Watch:
    """Context that compares what the trainer's results depend on, in a few microseconds."""

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._seed = torch.default_generator.initial_seed
        self._bits = bits = NUMPY_RANDOM.get_bit_generator()  # kept: its memory is read
        words = ctypes.c_uint32 * 625  # numpy's generator: 624 words and a position
        twister = isinstance(bits, np.random.MT19937)
        self._numpy = words.from_address(bits.ctypes.state_address) if twister else words()
        self._numpy_before = words()
        self._bytes = memoryview(self._numpy).cast("B")
        self._bytes_before = memoryview(self._numpy_before).cast("B")
        self._before: tuple[int, torch.dtype] = (0, torch.float32)  # torch's seed, default dtype

    def __enter__(self) -> None:
        self._bytes_before[:] = self._bytes
        self._before = self._seed(), torch.get_default_dtype()

    def __exit__(self, *exception: object) -> None:
        if NUMPY_RANDOM.get_bit_generator() is not self._bits:
            NUMPY_RANDOM.set_bit_generator(self._bits)
        before, after = self._before, (self._seed(), torch.get_default_dtype())
        # Each number moves the position. Seeds and a new round change the words, not all the first.
        now, then = self._numpy, self._numpy_before
        moved = now[624] != then[624] or now[1] != then[1] or now[623] != then[623]
        if not moved and before == after:
            return
        changed: dict[Setting, Any] = {}
        if moved:
            changed[NUMPY] = ("MT19937", np.array(then[:624], np.uint32), then[624])
        if before[0] != after[0]:
            # The state before is lost: to copy it for every call would take longer than the rest.
            words = np.random.SeedSequence([before[0], after[0]]).generate_state(1, np.uint64)
            seed = int(words[0])
            cuda = [f"cuda:{i}" for i in range(len(_torch_generators()[2]))]
            states = [torch.Generator(x).manual_seed(seed).get_state() for x in ("cpu", *cuda)]
            changed[TORCH] = (seed, states[0], states[1:])
        if before[1] != after[1]:
            changed[DTYPE] = before[1]
        self._surroundings.keep_apart(changed)


def same(a: Any, b: Any) -> bool:
    """Return True if two values of settings are equal."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    try:
        return bool(a == b)
    except (ValueError, RuntimeError):  # ambiguous: there are arrays or tensors among its elements
        return len(a) == len(b) and all(map(same, a, b))
