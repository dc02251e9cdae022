"""Messages of commands, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

from pathlib import Path

import pytest

from rlpyt.cli.main import main
from rlpyt.cli.train import read_flags
from rlpyt.experiments.build import build_runner
from rlpyt.utils.names import UnknownName
from tests.wording import check


def built(algo_name, *flags):
    build_runner(read_flags(algo_name, "CartPole-v1", flags)[0], Path("run"))


MESSAGES = {
    "algorithm": (
        UnknownName,
        lambda: main(["train", "pop", "CartPole-v1", "--debug"]),
        (
            "unknown algorithm 'pop'; did you mean 'ppo'? Known: a2c, catdqn, cem, cmaes, "
            "crossq, ddpg, dqn, flashsac, impala, iqn, openai_es, ppo, pqn, qrdqn, r2d1, rainbow, "
            "sac, sac_v, simba, td3, vtrace, xqc."
        ),
    ),
    "number of ranks": (
        ValueError,
        lambda: built("a2c", "--ranks", "0"),
        "ranks=0 must be at least 1.",
    ),
    "lead of a synchronous run": (
        ValueError,
        lambda: built("dqn", "--sampler.max-lead", "0"),
        "sampler.max_lead=0 is for asynchronous runs. Remove it, or add --sampler.asynchronous.",
    ),
    "lead": (
        ValueError,
        lambda: built("dqn", "--sampler.max-lead", "-2", "--sampler.asynchronous"),
        "sampler.max_lead=-2 must be at least 0, or -1 for an unlimited number of batches.",
    ),
    "asynchronous Ray": (
        ValueError,
        lambda: built("dqn", "--sampler.kind", "ray", "--sampler.asynchronous"),
        (
            "sampler.kind='ray' cannot be asynchronous. Use one of serial, cpu, gpu, "
            "alternating, no-overlap."
        ),
    ),
    "run to resume": (
        FileNotFoundError,
        lambda: main(["resume", "absent", "--debug"]),
        "run directory not found: 'absent'.",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(*MESSAGES[name])
