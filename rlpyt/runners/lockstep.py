"""Several runs in one thread, which take turns and are answered together.

Each run is a greenlet, with its own logger and random generators. It goes on until it asks for
something that is cheaper for many at once, such as a loss; then the next one runs. When all have
asked, those with the same question get their answers from one computation.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Collection, Hashable
from typing import Any, NamedTuple

import numpy as np
import torch
from greenlet import getcurrent, greenlet

from rlpyt.utils.logging import logger
from rlpyt.utils.processes import set_signal_handlers, signal_handlers

NUMPY_RANDOM: Any = np.random  # numpy's types leave some functions out


class Question(NamedTuple):
    """Request of a run, which waits for the answer.

    Attributes:
        kind: (what is asked, team, ...). Questions of the same kind are answered together, and runs
            of one team ask such questions; teams take turns.
        content: argument of the answering function.
    """

    kind: tuple[Hashable, ...]
    content: Any


class Answer(NamedTuple):
    """Answer to a question: a value, or an error to raise in the run that asked."""

    value: Any = None
    error: BaseException | None = None


class OwnState:
    """State of the process that belongs to one of its runs: logger and random generators."""

    def __init__(self) -> None:
        self.logger = logger.Logger()
        self.numpy = np.random.MT19937()
        self.torch = torch.Generator()
        self.python = PYTHON_RANDOM.get()

    def exchange(self) -> None:
        """Put this state in force, and keep the one that was until now."""
        self.logger = logger.exchange(self.logger)
        bits = NUMPY_RANDOM.get_bit_generator()
        NUMPY_RANDOM.set_bit_generator(self.numpy)
        state = torch.default_generator.get_state()
        torch.default_generator.set_state(self.torch.get_state())
        self.torch.set_state(state)
        python = PYTHON_RANDOM.get()
        PYTHON_RANDOM.set(self.python)
        self.numpy, self.python = bits, python


class _PythonRandom:
    """State of the generator of ``random``.

    ``random.getstate`` builds 625 numbers for each of thousands of exchanges a second. Where they
    are found in the generator's memory, as in CPython, they are copied from there instead.
    """

    def __init__(self) -> None:
        own: Any = random.random.__self__  # type: ignore[attr-defined]
        self._own = own
        *words, position = own.getstate()[1]
        numbers = np.array([position, *words], np.uint32).tobytes()
        start = ctypes.string_at(id(own), sys.getsizeof(own)).find(numbers)
        self._memory: Any = None
        if start >= 0:
            size = ctypes.c_char * len(numbers)
            self._memory = memoryview(size.from_address(id(own) + start)).cast("B")

    def get(self) -> Any:
        """Return the state."""
        if self._memory is None:
            return random.getstate()
        return bytes(self._memory), self._own.gauss_next

    def set(self, state: Any) -> None:
        """Set a state from ``get``."""
        if self._memory is None:
            random.setstate(state)
        else:
            self._memory[:], self._own.gauss_next = state


PYTHON_RANDOM = _PythonRandom()


class Member:
    """One of the runs.

    Attributes:
        state: its logger and random generators, while it is waiting.
        result, error: what its function returned or raised.
    """

    def __init__(self, function: Callable[[Member], Any]) -> None:
        self.state = OwnState()
        self.result: Any = None
        self.error: BaseException | None = None
        self.question: Question | None = None
        self._greenlet = greenlet(lambda: function(self))

    def ask(self, kind: tuple[Hashable, ...], content: Any) -> Any:
        """Wait for an answer; called by the run itself.

        Args:
            kind, content: see `Question`.
        """
        hub = self._greenlet.parent
        assert getcurrent() is self._greenlet and hub is not None
        answer: Answer = hub.switch(Question(kind, content))
        if answer.error is not None:
            raise answer.error
        return answer.value

    def go_on(self, answer: Answer) -> None:
        """Let the run continue until its next question or its end."""
        self.state.exchange()
        try:
            self.question = None
            reply = self._greenlet.switch(*(() if self.begins else (answer,)))
            if self._greenlet.dead:
                self.result = reply
            else:
                self.question = reply
        except BaseException as error:
            self.error = error
        finally:
            self.state.exchange()

    @property
    def begins(self) -> bool:
        """True before the run has begun."""
        return not self._greenlet and not self._greenlet.dead


def run_in_lockstep(
    members: Collection[Member],
    answer: Callable[[tuple[Hashable, ...], list[tuple[Member, Any]]], list[Answer]],
    between: Callable[[], object] = lambda: None,
) -> None:
    """Run all members to their ends; see their ``result`` and ``error``.

    Args:
        members: the runs.
        answer: function that answers questions of one kind, given members and contents.
        between: called before each answer, and when all have ended; it may add to ``members``, and
            remove those that have ended.

    Raises:
        KeyboardInterrupt: a second Ctrl-C stopped all runs at once.
    """
    handlers = signal_handlers()
    try:
        stopped, turns = False, dict[Hashable, int]()
        while True:
            between()
            begun = [m for m in members if m.begins]
            for member in begun:
                if stopped:
                    break
                _go_on(member, Answer())
                _stop_if_interrupted(member, members)
                stopped = isinstance(member.error, SystemExit)  # a signal; `answer` tells others
            waiting = [m for m in members if m.question is not None]
            if not waiting and begun and not stopped:
                continue  # `between` learns of those that have ended at once
            if not waiting:
                return
            kinds: dict[tuple[Hashable, ...], list[Member]] = {}
            for member in waiting:
                assert member.question is not None
                kinds.setdefault(member.question.kind, []).append(member)
            turns = {team: turns.get(team, 0) for _, team, *_ in kinds}
            team = min(turns, key=turns.__getitem__)
            turns[team] = max(turns.values()) + 1
            # Its largest group; the others join it when they ask the same.
            kind, group = max(
                (item for item in kinds.items() if item[0][1] == team),
                key=lambda item: len(item[1]),
            )
            try:
                answers = answer(kind, [(m, m.question.content) for m in group if m.question])
            except BaseException as error:  # Ctrl-C while it computes
                _end(members, error)
                raise
            for member, reply in zip(group, answers, strict=True):
                _go_on(member, reply)
                _stop_if_interrupted(member, members)
    finally:
        set_signal_handlers(handlers)


def _go_on(member: Member, answer: Answer) -> None:
    """Let a run continue; if it ends, keep the signal handlers for the others.

    A run restores those that it has found, which may be those of the process.
    """
    handlers = signal_handlers()
    member.go_on(answer)
    if member.question is None:
        set_signal_handlers(handlers)


def _stop_if_interrupted(member: Member, members: Collection[Member]) -> None:
    """End all runs if one was interrupted."""
    if not isinstance(member.error, KeyboardInterrupt):
        return
    _end(members, member.error)
    raise member.error


def _end(members: Collection[Member], error: BaseException) -> None:
    """Let all runs end with an error, so that they leave their directories and files in order."""
    for member in members:
        while member.question is not None:
            member.go_on(Answer(error=error))
