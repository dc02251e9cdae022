"""Export a trained policy with torch.export, and use it without rlpyt.

The exported program holds the network and its parameters; plain torch loads it, in Python or C++.
Here another Python process, which imports torch only, computes the actions for 100 observations.
Watch the last line: the actions are those of the agent.

    python examples/export_policy.py
    python examples/export_policy.py --run data/ppo-CartPole-v1-20260101-120000

For a policy with continuous actions, return the first output of the model (the mean) instead of
``argmax``; actions of SAC, TD3 and DDPG are in [-1, 1] and must be scaled to the bounds.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import rlpyt

WITHOUT_RLPYT = """
import sys, torch

program, observations, actions = sys.argv[1:]
policy = torch.export.load(program).module()
torch.save(policy(torch.load(observations)), actions)
assert "rlpyt" not in sys.modules
"""


class Policy(torch.nn.Module):
    """Policy that returns the most likely of several discrete actions.

    Args:
        model: model of an agent such as ``CategoricalMlpAgent``, which returns (pi, value).
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Return actions [B] for observations [B, ...]."""
        pi, _ = self.model(observation)
        return pi.argmax(-1)


def export(run: Any, path: Path) -> None:
    """Save the policy of a run as an exported program with any batch size."""
    example = torch.zeros(2, *run.agent.env_spaces.observation.shape)
    shapes = ({0: torch.export.Dim("B")},)
    policy = Policy(run.agent.model).eval()
    torch.export.save(torch.export.export(policy, (example,), dynamic_shapes=shapes), path)


def main(steps: int = 20_000, run: Path | None = None, run_dir: Path | None = None) -> None:
    """Train PPO on CartPole, export the policy, and compare its actions.

    Args:
        steps: environment steps.
        run: directory of a trained run to export instead.
        run_dir: run directory; by default data/ALGO-ENV-TIMESTAMP.
    """
    if run is None:
        trained = rlpyt.train("ppo", "CartPole-v1", steps=steps, run_dir=run_dir)
    else:
        trained = rlpyt.load(run)
    program = trained.path / "policy.pt2"
    export(trained, program)

    shape = trained.agent.env_spaces.observation.shape
    observations = np.random.default_rng(0).normal(size=(100, *shape)).astype(np.float32)
    files = [trained.path / name for name in ("observations.pt", "actions.pt")]
    torch.save(torch.from_numpy(observations), files[0])
    subprocess.run([sys.executable, "-c", WITHOUT_RLPYT, program, *files], check=True)
    actions = torch.load(files[1])
    same = all(trained.act(o) == a for o, a in zip(observations, actions.tolist(), strict=True))
    print(f"{program}: {program.stat().st_size:,} bytes; same actions as the agent: {same}")


if __name__ == "__main__":
    tyro.cli(main)
