"""Run the sampler under test and copy everything that it returns."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rlpyt.agents.pg.vector import agent_for
from rlpyt.envs.base import build_env
from rlpyt.samplers.environments import with_rows
from rlpyt.testing.report import Report
from rlpyt.testing.trees import copied
from rlpyt.utils import serialize
from rlpyt.utils.buffer import _named_leaves
from tests.oracles.leaks import left_since, take_stock

PATIENCE_S = 5.0  # for processes and files to be gone after shutdown
EVAL_T = 250  # largest number of steps of each evaluation environment


@dataclass
class Collected:
    """Results of one run.

    Attributes:
        batches: (samples as numpy arrays, entries of trajectories) of each batch.
        kinds: type of the samples, and (path, type) of their leaves, before they were copied.
        evaluations: entries of trajectories of each evaluation.
        state: pickled state after the first batch; ``None`` if there is no ``state_dict``.
        mid_batch_reset: environments are reset within a batch.
    """

    batches: list[tuple[Any, list[dict[str, Any]]]] = field(default_factory=list)
    evaluations: list[list[dict[str, Any]]] = field(default_factory=list)
    kinds: tuple[Any, list[tuple[str, Any]]] = (None, [])
    state: bytes | None = None
    mid_batch_reset: bool = True


@dataclass
class SamplerCase:
    """The sampler under test: builds samplers from the same parts and runs them.

    Attributes:
        SamplerCls, EnvCls, env_kwargs, CollectorCls: as samplers take them.
        make_agent: function that makes an agent, or an agent as constructed; ``None``: a ready one.
        report: takes the findings.
        own, serial: results of the sampler under test, and of the serial sampler.
    """

    SamplerCls: Any
    EnvCls: Any
    env_kwargs: Mapping[str, Any]
    make_agent: Any
    CollectorCls: Any
    report: Report
    batch_T: int = 5
    batch_B: int = 4
    n_workers: int = 2
    n_batches: int = 3
    seed: int = 0
    evaluate: bool = True
    own: Collected = field(default_factory=Collected)
    serial: Collected = field(default_factory=Collected)

    def agent(self) -> Any:
        """Return a new agent; its parameters are equal each time because torch is seeded."""
        if self.make_agent is None:
            return agent_for(self._spaces())
        if hasattr(self.make_agent, "initialize") and not isinstance(self.make_agent, type):
            return serialize.loads(serialize.dumps(self.make_agent))
        return self.make_agent()

    def _spaces(self) -> Any:
        by_rows = getattr(self.EnvCls, "batched", False) and "num_envs" not in self.env_kwargs
        kwargs = dict(self.env_kwargs)
        env = build_env(self.EnvCls, with_rows(self.EnvCls, kwargs, [0]) if by_rows else kwargs)
        try:
            return env.spaces
        finally:
            env.close()

    @contextlib.contextmanager
    def running(self, SamplerCls: Any, CollectorCls: Any, evaluate: bool) -> Iterator[Any]:
        """Yield an initialized sampler; shut it down twice afterwards."""
        kwargs: dict[str, Any] = {}
        if CollectorCls is not None:
            kwargs["CollectorCls"] = CollectorCls
        if evaluate:
            kwargs["eval_n_envs"] = self.n_workers
            kwargs["eval_max_steps"] = EVAL_T * self.n_workers
            kwargs["eval_max_trajectories"] = 2 * self.n_workers
        sampler = SamplerCls(
            EnvCls=self.EnvCls,
            env_kwargs=dict(self.env_kwargs),
            batch_T=self.batch_T,
            batch_B=self.batch_B,
            max_decorrelation_steps=0,
            **kwargs,
        )
        with _filled_with_nan():
            torch.manual_seed(self.seed)
            sampler.initialize(
                self.agent(),
                affinity=dict(n_workers=self.n_workers),
                seed=self.seed,
                bootstrap_value=True,
            )
        try:
            yield sampler
        finally:
            sampler.shutdown()
            try:
                sampler.shutdown()
            except Exception as error:
                text = f"a second shutdown() raised {type(error).__name__}: {error}"
                fix = "make shutdown() harmless when it is repeated."
                self.report.error(text, fix, check="shutdown")

    def collect(
        self, SamplerCls: Any = None, CollectorCls: Any = None, evaluate: bool = False
    ) -> Collected:
        """Collect batches, with an evaluation after each but the last if ``evaluate``."""
        collected = Collected()
        with self.running(SamplerCls or self.SamplerCls, CollectorCls, evaluate) as sampler:
            collected.mid_batch_reset = bool(sampler.mid_batch_reset)
            for itr in range(self.n_batches):
                samples, infos = sampler.obtain_samples(itr)
                leaves = [(path, type(leaf)) for path, leaf in _named_leaves(samples)]
                collected.kinds = (type(samples), leaves)
                collected.batches.append((copied(samples), entries_of(infos)))
                if itr == 0 and hasattr(sampler, "state_dict"):
                    collected.state = serialize.dumps(sampler.state_dict())
                if evaluate and itr < self.n_batches - 1:
                    collected.evaluations.append(entries_of(sampler.evaluate_agent(itr)))
        return collected

    def collect_and_leave(self) -> tuple[Collected, dict[str, list[str]]]:
        """Collect batches; also return processes and files that were left."""
        before = take_stock()
        collected = self.collect(CollectorCls=self.CollectorCls)
        return collected, left_since(before, PATIENCE_S)

    def resume(self, state: bytes) -> tuple[bool, Any]:
        """Load the state after the first batch into a new sampler; return (exact, next batch)."""
        with self.running(self.SamplerCls, self.CollectorCls, False) as sampler:
            exactly = bool(sampler.load_state_dict(serialize.loads(state)))
            samples, _ = sampler.obtain_samples(1)
            return exactly, copied(samples)


def entries_of(infos: Any) -> list[dict[str, Any]]:
    """Return the entries of trajectories in sorted order."""
    return sorted((dict(info) for info in infos), key=lambda entries: sorted(entries.items()))


@contextlib.contextmanager
def _filled_with_nan() -> Iterator[None]:
    """Let samplers fill new batches with NaN and extremes, so that unwritten entries show."""
    before = os.environ.get("RLPYT_DEBUG")
    os.environ["RLPYT_DEBUG"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["RLPYT_DEBUG"]
        else:
            os.environ["RLPYT_DEBUG"] = before
