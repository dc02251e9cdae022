"""The same environment in a process of its own, as parallel samplers have it."""

from collections.abc import Mapping
from typing import Any

from rlpyt.errors import WorkerError
from rlpyt.processes.call import run_in_child
from rlpyt.testing.bench import Bench
from rlpyt.testing.report import Report
from rlpyt.testing.rows import Run, first_difference, play, start

STEPS = 20


def check_worker(bench: Bench) -> None:
    """Send the factory to another process, and compare what comes of it there."""
    T = min(STEPS, len(bench.reference.moments))
    actions = [bench.actions(t) for t in range(T)]
    settings = (bench.make_env, bench.env_kwargs, bench.seed, bench.n)
    try:
        run = run_in_child(_play_there, *settings, actions, what="building the environment")
    except TypeError as error:  # it cannot be pickled
        bench.report.error(
            "worker",
            f"{error}",
            "leave live objects (environments, files, locks) out of the function's closure and of "
            "env_kwargs; build them inside the environment.",
        )
    except WorkerError as error:
        bench.report.error(
            "worker",
            f"it does not work in a worker process: {error}",
            "let the factory itself import and register what it needs: a worker does not run the "
            "rest of your script.",
        )
    else:
        found = first_difference(bench.reference, run, info=False)
        if found and bench.reproducible:
            bench.report.error(
                "worker",
                f"with the same seed it goes another way in a worker process: {found}",
                "let it depend on its arguments and its seed alone, not on what else the process "
                "has imported, set or played.",
            )


def _play_there(
    make_env: Any, env_kwargs: Mapping[str, Any], seed: int, n_rows: int, actions: list[list[Any]]
) -> Run:
    """Play these actions; the record comes without env_info."""
    bench = Bench(make_env, env_kwargs, Report("worker", {}), seed, n_rows=n_rows)
    bench.adopt(bench.build())
    try:
        rows = bench.rows(bench.seeds())
        run = play(rows, start(rows), actions.__getitem__, len(actions))
        return Run(run.first, [[m._replace(info=None) for m in at] for at in run.moments])
    finally:
        bench.close()
