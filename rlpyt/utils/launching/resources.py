"""A machine's cores and GPUs, the share that each run gets, and the code string that says both.

    0slt_16cpu_4gpu_2gpr    run slot 0 of a machine of 16 cores and 4 GPUs, of which a run gets 2

A code is parts joined by underscores, each a number and what it counts. Numbers of cores are
logical: the first core is the first that a process may use, see ``placement``.
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
    """A code cannot be read, or asks for what cannot be shared out."""


@dataclass(frozen=True)
class Resources:
    """Hardware of a machine, and its division among runs.

    Runs take numbered slots, each with as many cores, in order. Without GPUs ``gpu_per_run`` is the
    number of ranks that share a run's cores.

    Raises:
        TypeError, ValueError: a number is none, or too small.
    """

    n_cpu_core: int = 1  # of the machine, physical ones
    n_gpu: int = 0  # of the machine
    contexts_per_gpu: int = 1  # runs that share each GPU
    gpu_per_run: int = 1  # for optimizing, a rank on each
    cpu_per_run: int = 1  # cores of a run; with GPUs it is what there is for each run
    cpu_per_worker: int = 1  # more than 1 if environments are multi-threaded
    cpu_reserved: int = 0  # cores per rank that no worker gets; asynchronous runs: at least 1
    # From a core's first hardware thread to its second; 0: second threads are not used.
    hyperthread_offset: int = None  # type: ignore[assignment]  # None: n_cpu_core
    n_socket: int = 1  # processors with an equal share of cores and GPUs
    run_slot: int | None = None  # which run; None: the machine as a whole is meant
    async_sample: bool = False  # sampling beside optimizing
    sample_gpu_per_run: int = 0  # asynchronous runs: action servers with a GPU each
    optim_sample_share_gpu: bool = False  # ... which are those of the optimizer
    alternating: bool = False  # two workers where there would be one
    set_affinity: bool = True  # whether processes are pinned at all

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "hyperthread_offset":
                value = self.n_cpu_core
            if field.type is bool:
                object.__setattr__(self, field.name, bool(value))
            elif not (field.name == "run_slot" and value is None):
                value = whole_number(field.name, value, _LEAST.get(field.name, 0))
                object.__setattr__(self, field.name, value)

    # The codec.

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, int]) -> "Resources":
        """From what a code's parts say, such as ``{"cpu": 16, "gpu": 4}``.

        Raises:
            AffinityError: it does not say how many cores there are, or a run gets.
        """
        code = "_".join(f"{number}{short}" for short, number in numbers.items())
        if "cpu" not in numbers:
            raise AffinityError(f"affinity code {code!r} lacks the machine's cores, such as 8cpu.")
        if not numbers.get("gpu") and "cpr" not in numbers:
            raise AffinityError(
                f"affinity code {code!r} has no GPUs, so it must say how many cores a run gets, "
                f"such as {numbers['cpu']}cpr."
            )
        known = {short: name for name, short in ABBREVIATIONS.items()}
        try:
            named: dict[str, Any] = {known[short]: number for short, number in numbers.items()}
            return cls(**named)
        except (TypeError, ValueError) as error:
            raise AffinityError(f"affinity code {code!r}: {error}") from None

    @classmethod
    def from_code(cls, code: str) -> "Resources":
        """Read a code, with a run slot or without.

        Raises:
            AffinityError: it is malformed.
        """
        return cls.from_numbers(parse(code))

    def to_code(self) -> str:
        """Write the code, without the parts that have their default values."""
        parts = [f"{self.n_cpu_core}cpu", f"{self.n_gpu}gpu"]
        if not self.n_gpu:
            parts.append(f"{self.cpu_per_run}cpr")
        for name, short in ABBREVIATIONS.items():
            value = getattr(self, name)
            if value != self._default(name) and short not in ("cpu", "gpu", "cpr", "slt"):
                parts.append(f"{int(value)}{short}")
        slot = [] if self.run_slot is None else [f"{self.run_slot}slt"]
        return "_".join([*slot, *parts])

    def _default(self, name: str) -> Any:
        return self.n_cpu_core if name == "hyperthread_offset" else getattr(Resources, name)

    # How the machine is shared out.

    @property
    def n_ranks(self) -> int:
        """Processes of a run that optimize."""
        return self.gpu_per_run

    @property
    def reserved(self) -> int:
        """Cores per rank that no worker gets; an optimizer beside samplers needs one itself."""
        return max(1, self.cpu_reserved) if self.async_sample else self.cpu_reserved

    @property
    def n_samplers(self) -> int:
        """Samplers with workers of their own in a run; with ``async_sample`` apart from ranks."""
        return max(1, self.n_sample_gpus) if self.async_sample else self.n_ranks

    @property
    def n_sample_gpus(self) -> int:
        """GPUs on which the samplers of an asynchronous run act."""
        if not (self.async_sample and self.n_gpu):
            return 0
        if self.optim_sample_share_gpu:
            return min(self.sample_gpu_per_run or self.gpu_per_run, self.gpu_per_run)
        return self.sample_gpu_per_run

    @property
    def gpus_of_a_run(self) -> int:
        """All GPUs that a run has, 0 if there are none."""
        if not self.n_gpu:
            return 0
        return self.gpu_per_run + (0 if self.optim_sample_share_gpu else self.n_sample_gpus)

    @property
    def n_run_slots(self) -> int:
        """Return the number of runs that fit at a time."""
        if not self.n_gpu:
            return self.n_cpu_core // self.cpu_per_run
        return self.n_gpu // self.gpus_of_a_run * self.contexts_per_gpu

    @property
    def sockets(self) -> int:
        """Into how many blocks cores are divided; 1 if they do not divide evenly."""
        return self.n_socket if self.n_cpu_core % self.n_socket == 0 else 1

    @property
    def cores_per_socket(self) -> int:
        """From the first core of a socket to the first of the next, unused ones included."""
        return max(self.n_cpu_core, self.hyperthread_offset) // self.sockets

    @property
    def n_used_cores(self) -> int:
        """Cores in use; those that cannot be shared out evenly among sockets are not."""
        return self.n_cpu_core // self.sockets * self.sockets

    def machine_cores(self, start: int = 0, end: int | None = None) -> list[int]:
        """The cores in use, those of each socket together; all, or from one place to another."""
        own, stride = self.n_cpu_core // self.sockets, self.cores_per_socket
        places = range(self.n_used_cores)[start:end]
        return [at // own * stride + at % own for at in places]

    @property
    def shares_per_run(self) -> int:
        """Equal shares of the cores that a run has: one for each GPU, or else one."""
        return self.gpu_per_run if self.n_gpu and not self.async_sample else 1

    @property
    def n_shares(self) -> int:
        """Equal shares of the machine's cores, those of GPUs that are in no run included."""
        per_gpu = self.n_gpu and not self.async_sample
        return self.n_gpu * self.contexts_per_gpu if per_gpu else self.n_run_slots

    @property
    def share_size(self) -> int:
        """Cores in a share; 0 if shares have less than one."""
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
        if not size:  # more runs than cores: they share
            start = number * used // n
        elif n % self.sockets == 0:
            socket, within = divmod(number, n // self.sockets)
            start = socket * (used // self.sockets) + within * size
        else:
            start = number * size
        return tuple(self.machine_cores(start, start + max(1, size)))

    def run_gpus(self) -> tuple[list[int | None], list[int | None]]:
        """Return the GPU of each rank (``None`` without), and those of asynchronous samplers.

        On each socket of an asynchronous run the first GPUs optimize and the others sample.
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

    # Saying what is wrong.

    def checked(self) -> "Resources":
        """Return this object if there is at least one run slot.

        Raises:
            AffinityError: a run needs more GPUs or cores than the machine has.
        """
        if self.gpus_of_a_run > self.n_gpu:
            wants = f"{self.gpu_per_run} GPUs to optimize"
            wants += f" and {self.n_sample_gpus} to sample" if self.n_sample_gpus else ""
            raise self._error(
                f"a run wants {wants}, the machine has {self.n_gpu}: raise n_gpu (gpu), lower "
                "gpu_per_run (gpr) or sample_gpu_per_run (sgr), or let both share "
                "(optim_sample_share_gpu, 1oss)"
            )
        if not self.n_run_slots:
            raise self._error(
                f"a run wants {self.cpu_per_run} cores, the machine has {self.n_cpu_core}: lower "
                "cpu_per_run (cpr)"
            )
        return self

    def conflicts(self) -> list[str]:
        """Return where runs or processes would use the same cores, and settings without effect."""
        found = []
        if not self.share_size:
            found.append(
                f"{counted(self.n_used_cores, 'core')} for {self.n_shares} runs: runs share cores"
            )
        if 0 < self.hyperthread_offset < self.n_cpu_core:
            found.append(
                f"hyperthread_offset (hto) {self.hyperthread_offset} is less than n_cpu_core="
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
        """The run slot.

        Raises:
            AffinityError: there is none, or no such.
        """
        if self.run_slot is None:
            raise AffinityError(
                f"affinity code {self.to_code()!r} does not say which run slot: put one before it, "
                f"as in '0slt_{self.to_code()}' (`prepend_run_slot`)."
            )
        if self.run_slot >= self.n_run_slots:
            raise self._error(
                f"there is no run slot {self.run_slot}, only 0 to {self.n_run_slots - 1}"
            )
        return self.run_slot

    def notes(self) -> list[str]:
        """Return conflicts, and what is left over where numbers do not divide evenly."""
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
        """The code in words, for error messages and `rlpyt affinity`."""
        named = ((name, getattr(self, name)) for name in ABBREVIATIONS)
        always = ("n_cpu_core", "n_gpu", *(() if self.n_gpu else ("cpu_per_run",)))
        said = [f"{k}={v}" for k, v in named if k in always or v != self._default(k)]
        return ", ".join(said)

    def _error(self, what: str) -> AffinityError:
        return AffinityError(
            f"affinity code {self.to_code()!r}: {what}. It says {self.describe()}."
        )


def parse(code: str) -> dict[str, int]:
    """The parts of a code, such as ``{"cpu": 16, "gpu": 4}`` of "16cpu_4gpu".

    Raises:
        AffinityError: a part is unknown, repeated, or no number.
    """
    numbers: dict[str, int] = {}
    for part in str(code).split("_"):
        match = re.fullmatch(r"(\d{1,9})([a-z]{3})", part, re.ASCII)
        if match is None:
            raise AffinityError(
                f"affinity code {code!r}: cannot read {part!r}; parts are a number and three "
                "letters, joined by underscores, as in 0slt_8cpu_2gpu."
            )
        short = match[2]
        if short not in ABBREVIATIONS.values():
            raise AffinityError(
                f"affinity code {code!r}: unknown part {part!r}; known are "
                f"{', '.join(ABBREVIATIONS.values())} (`rlpyt affinity --help` explains them)."
            )
        if short in numbers:
            raise AffinityError(f"affinity code {code!r} says {short!r} twice.")
        numbers[short] = int(match[1])
    return numbers


def is_code(thing: Any) -> bool:
    """Return True if this looks like an affinity code rather than some other word."""
    return isinstance(thing, str) and re.match(r"\d+[a-z]{3}(_|$)", thing) is not None


def divided(cores: tuple[int, ...], parts: int) -> list[tuple[int, ...]]:
    """Return equal parts without the remainder; parts share numbers where there are too few."""
    each = len(cores) // parts
    if not each:
        return [(cores[i * len(cores) // parts],) for i in range(parts)]
    return [cores[i * each : (i + 1) * each] for i in range(parts)]
