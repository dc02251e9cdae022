"""Measure sampling steps per second with and without ``deterministic_acting``.

    python -m benchmarks.deterministic_acting --output benchmarks/results/deterministic_acting.json
    python -m benchmarks.deterministic_acting --report   # run nothing; write docs/performance.md

For options, see ``--help``. The second command updates the table of docs/performance.md from the
saved results.
"""

from __future__ import annotations

import itertools
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.harness import Contender, Progress, Setting, Workload
from rlpyt.agents.pg.atari import AtariFfAgent
from rlpyt.agents.pg.vector import CategoricalLstmAgent, CategoricalMlpAgent
from rlpyt.envs.atari.atari_env import AtariEnv
from rlpyt.envs.gym import make
from rlpyt.samplers.serial.sampler import SerialSampler

RESULTS = Path(__file__).parent / "results" / "deterministic_acting.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
T = 32
CARTPOLE = dict(EnvCls=make, env_kwargs=dict(id="CartPole-v1"))
PONG = dict(EnvCls=AtariEnv, env_kwargs=dict(game="pong"))
NETWORKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "CartPole, MLP 64 x 64 in numpy": (CategoricalMlpAgent, CARTPOLE),
    "CartPole, MLP 64 x 64 in torch": (lambda: CategoricalMlpAgent(fast_acting=False), CARTPOLE),
    "CartPole, LSTM in torch": (CategoricalLstmAgent, CARTPOLE),
    "Pong, convolutions": (AtariFfAgent, PONG),
}


def sampling(network: str, B: int, deterministic: bool) -> Workload:
    """Sample batches of ``T`` steps of ``B`` environments in one process, without training."""
    make_agent, env = NETWORKS[network]
    sampler = SerialSampler(
        batch_T=T, batch_B=B, max_decorrelation_steps=0, deterministic_acting=deterministic, **env
    )
    try:
        sampler.initialize(make_agent(), seed=0)
        for itr in itertools.count():
            sampler.obtain_samples(itr)
            yield Progress(T * B, None)
    finally:
        sampler.shutdown()


def settings() -> dict[str, list[Setting]]:
    """Return settings by environment: each network with 2, 8 and 32 environments."""
    found: dict[str, list[Setting]] = {"cartpole": [], "pong": []}
    for network, B in itertools.product(NETWORKS, (2, 8, 32)):
        pair = tuple(
            Contender(name, sampling, {"network": network, "B": B, "deterministic": on})
            for name, on in (("without", False), ("with", True))
        )
        env = network.partition(",")[0].lower()
        found[env].append(Setting(f"{network}, {B} environments", pair))
    return found


def table(results: dict[str, Any]) -> str:
    """Return the saved results as Markdown, with command, commit and machine."""
    machine, rows = results["machine"], results["rows"]
    disturbance = max(row["disturbance"] for row in rows)
    lines = [
        f"`python -m {' '.join(results['command'])}`, {machine['date']}, commit "
        f"{machine['commit'][:7]}, {machine['processor']}, {machine['cores']} cores, load before "
        f"{machine['load_before']:.1f}, others used {disturbance:.0%} of the cores.",
        "",
        "| environment, network, environments of the process | steps per second without | with "
        "| ratio |",
        "| --- | ---: | ---: | ---: |",
    ]
    for without, deterministic in zip(rows[::2], rows[1::2], strict=True):
        rates = [statistics.median(row["rates"]) for row in (without, deterministic)]
        lines.append(
            f"| {without['setting']} | {rates[0]:,.0f} | {rates[1]:,.0f} "
            f"| {deterministic['ratio']:.2f} |"
        )
    return "\n".join(lines)


def render(page: str) -> str:
    """Return docs/performance.md with an updated table; unchanged without saved results."""
    if not RESULTS.exists():
        return page
    body = table(json.loads(RESULTS.read_text(encoding="utf-8")))
    begin, end = "<!-- table deterministic-acting -->", "<!-- end of table -->"
    return re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n\n{body}\n\n{end}", page, flags=re.S)


if __name__ == "__main__":
    if sys.argv[1:] == ["--report"]:
        PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        harness.main("deterministic_acting", settings(), 2.0)
