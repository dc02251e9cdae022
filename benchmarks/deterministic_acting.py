"""What ``deterministic_acting`` costs: steps per second of sampling with it and without.

    python -m benchmarks.deterministic_acting

Both samplers of a row live in this process and take batches in turns; the ratio is the median over
pairs of batches. Time is this process's processor time, which other programs disturb little.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

import torch

from benchmarks.harness import describe_machine
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.envs.gym import make
from rlpyt.samplers.serial.sampler import SerialSampler

CARTPOLE = dict(EnvCls=make, env_kwargs=dict(id="CartPole-v1"))
PONG = dict(EnvCls=AtariEnv, env_kwargs=dict(game="pong"))
ROWS: list[tuple[str, Any, dict[str, Any]]] = [
    ("CartPole, MLP 64 x 64 in numpy", CategoricalMlpAgent, CARTPOLE),
    ("CartPole, MLP 64 x 64 in torch", lambda: CategoricalMlpAgent(fast_acting=False), CARTPOLE),
    ("CartPole, LSTM in torch", CategoricalLstmAgent, CARTPOLE),
    ("Pong, convolutions", AtariFfAgent, PONG),
]


def start(make_agent: Any, env: dict[str, Any], B: int, tiles: bool) -> Any:
    sampler = SerialSampler(
        batch_T=32, batch_B=B, max_decorrelation_steps=0, deterministic_acting=tiles, **env
    )
    sampler.initialize(make_agent(), seed=0)
    return sampler


def measure(make_agent: Any, env: dict[str, Any], B: int, pairs: int) -> tuple[float, float]:
    """Steps per second of processor time without tiles, and the ratio with them."""
    samplers = [start(make_agent, env, B, tiles) for tiles in (False, True)]
    ratios, plain = [], []
    for itr in range(pairs + 2):
        times = []
        for sampler in samplers if itr % 2 else samplers[::-1]:
            began = time.process_time()
            sampler.obtain_samples(itr)
            times.append(time.process_time() - began)
        off, on = times if itr % 2 else times[::-1]
        if itr >= 2:  # the first batches include the trial
            ratios.append(off / on)
            plain.append(32 * B / off)
    for sampler in samplers:
        sampler.shutdown()
    return statistics.median(plain), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=40, help="of batches in each row")
    parser.add_argument("--batch-B", type=int, nargs="+", default=[2, 8, 32])
    args = parser.parse_args()
    torch.set_num_threads(1)
    machine = describe_machine()
    print(f"{machine}; load {os.getloadavg()[0]:.1f}")
    print("| environment, network | environments of a process | steps/s without | ratio with |")
    print("|---|---|---|---|")
    for name, make_agent, env in ROWS:
        for B in args.batch_B:
            plain, ratio = measure(make_agent, env, B, args.pairs)
            print(f"| {name} | {B} | {plain:,.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
