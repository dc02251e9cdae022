"""What the batches of a sampler must be, each by itself and beside the serial sampler's."""

from typing import Any

import numpy as np
import torch

from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.testing.report import Stop
from rlpyt.testing.sampler_runs import SamplerBench
from rlpyt.testing.trees import RTOL, difference
from rlpyt.utils.buffer import _named_leaves, leaves_of

WITHOUT_T = ("agent.bootstrap_value",)  # [1, B]


def check_batches(bench: SamplerBench) -> None:
    """Run the sampler, and look at structure and shapes."""
    bench.own = bench.collect(CollectorCls=bench.CollectorCls, evaluate=bench.evaluate)
    kind, leaves = bench.own.kinds
    if getattr(kind, "_fields", ()) != ("agent", "env"):
        bench.report.error(
            "batch",
            f"obtain_samples returned {kind.__name__} as samples",
            "return Samples(agent, env) and the trajectories that ended.",
        )
        raise Stop
    T, B = bench.batch_T, bench.batch_B
    for path, leaf_type in leaves:
        if not issubclass(leaf_type, torch.Tensor):
            bench.report.error(
                "batch", f"{path} is a {leaf_type.__name__}", "return torch tensors."
            )
    for path, leaf in _named_leaves(bench.own.batches[0][0]):
        expected = (1, B) if path in WITHOUT_T else (T, B)
        if leaf.shape[:2] != expected:
            bench.report.error(
                "batch",
                f"{path} has shape {leaf.shape}; expected {list(expected)} first",
                "lay out leaves [T, B, ...] with T=batch_T and B=batch_B.",
            )
    if bench.report.errors:
        raise Stop
    for itr, (samples, _) in enumerate(bench.own.batches):
        for path, leaf in _named_leaves(samples):
            if leaf.dtype.kind == "f" and np.isnan(leaf).any():
                where = [int(i) for i in np.argwhere(np.isnan(leaf))[0]]
                bench.report.error(
                    "batch",
                    f"batch {itr}: {path} is NaN at {where}: not written, or the environment's",
                    "write every entry of every batch; those of waiting environments are zero.",
                )


def check_shift(bench: SamplerBench) -> None:
    """The action and reward before are those of the step before; after a done they may be null."""
    last: Any = None
    for itr, (samples, _) in enumerate(bench.own.batches):
        for name, now, before in (
            ("action", samples.agent.action, samples.agent.prev_action),
            ("reward", samples.env.reward, samples.env.prev_reward),
        ):
            _check_shifted(bench, itr, name, now, before, samples.env.done)
            if last is not None:
                end = last.agent.action if name == "action" else last.env.reward
                wrong = _unlike_rows(end[-1], before[0]) & ~last.env.done[-1]
                if wrong.any():
                    bench.report.error(
                        "shift",
                        f"batch {itr}: prev_{name}[0] of environment {np.flatnonzero(wrong)[0]} is "
                        f"not the last {name} of the batch before",
                        "let the next batch begin with the action and reward that this one ended "
                        "with (null after a done).",
                    )
        last = samples


def _check_shifted(
    bench: SamplerBench, itr: int, name: str, now: Any, before: Any, done: Any
) -> None:
    for t in range(bench.batch_T - 1):
        wrong = _unlike_rows(now[t], before[t + 1]) & ~done[t]
        if wrong.any():
            bench.report.error(
                "shift",
                f"batch {itr}: prev_{name}[{t + 1}] of environment {np.flatnonzero(wrong)[0]} is "
                f"not {name}[{t}]",
                f"record as prev_{name} what was recorded as {name} one step before.",
            )
            return


def _unlike_rows(a: Any, b: Any) -> Any:
    """[B] bool: where two trees [B, ...] differ."""
    unlike = [
        (x != y).reshape(len(x), -1).any(1) for x, y in zip(leaves_of(a), leaves_of(b), strict=True)
    ]
    return np.logical_or.reduce(unlike)


def check_ends(bench: SamplerBench) -> None:
    """Time limits are marked where episodes end, and valued there and nowhere else."""
    for itr, (samples, _) in enumerate(bench.own.batches):
        done, info = samples.env.done, samples.env.env_info
        timeout = getattr(info, "timeout", np.zeros_like(done))
        if (timeout & ~done).any():
            bench.report.error(
                "ends",
                f"batch {itr}: env_info.timeout without done",
                "record both of one step.",
            )
        value = getattr(samples.agent, "timeout_value", None)
        if value is None:
            bench.report.warning(
                "ends",
                "samples.agent has no timeout_value",
                "record the value of the true final observation where an episode was truncated, as "
                "the stock collectors do: without it, time limits are learnt as ends of the task.",
            )
        elif (value[~timeout] != 0).any():
            bench.report.error(
                "ends",
                f"batch {itr}: timeout_value is not zero where no episode was truncated",
                "set it to zero at the beginning of every batch.",
            )
        if not bench.own.mid_batch_reset:
            _check_waiting(bench, itr, samples)


def _check_waiting(bench: SamplerBench, itr: int, samples: Any) -> None:
    waiting = waits(samples.env.done)
    if not samples.env.done[waiting].all():
        bench.report.error(
            "ends",
            f"batch {itr}: an environment that waits for the end of the batch is not marked done",
            "record done for every step that an environment waits.",
        )
    if (samples.env.reward[waiting] != 0).any():
        bench.report.error(
            "ends",
            f"batch {itr}: an environment that waits for the end of the batch earns rewards",
            "record zeros for the steps that an environment waits.",
        )


def waits(done: Any) -> Any:
    """[T, B] bool: the steps after the first done of each environment."""
    earlier = np.cumsum(done, axis=0) - done
    return earlier > 0


def check_trajectories(bench: SamplerBench) -> None:
    """Lengths and returns of trajectories are those that the batches add up to."""
    own = bench.own
    going = [[] for _ in range(bench.batch_B)]  # type: list[list[float]]
    for itr, (samples, infos) in enumerate(own.batches):
        env = samples.env
        over = np.asarray(getattr(env.env_info, "traj_done", env.done))
        waiting = np.zeros_like(over) if own.mid_batch_reset else waits(env.done)
        if not own.mid_batch_reset and (env.done & ~over & ~waiting).any():
            bench.report.open("trajectories", "returns end within trajectories, which then wait")
            return
        expected = []
        for b in range(bench.batch_B):
            for t in np.flatnonzero(~waiting[:, b]):
                going[b].append(float(env.reward[t, b]))
                if over[t, b]:
                    expected.append(_entries(going[b]))
                    going[b] = []
        found = sorted((e["Length"], e["Return"], e["NonzeroRewards"]) for e in infos)
        same = len(found) == len(expected) and np.allclose(
            np.array(found), np.array(sorted(expected)), rtol=RTOL, atol=1e-3
        )
        if not same:
            bench.report.error(
                "trajectories",
                f"batch {itr}: trajectories (length, return, rewards) {found[:3]}; the batches add "
                f"up to {sorted(expected)[:3]}",
                "count every step once, from reset to traj_done (or done), over batches.",
            )
            return


def _entries(rewards: list[float]) -> tuple[int, float, int]:
    return len(rewards), sum(rewards), sum(r != 0 for r in rewards)


def check_serial(bench: SamplerBench, exact: bool | None) -> None:
    """The serial sampler, seeded alike, gives the same batches and evaluations."""
    Collector = CpuResetCollector if bench.own.mid_batch_reset else CpuWaitResetCollector
    bench.serial = bench.collect(SerialSampler, Collector, bench.evaluate)
    rounded = None
    for itr, (own, theirs) in enumerate(zip(bench.own.batches, bench.serial.batches, strict=True)):
        found = batch_difference(own[0], theirs[0])
        if found is None:
            continue
        large = batch_difference(own[0], theirs[0], close=True)
        if exact or large:
            bench.report.error(
                "same-as-serial",
                f"batch {itr}: {large or found} (the serial sampler's second)",
                "give every environment its own seed and noise by its global rank, and its agent "
                "the same inputs: null action and reward and a cleared state after a done.",
            )
            return
        rounded = rounded or f"batch {itr}: {found}"
    if rounded:
        bench.report.note("same-as-serial", f"equal up to rounding, as in {rounded}")


def batch_difference(own: Any, theirs: Any, close: bool = False) -> str | None:
    """Say which field of two batches differs; fields that only one has are passed over."""
    for part in ("agent", "env"):
        a, b = getattr(own, part), getattr(theirs, part)
        for name in a._fields:
            if not hasattr(b, name):
                continue
            found = difference(getattr(a, name), getattr(b, name), close)
            if found:
                return f"{part}.{name}: {found}"
    return None


def check_repetition(bench: SamplerBench) -> None:
    """The same seed gives the same batches, whether there are evaluations between them or not."""
    again, left = bench.collect_and_leave()
    for itr, (own, other) in enumerate(zip(bench.own.batches, again.batches, strict=True)):
        found = batch_difference(own[0], other[0], close=True)
        if found and itr == 0:
            bench.report.error(
                "repeatable",
                f"the same seed gave another first batch: {found}",
                "draw from streams named by seed, purpose and environment rank "
                "(rlpyt.utils.seed.stream), whatever the timing of workers.",
            )
            return
        if found:
            bench.report.error(
                "evaluation",
                f"without evaluations, batch {itr} is another: {found}",
                "evaluate in environments, streams and a recurrent memory of their own.",
            )
            return
    _check_left(bench, left)


def _check_left(bench: SamplerBench, left: dict[str, list[str]]) -> None:
    """Nothing of a run is there after ``shutdown``."""
    if "processes" in left:
        bench.report.error(
            "shutdown",
            f"processes left after shutdown: {left['processes'][:3]}",
            "end every process in shutdown(), and wait for it.",
        )
    if "files" in left:  # names in shared memory cannot be told from other programs'
        bench.report.warning(
            "shutdown",
            f"descriptors left open after shutdown: {left['files'][:3]}",
            "close pipes and files in shutdown(), and leave no cycle that holds them.",
        )


def check_evaluation(bench: SamplerBench) -> None:
    """Evaluations return the episodes that were asked for, as the serial sampler's do."""
    wanted = 2 * bench.n_workers
    if not bench.evaluate:
        bench.report.open("evaluation", "left out: evaluate=False")
        return
    if not any(bench.serial.evaluations):
        bench.report.open("evaluation", "no episode of the serial sampler's ended")
    for i, (own, theirs) in enumerate(
        zip(bench.own.evaluations, bench.serial.evaluations, strict=True)
    ):
        if len(own) > wanted:
            bench.report.error(
                "evaluation",
                f"evaluation {i} returned {len(own)} trajectories of {wanted} asked for",
                "run no more than eval_max_trajectories, shared out over the environments.",
            )
        if len(own) != len(theirs) or not _alike(own, theirs):
            bench.report.error(
                "evaluation",
                f"evaluation {i} returned {_shown(own)}; the serial sampler {_shown(theirs)}",
                "run whole episodes from fresh resets, each environment its share.",
            )
            return


def _alike(own: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    a, b = (np.array([[e["Length"], e["Return"]] for e in x]) for x in (own, theirs))
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-3))


def _shown(entries: list[dict[str, Any]]) -> str:
    first = [(entry["Length"], round(entry["Return"], 3)) for entry in entries[:3]]
    return f"{len(entries)} trajectories, (length, return) {first}..."


def check_state(bench: SamplerBench) -> None:
    """A new sampler, given the state, goes on with the next batch."""
    if bench.own.state is None:
        bench.report.open("state", "there is no state_dict: runs cannot be resumed exactly")
        return
    info = bench.own.batches[0][0].agent.agent_info
    if bench.agent().recurrent and not hasattr(info, "prev_rnn_state"):
        bench.report.open(
            "state", "the agent records no prev_rnn_state, and so its memory cannot be restored"
        )
        return
    exactly, samples = bench.resume(bench.own.state)
    if not exactly:
        bench.report.open("state", "load_state_dict says that it cannot be exact")
        return
    found = batch_difference(bench.own.batches[1][0], samples, close=True)
    if found:
        bench.report.error(
            "state",
            f"after load_state_dict the next batch is another: {found}",
            "save environments, streams, the agent's memory and the inputs of the next step.",
        )
