"""The page about logging: its programs run, and its tables are the columns of runs."""

import re
from pathlib import Path

import pytest
import torch

from rlpyt.agents.dqn.vector import DqnMlpAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.gym import make
from rlpyt.runners.minibatch_rl import MinibatchRl, MinibatchRlEval
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.logging import context
from rlpyt.utils.logging.context import run_context
from rlpyt.utils.logging.progress_csv import cells_of
from rlpyt.utils.logging.values import STATISTICS

PAGE = (Path(__file__).parents[2] / "docs" / "logging.md").read_text()
STEPS = r"\b((?:n_)?steps=)[\d_]+"
FAMILY = (DQN, CategoricalDQN, QRDQN, IQN, R2D1)
ALGORITHMS = (A2C, PPO, VTrace, *FAMILY, DDPG, TD3, SAC, SAC_V)
SMALL = dict(min_steps_learn=16, batch_size=8, replay_size=100, replay_ratio=1)
RUNS = {
    PPO: lambda: (PPO(minibatches=2), CategoricalMlpAgent(), "CartPole-v1"),
    DQN: lambda: (DQN(**SMALL), DqnMlpAgent(), "CartPole-v1"),
    SAC: lambda: (SAC(**SMALL), SacAgent(), "Pendulum-v1"),
}


def table(heading):
    """Return the cells of the table below a heading, without its header."""
    section = PAGE.split(f"\n### {heading}\n")[1].split("\n#")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def documented(Algo):
    """Return the statistics of updates that the page lists for an algorithm."""
    found = set()
    for name, algorithms, *_ in table("Updates"):
        named = {x.strip() for x in algorithms.split(",")}
        if Algo.__name__ in named or (Algo in FAMILY and "DQN family" in named):
            found.add(name.strip("`"))
    return found


@pytest.mark.parametrize("Algo", ALGORITHMS)
def test_the_statistics_of_updates_are_listed(Algo):
    assert documented(Algo) == set(Algo.opt_info_fields)


@pytest.mark.parametrize("Runner", [MinibatchRl, MinibatchRlEval])
@pytest.mark.parametrize("Algo", RUNS)
def test_the_columns_of_runs_are_listed(Algo, Runner, tmp_path):
    algo, agent, env = RUNS[Algo]()
    evaluation = dict(eval_n_envs=1, eval_max_steps=250) if Runner is MinibatchRlEval else {}
    sampler = SerialSampler(
        EnvCls=make, env_kwargs=dict(id=env), batch_T=16, batch_B=2, **evaluation
    )
    with run_context(tmp_path, 0, "columns"):
        Runner(algo=algo, agent=agent, sampler=sampler, n_steps=64, seed=0).train()
    written = set(cells_of((tmp_path / "progress.csv").read_text().splitlines()[0]))
    other = "(with evaluation)" if Runner is MinibatchRl else "(without evaluation)"
    others = [other]
    others += [x for cls, x in ((DQN, "(DQN family)"), (PPO, "(PPO)")) if Algo is not cls]
    singles = {
        name.strip("`")
        for name, text, *_ in table("Progress")
        if not any(x in text for x in others)
    }
    episodes = {name.strip("`") for name, *_ in table("Episodes")}
    expected = {f"Diagnostics/{name}" for name in singles}
    expected |= {name + suffix for name in episodes | documented(Algo) for suffix in STATISTICS}
    if Runner is MinibatchRlEval:
        expected |= {f"Training/{name}{suffix}" for name in episodes for suffix in STATISTICS}
    assert written == expected


def test_the_programs_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(context, "LOG_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    scope, threads = {}, torch.get_num_threads()
    for program in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        few = program if "returns" in program else re.sub(STEPS, r"\g<1>2_048", program)
        exec(few, scope)
    torch.set_num_threads(threads)
    assert [*scope["returns"]] == [2048, 4096]
    columns = cells_of(next(tmp_path.rglob("run_1/progress.csv")).read_text().splitlines()[0])
    assert {"ParameterNorm", "DistanceMax", "targetAverage"} <= set(columns)
    assert "2048 steps: return" in capsys.readouterr().out
