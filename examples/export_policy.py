"""Export a trained policy, and play with it without rlpyt and PyTorch.

The run is exported to ONNX, which requires ``pip install "rlpyt[onnx]"``. Another Python process,
which imports neither rlpyt nor PyTorch, plays an episode with the file. Watch the last line: the
return is that of the agent.

    python examples/export_policy.py
    python examples/export_policy.py --run data/ppo-CartPole-v1-20260101-120000

The other format, for PyTorch: ``run.export("policy.pt2")``, see docs/export.md.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import tyro

import rlpyt
from rlpyt.experiments import policy

WITHOUT_RLPYT = """
import sys
import gymnasium
from policy import load_policy

policy = load_policy("policy.onnx")
env = gymnasium.make("CartPole-v1")
observation, _ = env.reset(seed=0)
state, reward, total, done = None, 0.0, 0.0, False
while not done:
    action, state = policy.act(observation, state, reward)
    observation, reward, terminated, truncated, _ = env.step(action)
    total, done = total + reward, terminated or truncated
assert "rlpyt" not in sys.modules and "torch" not in sys.modules
print(total)
"""


def main(steps: int = 20_000, run: Path | None = None, run_dir: Path | None = None) -> None:
    """Train PPO on CartPole, export the policy, and compare an episode.

    Args:
        steps: environment steps.
        run: directory of a trained run on CartPole-v1 to export instead.
        run_dir: run directory; by default data/ALGO-ENV-TIMESTAMP.
    """
    if run is None:
        trained = rlpyt.train("ppo", "CartPole-v1", steps=steps, run_dir=run_dir)
    else:
        trained = rlpyt.load(run)
    path = trained.path / "policy.onnx"
    difference = trained.export(path)
    print(f"{path}: {path.stat().st_size:,} bytes, largest difference {difference:.1e}")

    shutil.copy(policy.__file__, trained.path / "policy.py")  # the only code of rlpyt that it needs
    command = [sys.executable, "-c", WITHOUT_RLPYT]
    done = subprocess.run(command, cwd=trained.path, capture_output=True, text=True, check=True)
    total, expected = float(done.stdout), trained.play(trained.env(), seed=0).Return
    print(f"return without rlpyt {total:.0f}, of the agent {expected:.0f}: {total == expected}")


if __name__ == "__main__":
    tyro.cli(main)
