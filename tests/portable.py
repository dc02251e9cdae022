"""Run the tests of exactness, layouts, resuming and numerics as on other CPUs.

    python tests/portable.py [PROFILE ...] [-- ARGUMENTS OF PYTEST]

Test files among the arguments are run in place of all.

Libraries choose their kernels by the CPU, and kernels differ in rounding. Each profile makes them
choose those of another CPU by environment variables, and sets the number of threads. A value that
the installed build does not have, or this CPU cannot run, is left out and named.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SSE = dict(
    ATEN_CPU_CAPABILITY="default",
    MKL_ENABLE_INSTRUCTIONS="SSE4_2",
    ONEDNN_MAX_CPU_ISA="SSE41",
    OPENBLAS_CORETYPE="Nehalem",
)
AVX2 = dict(
    ATEN_CPU_CAPABILITY="avx2",
    MKL_ENABLE_INSTRUCTIONS="AVX2",
    ONEDNN_MAX_CPU_ISA="AVX2",
    OPENBLAS_CORETYPE="Haswell",
)
PROFILES: dict[str, tuple[dict[str, str], int]] = {
    "native": ({}, 2),
    "sse": (SSE, 1),
    "sse-2": (SSE, 2),
    "avx2": (AVX2, 1),
    "zen-2": ({**AVX2, "OPENBLAS_CORETYPE": "Zen"}, 2),
    "skylakex": ({"OPENBLAS_CORETYPE": "SkylakeX"}, 1),
}
TESTS = [
    *("tests/samplers/test_tiles.py", "tests/samplers/test_matrix.py"),
    *("tests/samplers/test_layouts.py", "tests/samplers/test_vector_layouts.py"),
    *("tests/samplers/test_ray_sampler.py", "tests/envs/vector/test_vector_cartpole.py"),
    *("tests/agents", "tests/models", "tests/distributions", "tests/algos", "tests/es"),
    *(
        "tests/replays/test_state.py",
        "tests/replays/test_sum_tree.py",
        "tests/test_rows_by_hand.py",
    ),
    *("tests/runners/test_minibatch_rl.py", "tests/runners/test_off_policy.py"),
    *("tests/runners/test_qpg_runs.py", "tests/runners/test_async_rl.py"),
    *("tests/runners/test_async_vtrace.py", "tests/samplers/test_resume.py"),
    *("tests/runners/test_sync_equality.py", "tests/runners/test_sync_runs.py"),
    *("tests/utils/test_checkpoint.py", "tests/experiments/test_combinations.py"),
]
# Which kernels are in use: OpenBLAS names its core, torch its instructions.
PROBE = """
import numpy as np, torch
a = np.ones((64, 64), np.float32); a @ a
torch.nn.Conv2d(4, 8, 3)(torch.ones(2, 4, 9, 9)); torch.ones(8, 64) @ torch.ones(64, 64)
print("torch", torch.backends.cpu.get_cpu_capability())
"""


def probe(settings: dict[str, str]) -> str | None:
    """Return what the libraries say with these settings; ``None`` if they cannot run here."""
    env = {**os.environ, **settings, "OPENBLAS_VERBOSE": "2"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=env, capture_output=True, text=True, check=False
    )
    return None if done.returncode else " ".join((done.stderr + done.stdout).split())


def usable(settings: dict[str, str]) -> dict[str, str]:
    """The settings without those that the build does not have or the CPU cannot run."""
    kept = {}
    for name, value in settings.items():
        said = probe({name: value})
        core = value if name == "OPENBLAS_CORETYPE" else ""
        if said is None:
            print(f"  left out: {name}={value}, which this CPU cannot run", flush=True)
        elif f"Core: {core}" not in said:
            print(f"  left out: {name}={value}, which this build lacks ({said})", flush=True)
        else:
            kept[name] = value
    return kept


def main(arguments: list[str]) -> int:
    """Run pytest under each profile; returns 1 if a test failed in any."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, given = arguments[:split] or list(PROFILES), arguments[split + 1 :]
    unknown = set(names) - set(PROFILES)
    if unknown:
        print(f"profiles must be among {', '.join(PROFILES)}, got {', '.join(sorted(unknown))}.")
        return 2
    chosen = any((ROOT / argument.partition("::")[0]).exists() for argument in given)
    tests = [] if chosen else TESTS
    outcomes = {}
    for name in names:
        settings, threads = PROFILES[name]
        print(f"== {name}: {threads} threads", flush=True)
        kept = usable(settings)
        if settings and not kept:
            outcomes[name] = "left out"
            continue
        print(f"  {kept}: {probe(kept)}", flush=True)
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            kept[variable] = str(threads)
        kept["OMP_WAIT_POLICY"] = "PASSIVE"  # two threads and two workers share two cores
        command = [sys.executable, "-m", "pytest", "--timeout=600", *tests, *given]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ, **kept}, check=False).returncode
        outcomes[name] = "passed" if code == 0 else "FAILED"
    for name, outcome in outcomes.items():
        print(f"{name}: {outcome}")
    return int("FAILED" in outcomes.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
