"""A machine's cores and GPUs, the share of each run, and the affinity code that encodes both.

    0slt_16cpu_4gpu_2gpr    run slot 0 of a machine of 16 cores and 4 GPUs, of which a run gets 2

A code consists of parts joined by underscores, each a number and an abbreviation. Core numbers are
logical: core 0 is the first that a process may use, see ``placement``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rlpyt.utils.checks import whole_number
from rlpyt.utils.text import counted

ABBREVIATIONS = {
    "n_cpu_core": "cpu",
    "n_gpu": "gpu",
    "contexts_per_gpu": "cxg",
    "gpu_per_run": "gpr",
    "cpu_per_run": "cpr",
    "cpu_per_worker": "cpw",
    "hyperthread_offset": "hto",
    "n_socket": "skt",
    "cpu_reserved": "res",
    "async_sample": "ass",
    "sample_gpu_per_run": "sgr",
    "optim_sample_share_gpu": "oss",
    "alternating": "alt",
    "set_affinity": "saf",
    "run_slot": "slt",
}
_LEAST = {"n_cpu_core": 1, "contexts_per_gpu": 1, "gpu_per_run": 1, "cpu_per_run": 1}
_LEAST |= {"cpu_per_worker": 1, "n_socket": 1}


class AffinityError(ValueError):
    """Malformed affinity code, or one whose resources cannot be divided as requested."""


@dataclass(frozen=True)
class Resources:
    """Hardware of a machine and its division among runs.

    Runs occupy numbered slots with equal numbers of cores, in order. Without GPUs ``gpu_per_run``
    is the number of ranks that share a run's cores.

    Raises:
        TypeError, ValueError: a value is not an integer, or is too small.
    """

    n_cpu_core: int = 1  # physical cores of the machine
    n_gpu: int = 0  # GPUs of the machine
    contexts_per_gpu: int = 1  # runs that share each GPU
    gpu_per_run: int = 1  # GPUs for optimizing, one rank each
    cpu_per_run: int = 1  # cores of a run; with GPUs cores are divided evenly instead
    cpu_per_worker: int = 1  # more than 1 if environments are multi-threaded
    cpu_reserved: int = 0  # cores per rank not used by workers; asynchronous runs: at least 1
    # From a core's first hardware thread to its second; 0: second threads are not used; None: not
    # known, and taken as n_cpu_core. See ``thread_offset``.
    hyperthread_offset: int | None = None
    n_socket: int = 1  # sockets with an equal share of cores and GPUs
    run_slot: int | None = None  # index of the run; None: the complete machine
    async_sample: bool = False  # sampling and optimizing in parallel
    sample_gpu_per_run: int = 0  # asynchronous runs: action servers with a GPU each
    optim_sample_share_gpu: bool = False  # ... which share the optimizer's GPUs
    alternating: bool = False  # two workers in place of one
    set_affinity: bool = True  # pin processes to cores

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is bool:
                object.__setattr__(self, field.name, bool(value))
            elif value is not None or field.default is not None:
                value = whole_number(field.name, value, _LEAST.get(field.name, 0))
                object.__setattr__(self, field.name, value)

    # Encoding and decoding.

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, int]) -> "Resources":
        """Build from the parts of a code, such as ``{"cpu": 16, "gpu": 4}``.

        Raises:
            AffinityError: the number of cores of the machine, or of a run without GPUs, is missing.
        """
        code = "_".join(f"{number}{short}" for short, number in numbers.items())
        if "cpu" not in numbers:
            raise AffinityError(f"affinity code {code!r} lacks the machine's cores, such as 8cpu.")
        if not numbers.get("gpu") and "cpr" not in numbers:
            raise AffinityError(
                f"affinity code {code!r} has no GPUs and lacks the cores of a run, such as "
                f"{numbers['cpu']}cpr."
            )
        known = {short: name for name, short in ABBREVIATIONS.items()}
        try:
            named: dict[str, Any] = {known[short]: number for short, number in numbers.items()}
            return cls(**named)
        except (TypeError, ValueError) as error:
            raise AffinityError(f"affinity code {code!r}: {error}") from None

    @classmethod
    def from_code(cls, code: str) -> "Resources":
        """Build from a code, with or without a run slot.

        Raises:
            AffinityError: the code is malformed.
        """
        return cls.from_numbers(parse(code))

    def to_code(self) -> str:
        """Return the code, without parts that have their default values."""
        parts = [f"{self.n_cpu_core}cpu", f"{self.n_gpu}gpu"]
        if not self.n_gpu:
            parts.append(f"{self.cpu_per_run}cpr")
        for name, short in ABBREVIATIONS.items():
            value = getattr(self, name)
            usual = value in (None, self._default(name))
            if not usual and short not in ("cpu", "gpu", "cpr", "slt"):
                parts.append(f"{int(value)}{short}")
        slot = [] if self.run_slot is None else [f"{self.run_slot}slt"]
        return "_".join([*slot, *parts])

    def _default(self, name: str) -> Any:
        return self.n_cpu_core if name == "hyperthread_offset" else getattr(Resources, name)

    # Division of the machine.

    @property
    def thread_offset(self) -> int:
        """Distance from a core's first hardware thread to its second; 0: those are not used."""
        return self.n_cpu_core if self.hyperthread_offset is None else self.hyperthread_offset

    @property
    def n_ranks(self) -> int:
        """Number of optimizing processes of a run."""
        return self.gpu_per_run

    @property
    def reserved(self) -> int:
        """Cores per rank not used by workers; an asynchronous optimizer needs at least one."""
        return max(1, self.cpu_reserved) if self.async_sample else self.cpu_reserved

    @property
    def n_samplers(self) -> int:
        """Number of samplers in a run: one per rank, or per sampling GPU if asynchronous."""
        return max(1, self.n_sample_gpus) if self.async_sample else self.n_ranks

    @property
    def n_sample_gpus(self) -> int:
        """Number of GPUs for action selection in an asynchronous run."""
        if not (self.async_sample and self.n_gpu):
            return 0
        if self.optim_sample_share_gpu:
            return min(self.sample_gpu_per_run or self.gpu_per_run, self.gpu_per_run)
        return self.sample_gpu_per_run

    @property
    def gpus_of_a_run(self) -> int:
        """Total number of GPUs of a run, 0 without GPUs."""
        if not self.n_gpu:
            return 0
        return self.gpu_per_run + (0 if self.optim_sample_share_gpu else self.n_sample_gpus)

    @property
    def n_run_slots(self) -> int:
        """Number of runs that fit on the machine in parallel."""
        if not self.n_gpu:
            return self.n_cpu_core // self.cpu_per_run
        return self.n_gpu // self.gpus_of_a_run * self.contexts_per_gpu

    @property
    def sockets(self) -> int:
        """Number of blocks that cores are divided into; 1 if they do not divide evenly."""
        return self.n_socket if self.n_cpu_core % self.n_socket == 0 else 1

    @property
    def cores_per_socket(self) -> int:
        """Distance from the first core of a socket to that of the next, including unused cores."""
        return max(self.n_cpu_core, self.thread_offset) // self.sockets

    @property
    def n_used_cores(self) -> int:
        """Number of cores in use, without the remainder of the division among sockets."""
        return self.n_cpu_core // self.sockets * self.sockets

    def machine_cores(self, start: int = 0, end: int | None = None) -> list[int]:
        """Return the cores in use, grouped by socket, or a slice of them."""
        own, stride = self.n_cpu_core // self.sockets, self.cores_per_socket
        positions = range(self.n_used_cores)[start:end]
        return [i // own * stride + i % own for i in positions]

    @property
    def shares_per_run(self) -> int:
        """Number of equal shares of a run's cores: one per GPU, or one."""
        return self.gpu_per_run if self.n_gpu and not self.async_sample else 1

    @property
    def n_shares(self) -> int:
        """Number of equal shares of the machine's cores, including those of unused GPUs."""
        per_gpu = self.n_gpu and not self.async_sample
        return self.n_gpu * self.contexts_per_gpu if per_gpu else self.n_run_slots

    @property
    def share_size(self) -> int:
        """Number of cores in a share; 0 if there are fewer cores than shares."""
        return self.n_used_cores // self.n_shares if self.n_gpu else self.cpu_per_run

    def rank_cores(self) -> list[tuple[int, ...]]:
        """Return the cores of each rank of this run slot; an asynchronous run has one entry."""
        slot = self.checked_slot()
        if self.async_sample:
            return [self._share(slot)]
        if not self.n_gpu:
            return divided(self._share(slot), self.n_ranks)
        gpus, context = self.run_gpus()[0], slot % self.contexts_per_gpu
        return [self._share((gpu or 0) * self.contexts_per_gpu + context) for gpu in gpus]

    def run_cores(self) -> tuple[int, ...]:
        """Return all cores of this run slot."""
        return tuple(dict.fromkeys(core for own in self.rank_cores() for core in own))

    def _share(self, number: int) -> tuple[int, ...]:
        """Return the cores of a share, on one socket where shares divide evenly among sockets."""
        n, used, size = self.n_shares, self.n_used_cores, self.share_size
        if not size:  # more runs than cores: runs share cores
            start = number * used // n
        elif n % self.sockets == 0:
            socket, within = divmod(number, n // self.sockets)
            start = socket * (used // self.sockets) + within * size
        else:
            start = number * size
        return tuple(self.machine_cores(start, start + max(1, size)))

    def run_gpus(self) -> tuple[list[int | None], list[int | None]]:
        """Return the GPU (or ``None``) of each rank, and the GPUs of asynchronous samplers.

        On each socket of an asynchronous run, the first GPUs optimize and the others sample.
        """
        if not self.n_gpu:
            return [None] * self.n_ranks, []
        size = self.gpus_of_a_run
        first = self.checked_slot() // self.contexts_per_gpu * size
        spanned, rest = divmod(self.sockets, self.n_run_slots)
        if rest or self.n_ranks % spanned or size % spanned:
            spanned = 1
        optimizing: list[int | None] = []
        sampling: list[int | None] = []
        for own in divided(tuple(range(first, first + size)), spanned):
            optimizing += own[: self.n_ranks // spanned]
            sampling += own[self.n_ranks // spanned :]
        if self.optim_sample_share_gpu:
            sampling = optimizing[: self.n_sample_gpus]
        return optimizing, sampling

    # Validation.

    def checked(self) -> "Resources":
        """Return this object if there is at least one run slot.

        Raises:
            AffinityError: a run needs more GPUs or cores than the machine has.
        """
        if self.gpus_of_a_run > self.n_gpu:
            needs = f"{self.gpu_per_run} GPUs to optimize"
            needs += f" and {self.n_sample_gpus} to sample" if self.n_sample_gpus else ""
            raise self._error(
                f"a run needs {needs}, the machine has {self.n_gpu}: raise n_gpu (gpu), lower "
                "gpu_per_run (gpr) or sample_gpu_per_run (sgr), or share GPUs "
                "(optim_sample_share_gpu, 1oss)"
            )
        if not self.n_run_slots:
            raise self._error(
                f"a run needs {self.cpu_per_run} cores, the machine has {self.n_cpu_core}: lower "
                "cpu_per_run (cpr)"
            )
        return self

    def conflicts(self) -> list[str]:
        """Return messages about cores used by several processes and settings without effect."""
        found = []
        if not self.share_size:
            found.append(
                f"{counted(self.n_used_cores, 'core')} for {self.n_shares} runs: runs share cores"
            )
        if 0 < self.thread_offset < self.n_cpu_core:
            found.append(
                f"hyperthread_offset (hto) {self.thread_offset} is less than n_cpu_core="
                f"{self.n_cpu_core}: some second hardware threads are also named as cores"
            )
        needs = self.n_ranks // self.shares_per_run
        if self.async_sample:
            needs = self.n_ranks * self.reserved + self.n_samplers
        if 0 < self.share_size < needs:
            found.append(
                f"a run has {counted(self.share_size, 'core')} and needs {needs}: its processes "
                "share cores"
            )
        if not self.async_sample and (self.sample_gpu_per_run or self.optim_sample_share_gpu):
            found.append(
                "sample_gpu_per_run (sgr) and optim_sample_share_gpu (oss) have no effect without "
                "async_sample (1ass)"
            )
        if self.optim_sample_share_gpu and self.sample_gpu_per_run > self.gpu_per_run:
            found.append(
                f"sample_gpu_per_run (sgr) {self.sample_gpu_per_run} is more than gpu_per_run="
                f"{self.gpu_per_run}: samplers use the {self.gpu_per_run} GPUs of the optimizer"
            )
        return found

    def checked_slot(self) -> int:
        """Return the run slot.

        Raises:
            AffinityError: the run slot is missing or out of range.
        """
        if self.run_slot is None:
            raise AffinityError(
                f"affinity code {self.to_code()!r} lacks a run slot. Put one before it, "
                f"as in '0slt_{self.to_code()}' (`prepend_run_slot`)."
            )
        if self.run_slot >= self.n_run_slots:
            raise self._error(
                f"the run slot must be in 0 to {self.n_run_slots - 1}, got {self.run_slot}"
            )
        return self.run_slot

    def notes(self) -> list[str]:
        """Return conflicts, and messages about resources that do not divide evenly."""
        notes = self.conflicts()
        if self.sockets != self.n_socket:
            notes.append(f"{self.n_cpu_core} cores on {self.n_socket} sockets: taken as one socket")
        elif self.n_shares % self.sockets:
            notes.append(
                f"{self.n_shares} shares of cores on {self.sockets} sockets: some are on two"
            )
        idle = self.n_cpu_core - self.share_size * self.shares_per_run * self.n_run_slots
        if idle and self.share_size:
            notes.append(f"{idle} of {self.n_cpu_core} cores are in no run slot")
        idle = self.n_gpu - self.n_run_slots // self.contexts_per_gpu * self.gpus_of_a_run
        if self.n_gpu and idle:
            notes.append(f"{idle} of {self.n_gpu} GPUs are in no run slot")
        return notes

    def describe(self) -> str:
        """Return the code in words, for error messages and `rlpyt affinity`."""
        named = ((name, getattr(self, name)) for name in ABBREVIATIONS)
        always = ("n_cpu_core", "n_gpu", *(() if self.n_gpu else ("cpu_per_run",)))
        settings = [
            f"{k}={v}" for k, v in named if k in always or v not in (None, self._default(k))
        ]
        return ", ".join(settings)

    def _error(self, problem: str) -> AffinityError:
        return AffinityError(
            f"affinity code {self.to_code()!r}: {problem}. The code means {self.describe()}."
        )


def parse(code: str) -> dict[str, int]:
    """Return the parts of a code: ``{"cpu": 16, "gpu": 4}`` for "16cpu_4gpu".

    Raises:
        AffinityError: a part is malformed, unknown or repeated.
    """
    numbers: dict[str, int] = {}
    for part in str(code).split("_"):
        match = re.fullmatch(r"(\d{1,9})([a-z]{3})", part, re.ASCII)
        if match is None:
            raise AffinityError(
                f"affinity code {code!r}: each part must be a number and three letters, joined by "
                f"underscores, as in 0slt_8cpu_2gpu; got {part!r}."
            )
        short = match[2]
        if short not in ABBREVIATIONS.values():
            raise AffinityError(
                f"affinity code {code!r}: unknown part {part!r}; known are "
                f"{', '.join(ABBREVIATIONS.values())} (`rlpyt affinity --help` explains them)."
            )
        if short in numbers:
            raise AffinityError(f"affinity code {code!r} has {short!r} twice.")
        numbers[short] = int(match[1])
    return numbers


def is_code(thing: Any) -> bool:
    """Return True if this looks like an affinity code."""
    return isinstance(thing, str) and re.match(r"\d+[a-z]{3}(_|$)", thing) is not None


def divided(cores: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Return equal parts without the remainder; parts share cores if there are too few."""
    each = len(cores) // parts
    if not each:
        return [(cores[i * len(cores) // parts],) for i in range(parts)]
    return [cores[i * each : (i + 1) * each] for i in range(parts)]
