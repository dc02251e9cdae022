"""Check the package as strangers get it; ``make check-package`` runs this file.

    python -m tests.check_package            # all steps; 25 minutes on two cores
    python -m tests.check_package --steps wheel lowest
    python -m tests.check_package --dist dist        # of these files, instead of building them

The steps are in ``STEPS``. Each works in an environment of its own in a temporary folder, with
the source distribution or wheel built from the files of this checkout.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    *(".git", ".venv", ".whl", "build", "dist", "_build", "results", "*.egg-info"),
    *("__pycache__", ".*_cache", ".hypothesis"),
)
CONSTRAINTS = ROOT / "constraints.txt"
CORE = ("agents", "algos", "distributions", "models", "replays", "spaces")  # folders of tests
TRAINING = ("train", "ppo", "CartPole-v1", "--steps", "4000", "--no-video", "--run-dir", "run")


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source distribution, and from it the wheel; return both."""
    source = folder / "source"
    shutil.copytree(ROOT, source, ignore=_left_out)
    code = "import setuptools.build_meta as b; b.build_sdist('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=source, check=True, capture_output=True)
    (sdist,) = (source / "dist").glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder / "wheel", sdist]
    subprocess.run(pip, check=True)
    (wheel,) = (folder / "wheel").glob("*.whl")
    return sdist, wheel


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Leave out what git ignores; ``benchmarks/results`` is data that tests read."""
    left_out = LEFT_OUT(folder, names)
    if Path(folder) == ROOT / "benchmarks":
        left_out.discard("results")
    return left_out


class Environment:
    """An empty virtual environment with what is installed into it."""

    def __init__(self, folder: Path, *install: object) -> None:
        self.folder, self.bin = folder, folder / "venv" / "bin"
        venv.create(folder / "venv", with_pip=True)
        self("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *install)

    def __call__(self, program: str, *arguments: object, fails: bool = False) -> str:
        """Run a program of the environment; return what it printed."""
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        done = subprocess.run(
            [str(self.bin / program), *map(str, arguments)],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert bool(done.returncode) == fails, f"{program} {arguments}:\n{said[-3000:]}"
        return said


def lowest(extras: tuple[str, ...] = ()) -> list[str]:
    """Return the lowest versions of the dependencies; of torch the pinned one.

    The workflow ``test.yml`` installs the lowest torch, too.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needs = [*project["dependencies"]]
    for extra in extras:
        needs += project["optional-dependencies"][extra]
    pins = []
    for need in map(Requirement, needs):
        versions = [item.version for item in need.specifier if item.operator == ">="]
        if need.name != "torch" and versions:
            pins.append(f"{need.name}=={versions[0]}")
    pinned = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return [*pins, *(line for line in pinned if line.startswith(("torch==", "pytest")))]


def check_wheel(sdist: Path, wheel: Path, folder: Path) -> None:
    """Train and evaluate with the wheel, without extras; the others say what to install."""
    run = Environment(folder, "-c", CONSTRAINTS, wheel)
    run("rlpyt", *TRAINING)
    assert "return" in run("rlpyt", "eval", "run", "--episodes", "2")
    run("rlpyt", "export", "run", "--to", "torch")
    said = run("rlpyt", "export", "run", fails=True)
    assert "onnx" in said and f"pip install '{wheel}[onnx]'" in said, said
    (folder / "tiny.yaml").write_text("title: tiny\n")
    said = run("rlpyt", "sweep", "tiny.yaml", fails=True)
    assert f"pip install '{wheel}[sweep]'" in said, said


def check_lowest(sdist: Path, wheel: Path, folder: Path) -> None:
    """Train, export and run the tests of the core with the lowest versions."""
    extras = ("fast", "onnx", "sweep")
    pins = folder / "lowest.txt"
    pins.write_text("\n".join(lowest(extras)) + "\n")
    tools = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith("hypothesis")]
    run = Environment(
        folder, "-c", pins, f"{wheel}[{','.join(extras)}]", *TOOLS, *tools, "-r", pins
    )
    print(run("python", "-m", "pip", "freeze").replace("\n", " "))
    run("rlpyt", *TRAINING)
    run("rlpyt", "export", "run")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("rlpyt-*")
    run.folder = unpacked
    tests = [f"tests/{name}" for name in CORE]
    print(run("python", "-m", "pytest", "-n", "2", "--disable-warnings", *tests).splitlines()[-1])


def check_docs(sdist: Path, wheel: Path, folder: Path) -> None:
    """Build the documentation with what its extra installs, as the workflow does."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("rlpyt-*")
    run = Environment(folder, "-c", CONSTRAINTS, f"{unpacked}[docs]")
    run.folder = unpacked
    run("python", "-m", "sphinx", "-q", "-W", "--keep-going", "docs", "docs/_build")


def check_sdist(sdist: Path, wheel: Path, folder: Path) -> None:
    """Unpack the source distribution and run its linter, types and fast tests."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.glob("rlpyt-*")
    log = unpacked / "test.txt"
    with log.open("w") as output:
        done = subprocess.run(
            ["make", "test"], cwd=unpacked, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    said = log.read_text()
    assert not done.returncode, said[-6000:]
    print("\n".join(said.splitlines()[-3:]))


TOOLS = ("pytest-timeout", "pytest-xdist", "scipy")
STEPS: dict[str, Callable[[Path, Path, Path], None]] = {
    "wheel": check_wheel,
    "docs": check_docs,
    "lowest": check_lowest,
    "sdist": check_sdist,
}


def main() -> None:
    """Build, then take the steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--dist", type=Path, help="folder with both files; default: build them")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.dist is None:
            sdist, wheel = build(folder)
        else:
            (sdist,), (wheel,) = (args.dist.resolve().glob(end) for end in ("*.tar.gz", "*.whl"))
        print(
            f"checking {sdist.name} ({sdist.stat().st_size:,} bytes) and {wheel.name}", flush=True
        )
        for step in args.steps:
            started = time.monotonic()
            (folder / f"check-{step}").mkdir()
            STEPS[step](sdist, wheel, folder / f"check-{step}")
            print(f"{step}: right, {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
