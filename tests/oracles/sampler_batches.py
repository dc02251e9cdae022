"""Checks of the batches of a sampler, by themselves and compared with the serial sampler's."""

from typing import Any

import numpy as np
import torch

from rlpyt.samplers.parallel.cpu.collectors import CpuResetCollector, CpuWaitResetCollector
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.testing.report import Stop
from rlpyt.testing.trees import RTOL, difference
from rlpyt.utils.buffer import _named_leaves, leaves_of
from tests.oracles.sampler_runs import SamplerCase

WITHOUT_T = ("agent.bootstrap_value",)  # [1, B]


def check_batches(case: SamplerCase) -> None:
    """Run the sampler and check the structure and shapes of its batches."""
    expect = case.report.expect
    case.own = case.collect(CollectorCls=case.CollectorCls, evaluate=case.evaluate)
    kind, leaves = case.own.kinds
    expect(
        getattr(kind, "_fields", ()) == ("agent", "env"),
        f"obtain_samples returned {kind.__name__} as samples",
        "return Samples(agent, env) and the completed trajectories.",
        stop=True,
    )
    for path, leaf_type in leaves:
        tensor = issubclass(leaf_type, torch.Tensor)
        expect(tensor, f"{path} is a {leaf_type.__name__}", "return torch tensors.")
    for path, leaf in _named_leaves(case.own.batches[0][0]):
        shape = (1 if path in WITHOUT_T else case.batch_T, case.batch_B)
        what = f"{path} has shape {leaf.shape}; expected {list(shape)} first"
        fix = "lay out leaves [T, B, ...] with T=batch_T and B=batch_B."
        expect(leaf.shape[:2] == shape, what, fix)
    if case.report.errors:
        raise Stop
    for itr, (samples, _) in enumerate(case.own.batches):
        for path, leaf in _named_leaves(samples):
            missing: list[Any] = (
                np.argwhere(np.isnan(leaf)).tolist() if leaf.dtype.kind == "f" else []
            )
            expect(
                not missing,
                f"batch {itr}: {path} is NaN at {(missing or [''])[0]}: the entry was not written, "
                "or the environment returned NaN",
                "write every entry of every batch; zeros for environments that wait.",
            )


def check_shift(case: SamplerCase) -> None:
    """Check that prev_action and prev_reward are those of the step before, unless it was done."""
    last: dict[str, Any] = {}
    for itr, (samples, _) in enumerate(case.own.batches):
        done = samples.env.done
        for name, now, before in (
            ("action", samples.agent.action, samples.agent.prev_action),
            ("reward", samples.env.reward, samples.env.prev_reward),
        ):
            if name in last:
                end, over = last[name]
                wrong = np.flatnonzero(_unequal_rows(end, before[0]) & ~over)
                case.report.expect(
                    not len(wrong),
                    f"batch {itr}: prev_{name}[0] of environments {wrong} is not the last {name} "
                    "of the batch before",
                    "start with the last action and reward before (null after a done).",
                )
            for t in range(case.batch_T - 1):
                wrong = np.flatnonzero(_unequal_rows(now[t], before[t + 1]) & ~done[t])
                case.report.expect(
                    not len(wrong),
                    f"batch {itr}: prev_{name}[{t + 1}] of environments {wrong} is not {name}[{t}]",
                    f"record in prev_{name} the {name} of the step before.",
                )
            last[name] = now[-1], done[-1]


def _unequal_rows(a: Any, b: Any) -> Any:
    """Return [B] bool: rows in which two trees [B, ...] differ."""
    pairs = zip(leaves_of(a), leaves_of(b), strict=True)
    return np.logical_or.reduce([(x != y).reshape(len(x), -1).any(1) for x, y in pairs])


def check_ends(case: SamplerCase) -> None:
    """Check that time limits are marked where episodes end, and valued there and nowhere else."""
    expect = case.report.expect
    for itr, (samples, _) in enumerate(case.own.batches):
        done, info, reward = samples.env.done, samples.env.env_info, samples.env.reward
        timeout = getattr(info, "timeout", np.zeros_like(done))
        waiting = np.zeros_like(done) if case.own.mid_batch_reset else waits(done)
        value = getattr(samples.agent, "timeout_value", None)
        if value is None:
            case.report.warning(
                "samples.agent has no timeout_value",
                "record the value of the final observation where an episode was truncated, as the "
                "included collectors do; otherwise time limits are learned as ends of the task.",
            )
            value = np.zeros_like(reward)
        for ok, what, fix in (
            (done[timeout], "env_info.timeout without done", "record both from the same step."),
            (
                value[~timeout] == 0,
                "timeout_value is not zero where no episode was truncated",
                "set it to zero at the start of every batch.",
            ),
            (
                done[waiting],
                "steps after a done are not marked done while the environment waits",
                "record done for the steps that an environment waits.",
            ),
            (
                reward[waiting] == 0,
                "an environment that waits for the end of the batch earns rewards",
                "record zeros for the steps that an environment waits.",
            ),
        ):
            expect(ok.all(), f"batch {itr}: {what}", fix)


def waits(done: Any) -> Any:
    """Return [T, B] bool: the steps after the first done of each environment."""
    return np.cumsum(done, axis=0) > done


def check_trajectories(case: SamplerCase) -> None:
    """Check that lengths and returns of trajectories agree with the batches."""
    own = case.own
    rewards: list[list[float]] = [[] for _ in range(case.batch_B)]
    for itr, (samples, infos) in enumerate(own.batches):
        env = samples.env
        over = np.asarray(getattr(env.env_info, "traj_done", env.done))
        waiting = np.zeros_like(over) if own.mid_batch_reset else waits(env.done)
        if not own.mid_batch_reset and (env.done & ~over & ~waiting).any():
            text = "done is set within trajectories, which then wait"
            case.report.open(text)
            return
        expected = []
        for b in range(case.batch_B):
            for t in np.flatnonzero(~waiting[:, b]):
                rewards[b].append(float(env.reward[t, b]))
                if over[t, b]:
                    nonzero = sum(r != 0 for r in rewards[b])
                    expected.append((len(rewards[b]), sum(rewards[b]), nonzero))
                    rewards[b] = []
        expected.sort()
        found = sorted((e["Length"], e["Return"], e["NonzeroRewards"]) for e in infos)
        case.report.expect(
            len(found) == len(expected) and np.allclose(found, expected, rtol=RTOL, atol=1e-3),
            f"batch {itr}: trajectories (length, return, rewards) {found[:3]}; the batches add up "
            f"to {expected[:3]}",
            "count every step once, from reset to traj_done (or done), over batches.",
            stop=True,
        )


def check_serial(case: SamplerCase, exact: bool | None) -> None:
    """Check that the serial sampler with the same seed collects the same."""
    Collector = CpuResetCollector if case.own.mid_batch_reset else CpuWaitResetCollector
    case.serial = case.collect(SerialSampler, Collector, case.evaluate)
    rounded = None
    for itr, (own, theirs) in enumerate(zip(case.own.batches, case.serial.batches, strict=True)):
        found = batch_difference(own[0], theirs[0])
        if found is None:
            continue
        large = batch_difference(own[0], theirs[0], close=True)
        fix = "use seed and noise of each environment's global rank, and the same agent inputs: "
        fix += "null action and reward and a cleared state after a done."
        what = f"batch {itr}: {large or found} (the second is the serial sampler's)"
        if not case.report.expect(not (exact or large), what, fix):
            return
        rounded = rounded or f"batch {itr}: {found}"
    if rounded:
        case.report.note(f"equal up to rounding, as in {rounded}")


def batch_difference(own: Any, theirs: Any, close: bool = False) -> str | None:
    """Describe the first difference of two batches in their common fields, or return None."""
    for part in ("agent", "env"):
        a, b = getattr(own, part), getattr(theirs, part)
        for name in a._fields:
            found = hasattr(b, name) and difference(getattr(a, name), getattr(b, name), close)
            if found:
                return f"{part}.{name}: {found}"
    return None


def check_repetition(case: SamplerCase) -> None:
    """Check that the same seed gives the same batches, with and without evaluations."""
    again, left = case.collect_and_leave()
    for itr, (own, other) in enumerate(zip(case.own.batches, again.batches, strict=True)):
        found = batch_difference(own[0], other[0], close=True)
        if found and itr == 0:
            case.report.error(
                f"the same seed gave another first batch: {found}",
                "draw from streams by seed, purpose and rank (rlpyt.utils.seed.stream).",
            )
            return
        if found:
            case.report.error(
                f"without evaluations, batch {itr} is another: {found}",
                "evaluate with separate environments, streams and recurrent state.",
                check="evaluation",
            )
            return
    if "processes" in left:
        text = f"processes left after shutdown: {left['processes'][:3]}"
        case.report.error(
            text, "end every process in shutdown(), and wait for it.", check="shutdown"
        )
    if "files" in left:  # names in shared memory may belong to other programs
        text = f"descriptors left open after shutdown: {left['files'][:3]}"
        fix = "close pipes and files in shutdown(), and leave no reference cycle that holds them."
        case.report.warning(text, fix, check="shutdown")


def check_evaluation(case: SamplerCase) -> None:
    """Check that evaluations return the same episodes as the serial sampler's."""
    wanted = 2 * case.n_workers
    if not case.evaluate:
        case.report.open("not checked: evaluate=False")
        return
    if not any(case.serial.evaluations):
        case.report.open("no episode of the serial sampler ended")
    pairs = zip(case.own.evaluations, case.serial.evaluations, strict=True)
    for i, (own, theirs) in enumerate(pairs):
        case.report.expect(
            len(own) <= wanted,
            f"evaluation {i} returned {len(own)} trajectories, requested {wanted}",
            "run at most eval_max_trajectories, distributed over the environments.",
        )
        a, b = ([(e["Length"], e["Return"]) for e in x] for x in (own, theirs))
        case.report.expect(
            len(a) == len(b) and np.allclose(a, b, rtol=1e-3, atol=1e-3),
            f"evaluation {i} returned {len(a)} trajectories, (length, return) {a[:3]}...; the "
            f"serial sampler {len(b)}, {b[:3]}...",
            "run complete episodes from new resets, the same number in each environment.",
        )


def check_state(case: SamplerCase) -> None:
    """Check that a new sampler with the loaded state collects the next batch."""
    report = case.report
    if case.own.state is None:
        report.open("state_dict is missing: runs cannot be resumed exactly")
        return
    info = case.own.batches[0][0].agent.agent_info
    if case.agent().recurrent and not hasattr(info, "prev_rnn_state"):
        text = "the agent does not record prev_rnn_state, so its state cannot be restored"
        report.open(text)
        return
    exactly, samples = case.resume(case.own.state)
    if not exactly:
        report.open("load_state_dict returned that it cannot be exact")
        return
    found = batch_difference(case.own.batches[1][0], samples, close=True)
    report.expect(
        not found,
        f"after load_state_dict the next batch is another: {found}",
        "save environments, streams, the agent's state and the inputs of the next step.",
    )
