"""Programs that use samplers, forked from one process that has imported what takes so long.

    python nursery.py DIRECTORY '[{"name": ..., "kind": "hold" or "train", ...}, ...]'

Each program leads a session, as in a terminal of its own, and writes DIRECTORY/NAME.out and .err.
The nursery prints "NAME PID" for each, and "NAME ended CODE" as they end.
"""

import json
import os
import sys
import traceback
from pathlib import Path

from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.algos.pg.ppo import PPO
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.utils.logging.context import run_context
from tests.samplers.trouble import (  # noqa: F401
    AlternatingSampler,
    B,
    CpuSampler,
    EchoAgent,
    FaultyEnv,
    GpuSampler,
    NoOverlapAlternatingSampler,
    T,
)


def hold(SamplerCls, method, fault, where, at, tally, collect):
    """Start a sampler and keep it, idle or collecting."""
    sampler = globals()[SamplerCls](
        FaultyEnv,
        dict(fault=fault, where=where, at=at, victim=1, tally=tally),
        batch_T=T,
        batch_B=B,
        max_decorrelation_steps=0,
    )
    sampler.start_method = method
    if where == "init":
        print("ready", flush=True)
    sampler.initialize(EchoAgent(), affinity=dict(n_workers=2), seed=1)
    print("ready", flush=True)
    for itr in range(10**9):
        if collect:
            sampler.obtain_samples(itr)
        else:
            os.read(0, 1)


class Announce(Hook):
    def on_start(self, runner):
        print("ready", flush=True)


def train(SamplerCls, method, run):
    """Train for ever."""
    from tests.parts import SmallMlp

    sampler = globals()[SamplerCls](FaultyEnv, dict(fault="none"), batch_T=16, batch_B=4)
    sampler.start_method = method
    agent = CategoricalPgAgent(ModelCls=SmallMlp, model_kwargs=dict(inputs=3, actions=3))
    with run_context(Path(run), 0, "nursery"):
        runner = MinibatchRl(
            algo=PPO(),
            agent=agent,
            sampler=sampler,
            n_steps=10**9,
            seed=1,
            affinity=dict(n_workers=2),
            hooks=[Announce()],
        )
        runner.train()


def be_a_program(directory, name, kind, **settings):
    """Run the forked process; return the exit code as Python would."""
    os.setsid()
    for number, ending in ((1, "out"), (2, "err")):
        fd = os.open(Path(directory) / f"{name}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, number)
        os.close(fd)
    try:
        {"hold": hold, "train": train}[kind](**settings)
    except SystemExit as error:
        return error.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main(directory, programs):
    names = {}
    for program in programs:
        pid = os.fork()
        if not pid:
            code = be_a_program(directory, **program)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        names[pid] = program["name"]
        print(program["name"], pid, flush=True)
    while names:
        pid, status = os.wait()
        print(names.pop(pid), "ended", os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
