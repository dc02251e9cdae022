"""The code in docs/evolution.md runs."""

import re
from pathlib import Path

import numpy as np

from rlpyt.es.algo import EvolutionAlgo
from rlpyt.experiments.agents import EVOLUTION
from rlpyt.experiments.registry import ALGORITHMS, algorithm_class

PAGE = (Path(__file__).parents[2] / "docs" / "evolution.md").read_text()
ASK_AND_TELL, SCRIPT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_ask_and_tell_finds_the_minimum():
    scope = {}
    exec(ASK_AND_TELL, scope)
    assert np.allclose(scope["es"].result.xbest, 1, atol=1e-4)


def test_the_script_trains():
    small = SCRIPT.replace("1_500_000", "2 * 200 * 48").replace("CpuSampler", "SerialSampler")
    small = small.replace("samplers.parallel.cpu.sampler", "samplers.serial.sampler")
    scope = {}
    exec(small, scope)
    scope["runner"].train()
    assert scope["runner"].algo.strategy.result.evaluations == 2 * 16


def test_every_strategy_of_the_command_line_is_there():
    evolution = [name for name in ALGORITHMS if issubclass(algorithm_class(name), EvolutionAlgo)]
    assert sorted(evolution) == sorted(EVOLUTION)
    assert all(f"rlpyt train {name} " in PAGE for name in EVOLUTION)
