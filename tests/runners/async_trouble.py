"""Asynchronous runs that get into trouble, and what must be left of them."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer
from rlpyt.runners.async_rl import AsyncRl, AsyncRlEval
from rlpyt.runners.hooks import Hook
from rlpyt.samplers.async_.cpu_sampler import AsyncCpuSampler  # noqa: F401
from rlpyt.samplers.async_.gpu_sampler import AsyncGpuSampler  # noqa: F401
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.utils.checkpoint import load_checkpoint
from rlpyt.utils.logging.context import run_context
from tests.faulty import FaultyEnv

T, B = 5, 4
ENDLESS = 10**6  # iterations
ONE = dict(sampler=dict(n_workers=2), optimizer=dict(torch_threads=1))
TWO = dict(sampler=[dict(n_workers=1), dict(n_workers=1)], optimizer=dict(torch_threads=1))


class Disaster(Hook):
    """Has something happen after an iteration.

    Attributes:
        family: processes that there were just before, helpers of multiprocessing aside.
        happened: when it did.
    """

    def __init__(self, itr, happen):
        self.itr, self.happen = itr, happen
        self.family, self.happened = [], None

    def on_iteration(self, runner, itr):
        if itr == self.itr:
            self.family = [*family_of(os.getpid())]
            self.happened = time.monotonic()
            self.happen(runner)


class PauseAfter(Hook):
    """Ends the run after an iteration."""

    def __init__(self, itr):
        self.itr = itr

    def on_iteration(self, runner, itr):
        if itr == self.itr:
            runner.request_stop()


def family_of(pid):
    """All that descends from a process, but for its own idle helpers."""
    for child in psutil.Process(pid).children(recursive=True):
        helps = any("multiprocessing" in part for part in child.cmdline())
        if not (helps and child.ppid() == pid):
            yield child


def host(runner, i=0):
    """The pid of a sampler process."""
    return runner.sampler.processes[i].pid


def worker(runner, i=0):
    """The pid of some worker of the first sampler process."""
    (server,) = psutil.Process(host(runner)).children()
    return server.children()[i].pid


def copier(runner):
    """The pid of the replay writer."""
    return runner._replay_writer.processes[0].pid


def send(number, whom):
    """Send a signal to one of the above."""
    return lambda runner: os.kill(whom(runner), number)


class LostAgent(DqnMlpAgent):
    """Fails at its 40th step, in whichever process it acts."""

    calls = 0

    def step(self, *inputs):
        self.calls += 1
        if self.calls == 40:
            raise ZeroDivisionError("the agent is lost")
        return super().step(*inputs)


class DiesTaking(DqnMlpAgent):
    """Is killed, process and all, while it takes its parameters for the tenth batch."""

    calls = 0

    def recv_shared_memory(self):
        self.calls += 1
        if self.calls == 10:
            assert self.mailbox.lock.acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        super().recv_shared_memory()


class SlowDQN(DQN):
    """Learns more slowly than any sampler samples."""

    def update(self, batch):
        time.sleep(0.005)
        return super().update(batch)


class FirstRankHangs(DQN):
    """Its first rank sleeps for ever in its seventh call."""

    def optimize_agent(self, itr, samples=None, sampler_itr=None):
        if self.rank == 0 and itr == 6:
            time.sleep(10**6)
        return super().optimize_agent(itr, samples, sampler_itr)


class DiesWriting(AsyncUniformReplayBuffer):
    """A replay whose copier is killed with the lock held, in the middle of the sixth batch."""

    written = 0

    def compute_returns(self, T):
        self.written += 1
        if self.written == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        super().compute_returns(T)


class DiesWaiting(AsyncUniformReplayBuffer):
    """A replay whose copier is killed while it acquires the lock, before the sixth batch."""

    written = 0

    def append_samples(self, *args, **kwargs):
        self.written += 1
        if self.written == 6:
            assert self.rw_lock._turnstile.acquire()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().append_samples(*args, **kwargs)


def runner_for(
    Sampler=AsyncSerialSampler,
    name="dqn",
    Runner=AsyncRl,
    n_itr=ENDLESS,
    env=None,
    settings=None,
    Algo=DQN,
    Agent=DqnMlpAgent,
    sampler=None,
    **kwargs,
):
    """A runner over ``FaultyEnv``, as constructed."""
    evaluation = dict(eval_n_envs=2, eval_max_steps=400)
    made = Sampler(
        FaultyEnv,
        env or dict(fault="none"),
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
        **{**(evaluation if issubclass(Runner, AsyncRlEval) else {}), **(sampler or {})},
    )
    if name == "dqn":
        small = dict(batch_size=16, min_steps_learn=3 * T * B, replay_size=4000, replay_ratio=2)
        algo = Algo(**{**small, **(settings or {})})
        agent = Agent(model_kwargs=dict(hidden_sizes=[16]))
    else:
        algo, agent = VTrace(), CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[16]))
    return Runner(
        algo=algo, agent=agent, sampler=made, n_steps=n_itr * T * B,
        **{**dict(seed=4, affinity=ONE, log_interval_steps=50 * T * B), **kwargs},
    )  # fmt: skip


def run_into(error, match, run_dir, disaster=None, within_s=15.0, **kwargs):
    """Train until the error comes, soon after the disaster, and nothing is left of the run.

    Returns:
        (the error, the runner).
    """
    hooks = [disaster] if disaster else []
    runner = runner_for(hooks=hooks, checkpoint_dir=run_dir / "checkpoint", **kwargs)
    with pytest.raises(error) as caught, run_context(run_dir, 0, "run"):
        runner.train()
    assert re.search(match, said(caught.value), re.DOTALL), said(caught.value)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("feed")]
    if disaster:
        assert time.monotonic() - disaster.happened < within_s
        check_gone(disaster.family)
    return caught.value, runner


def said(error):
    """An error with its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])


def check_gone(family, patience_s=10.0):
    """These processes end; zombies that nobody fetches have ended."""
    assert family
    deadline = time.monotonic() + patience_s
    while alive := [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def check_resumes(run_dir, Sampler=AsyncSerialSampler, name="dqn", more=8, **kwargs):
    """The run goes on from its checkpoint, to an end a few iterations later.

    Returns:
        the state that the checkpoint held.
    """
    state = load_checkpoint(run_dir / "checkpoint").state
    n_itr = max(state["itr"] + 1, state["counters"]["async"]["feed"]["next_itr"]) + more
    runner = runner_for(
        Sampler, name, n_itr=n_itr, checkpoint_dir=run_dir / "checkpoint",
        resume_from=run_dir / "checkpoint", **kwargs,
    )  # fmt: skip
    before = state["algo"]["update_counter"]
    with run_context(run_dir, 0, "run", resume=True):
        runner.train()
    assert runner.start_itr == state["itr"] + 1 and runner.itr == n_itr - 1
    assert runner.algo.update_counter > before
    return state


PROGRAM = """
import sys
from tests.runners.async_trouble import *

runner = runner_for(
    checkpoint_dir={run_dir!r} + "/checkpoint", hooks=[Tell()], {settings}
)
with run_context({run_dir!r}, 0, "run"):
    runner.train()
"""


class Tell(Hook):
    """Says how far the run is."""

    def on_start(self, runner):
        print("started", flush=True)

    def on_iteration(self, runner, itr):
        if itr == 5:
            print("learning", flush=True)
        if itr > 5 and runner.pipeline.evaluating:
            print("evaluating", flush=True)


class Program:
    """A run in a program of its own, which leads a group as programs in terminals do.

    Attributes:
        family: its processes when it was struck.
    """

    def __init__(self, run_dir, **settings):
        shown = ", ".join(
            f"{k}={v.__name__ if isinstance(v, type) else repr(v)}" for k, v in settings.items()
        )
        code = PROGRAM.format(settings=shown, run_dir=str(run_dir))
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid, self.family = self.process.pid, []

    def wait_for(self, said):
        """Until it has said this; what it said before."""
        before = []
        for line in self.process.stdout:
            before.append(line)
            if line == f"{said}\n":
                return
        raise AssertionError("".join(before) + self.process.stderr.read())

    def strike(self, number):
        """A signal to it alone, if it cannot be caught; to the group otherwise."""
        self.family = psutil.Process(self.pid).children(recursive=True)
        os.kill(self.pid, number) if number == signal.SIGKILL else os.killpg(self.pid, number)

    def end(self):
        """Wait until it has ended, with all that it started; (output, errors)."""
        try:
            said = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
            self.process.communicate()
        check_gone(self.family)
        return said

    @property
    def returncode(self):
        """Its exit code."""
        return self.process.returncode
