"""Samplers that run into trouble, and what must be left of them: nothing."""

from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.alternating_sampler import (
    AlternatingSampler,
    NoOverlapAlternatingSampler,
)
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.faulty import FaultyEnv
from tests.parts import EchoAgent

SERVED = [GpuSampler, AlternatingSampler, NoOverlapAlternatingSampler]
PARALLEL = [CpuSampler, *SERVED]
ALL = [SerialSampler, *PARALLEL]
T, B = 5, 4
A_VICTIM = 2  # of constructions: 0 is tried out, 1 and 2 are one worker's, or each one of another's


def turns(things, of):
    """Pairs of each thing with one of the others, in turns."""
    return [(thing, of[i % len(of)]) for i, thing in enumerate(things)]


def faulty(SamplerCls, fault, where="step", at=1, agent=None, method=None, sampler=None, **kwargs):
    """An initialized sampler whose environments, or one of them, will fail."""
    own = sampler or {}
    made = SamplerCls(
        EnvCls=FaultyEnv,
        env_kwargs=dict(fault=fault, where=where, at=at, **kwargs),
        **dict(dict(batch_T=T, batch_B=B, max_decorrelation_steps=0), **own),
    )
    made.start_method = method
    made.initialize(agent or EchoAgent(), affinity=dict(n_workers=2), seed=1)
    return made


def run_into(*args, n_batches=6, evaluate=False, **kwargs):
    """Collect until the fault shows; the error is let through."""
    sampler = faulty(*args, **kwargs)
    try:
        for itr in range(n_batches):
            sampler.obtain_samples(itr)
            if evaluate:
                sampler.evaluate_agent(itr)
    finally:
        sampler.shutdown()
