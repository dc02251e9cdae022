"""A run imports nothing that it does not use."""

import json
import subprocess
import sys

import pytest

# Imported by torch, or by parts of rlpyt that the run does not use.
UNUSED = {
    *("torch._dynamo", "torch._inductor", "torch.onnx", "sympy"),
    *("scipy", "pandas", "matplotlib", "PIL", "cv2", "imageio", "mujoco", "numba"),
    *("tyro", "rich", "fastjsonschema", "optuna", "ray", "huggingface_hub", "tensorboard"),
}
SCRIPT = """
import json, os, sys
from pathlib import Path
from rlpyt import CategoricalMlpAgent, {sampler}, MinibatchRlEval, PPO, logger_context
from rlpyt.envs.gym import make

OUT = Path(sys.argv[1])

class Noting:
    def __call__(self, **kwargs):
        env = make(**kwargs)
        step = env.step
        def noting(action):
            (OUT / f"{{os.getpid()}}.json").write_text(json.dumps([*sys.modules]))
            return step(action)
        env.step = noting
        return env

with logger_context(OUT / "run", 0, "startup", snapshot_mode="last"):
    MinibatchRlEval(
        algo=PPO(epochs=1, minibatches=1),
        agent=CategoricalMlpAgent(),
        sampler={sampler}(
            EnvCls=Noting(),
            env_kwargs=dict(id="CartPole-v1"),
            batch_T=4,
            batch_B=2,
            max_decorrelation_steps=0,
            eval_n_envs=1,
            eval_max_steps=8,
        ),
        n_steps=16,
        affinity=dict(n_workers=1),
        checkpoint_dir=OUT / "checkpoint",
    ).train()
(OUT / "main.json").write_text(json.dumps([*sys.modules]))
"""


@pytest.mark.parametrize(
    "sampler", [pytest.param("SerialSampler", marks=pytest.mark.slow), "CpuSampler"]
)
def test_a_run_imports_no_library_that_it_does_not_use(sampler, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(sampler=sampler))
    subprocess.run([sys.executable, script, tmp_path], check=True, cwd=tmp_path)
    imported = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert len(imported) == (2 if sampler == "SerialSampler" else 3)  # the trial of the environment
    unused = {name: UNUSED & set(modules) for name, modules in imported.items()}
    assert not any(unused.values()), unused
