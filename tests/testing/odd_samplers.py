"""Samplers and collectors with one fault each."""

import subprocess

import numpy as np
import torch

from rlpyt.samplers.collections import AgentSamplesBsv
from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler


def returning(new):
    """A sampler that returns something else than it collected, from (samples, itr)."""

    class Returning(SerialSampler):
        def obtain_samples(self, itr):
            samples, infos = super().obtain_samples(itr)
            return new(samples, itr), infos

    return Returning


def changed(part, **fields):
    """A sampler whose samples have some fields computed anew."""

    def new(samples, itr):
        own = getattr(samples, part)
        values = {name: f(getattr(own, name).clone(), samples) for name, f in fields.items()}
        return samples._replace(**{part: own._replace(**values)})

    return returning(new)


def telling(new):
    """A sampler that returns other trajectories."""

    class Telling(SerialSampler):
        def obtain_samples(self, itr):
            samples, infos = super().obtain_samples(itr)
            return samples, new(infos)

    return Telling


def one_step_late(x, samples):
    return torch.roll(x, 1, 0)


def forgets_over_batches(x, samples):
    x[0] = 0
    return x


def never_done_by_timeout(done, samples):
    return done & ~samples.env.env_info.timeout


def without_timeout_value(samples, itr):
    agent = samples.agent
    fields = [getattr(agent, name) for name in AgentSamplesBsv._fields]
    return samples._replace(agent=AgentSamplesBsv(*fields))


def longer(infos):
    for info in infos:
        info.Length += 1
    return infos


class OtherSeed(SerialSampler):
    def initialize(self, *args, seed=None, **kwargs):
        return super().initialize(*args, seed=seed + 1, **kwargs)


class NoSeed(SerialSampler):
    def initialize(self, *args, seed=None, **kwargs):
        return super().initialize(*args, seed=None, **kwargs)


class KeepsReward(CpuResetCollector):
    """Shows the agent the last reward of the episode before."""

    def _on_done(self, t, done, to_reset):
        super()._on_done(t, done, to_reset)
        self.step.reward[done] = self.samples_np.env.reward[t, done]


class WaitsWithReward(CpuWaitResetCollector):
    def collect_batch(self, *args):
        result = super().collect_batch(*args)
        done = self.samples_np.env.done
        self.samples_np.env.reward[(np.cumsum(done, 0) - done) > 0] = 1
        return result


class WaitsUndone(CpuWaitResetCollector):
    def collect_batch(self, *args):
        result = super().collect_batch(*args)
        done = self.samples_np.env.done
        done[(np.cumsum(done, 0) - done) > 0] = False
        return result


class LeavesGaps(CpuResetCollector):
    """Writes nothing where the agent's record of the last step should be."""

    def collect_batch(self, *args):
        result = super().collect_batch(*args)
        self.samples_np.agent.agent_info.value[-1] = np.nan
        return result


class TrainsWhileEvaluating(SerialSampler):
    def evaluate_agent(self, itr):
        infos = super().evaluate_agent(itr)
        self.obtain_samples(itr)
        return infos


class EvaluatesTooMuch(SerialSampler):
    def evaluate_agent(self, itr):
        return 3 * super().evaluate_agent(itr)


class EvaluatesOther(SerialSampler):
    def evaluate_agent(self, itr):
        infos = super().evaluate_agent(itr)
        return longer(infos)


class LoadsNothing(SerialSampler):
    def load_state_dict(self, state):
        return True


class NoState(SerialSampler):
    @property
    def state_dict(self):
        raise AttributeError("state_dict")


class LeavesProcess(SerialSampler):
    left: list = []

    def initialize(self, *args, **kwargs):
        self.left.append(subprocess.Popen(["sleep", "100"]))
        return super().initialize(*args, **kwargs)


class LeavesFiles(SerialSampler):
    left: list = []

    def initialize(self, *args, **kwargs):
        self.left.append(open(__file__))  # noqa: SIM115
        return super().initialize(*args, **kwargs)


class ShutsDownOnce(SerialSampler):
    def shutdown(self):
        if self._env_worker is None and hasattr(self, "agent"):
            raise OSError("already down")
        super().shutdown()
