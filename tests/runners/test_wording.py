"""Messages of runners and hooks, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.async_rl import AsyncRl
from rlpyt.runners.hooks import Hook, KeepBest, StopAtReturn
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.runners.sync_rl import SyncRl
from rlpyt.samplers.async_.serial_sampler import AsyncSerialSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.wording import check


class Misspelled(Hook):
    def on_iterations(self, runner, itr):
        pass


def runner(Runner=MinibatchRl, Sampler=SerialSampler, algo=A2C, **settings):
    sampler = Sampler(CountEnv, {}, batch_T=4, batch_B=2)
    parts = dict(algo=algo(), agent=CategoricalMlpAgent(), sampler=sampler)
    return Runner(**parts, **{"n_steps": 80, "seed": 1, **settings})


MESSAGES = {
    "length": (
        ValueError,
        lambda: runner(n_steps=0),
        "n_steps=0 must be at least 1.",
    ),
    "seed": (
        TypeError,
        lambda: runner(seed=1.5),
        "seed=1.5 must be a whole number of at least 0.",
    ),
    "hook that is never called": (
        TypeError,
        lambda: runner(hooks=[Misspelled()]),
        (
            "hook Misspelled must have no method that no runner calls, got on_iterations; did "
            "you mean 'on_iteration'? Events: on_start, on_iteration, on_log, on_end. Begin "
            "the names of other methods with _."
        ),
    ),
    "setting of a hook": (
        TypeError,
        lambda: StopAtReturn("high"),
        "return_='high' must be a number.",
    ),
    "directory": (
        ValueError,
        lambda: runner(hooks=[KeepBest()]).train(),
        "KeepBest needs a run directory. Train inside logger_context(...).",
    ),
    "less than a batch": (
        UserWarning,
        lambda: runner(n_steps=7).train(),
        (
            "n_steps=7 is less than one batch of 8 steps (batch_T * batch_B, of all ranks): "
            "one iteration is run."
        ),
    ),
    "minibatches": (
        ValueError,
        lambda: runner(algo=lambda: PPO(minibatches=1000)).train(),
        "minibatches=1000 must be at most batch_T * batch_B = 8. Take fewer.",
    ),
    "synchronous sampler": (
        TypeError,
        lambda: runner(AsyncRl),
        (
            "AsyncRl needs an asynchronous sampler such as AsyncSerialSampler or "
            "AsyncCpuSampler, got SerialSampler."
        ),
    ),
    "synchronous algorithm": (
        ValueError,
        lambda: runner(AsyncRl, AsyncSerialSampler, PPO),
        (
            "PPO cannot learn asynchronously. Use an algorithm with a replay, or VTrace "
            "(vtrace, impala) in place of A2C or PPO."
        ),
    ),
    "affinity of ranks": (
        TypeError,
        lambda: runner(SyncRl, affinity="two"),
        (
            "affinity must be a list with a dictionary for each rank, such as "
            "[dict(cuda_idx=0), dict(cuda_idx=1)], a number of ranks, or a code such as "
            "'0slt_4cpu_2gpu_2gpr', got 'two'."
        ),
    ),
    "backend": (
        ValueError,
        lambda: runner(SyncRl, affinity=[{}, {}], backend="mpi"),
        "backend must be 'gloo', 'nccl' or None, got 'mpi'.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name):
    check(*MESSAGES[name])
