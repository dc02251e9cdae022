"""Codes and what they stand for, worked out by hand; codes and back; what is refused."""

import ast
import json
import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlpyt.utils.collections import AttrDict
from rlpyt.utils.launching import affinity as module
from rlpyt.utils.launching.affinity import (
    ABBREVS,
    affinity_from_code,
    build_affinities_gpu_1cpu_drive,
    build_async_affinity,
    build_cpu_affinity,
    build_gpu_affinity,
    build_multigpu_affinity,
    decode_affinity,
    encode_affinity,
    get_master_cpus,
    get_n_run_slots,
    get_workers_cpus,
    make_affinity,
    prepend_run_slot,
    quick_affinity_code,
    remove_run_slot,
)
from rlpyt.utils.launching.machine import Machine
from rlpyt.utils.launching.resources import AffinityError, Resources

CASES = json.loads(Path(__file__).with_name("affinity_cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["code"] for case in CASES])
def test_codes_and_dictionaries_are_those_of_rlpyt(case):
    assert encode_affinity(**case["kwargs"]) == case["code"]
    assert get_n_run_slots(case["code"]) == case["n_run_slots"]
    for slot, affinity in case["slots"].items():
        made = affinity_from_code(prepend_run_slot(int(slot), case["code"]))
        assert json.loads(json.dumps(made)) == affinity


def process(all_cpus, workers, threads=None, worker_threads=1, cuda=None, alt=False):
    made = dict(
        all_cpus=all_cpus, master_cpus=all_cpus, workers_cpus=workers,
        master_torch_threads=threads or len(all_cpus), worker_torch_threads=worker_threads,
        alternating=alt, set_affinity=True,
    )  # fmt: skip
    return made if cuda is None else dict(made, cuda_idx=cuda)


def optimizer(cpus, cuda=None):
    made = dict(cpus=cpus, torch_threads=1, set_affinity=True)
    return made if cuda is None else dict(made, cuda_idx=cuda)


BY_HAND = {
    # Cores only: runs of two cores each.
    "2slt_6cpu_0gpu_2cpr_0hto": process((4, 5), [(4,), (5,)]),
    # Second hardware threads are numbered from the number of cores on, or as the code says.
    "2slt_6cpu_0gpu_2cpr": process((4, 5, 10, 11), [(4, 10), (5, 11)], threads=2),
    "1slt_4cpu_2gpu_8hto": process((2, 3, 10, 11), [(2, 10), (3, 11)], threads=2, cuda=1),
    # Cores are shared out with the GPUs.
    "1slt_4cpu_2gpu_1cxg_0hto": process((2, 3), [(2,), (3,)], cuda=1),
    # Two runs to a GPU: slots 2 and 3 have the second one.
    "2slt_8cpu_2gpu_2cxg_0hto": process((4, 5), [(4,), (5,)], cuda=1),
    # Sockets of 8 cores each, of which 6 are used: the second begins with core 8.
    "2slt_12cpu_4gpu_16hto_2skt": process(
        (8, 9, 10, 24, 25, 26), [(8, 24), (9, 25), (10, 26)], threads=3, cuda=2
    ),
    # Of 5 cores one is reserved; workers of 2 cores each have the other 4.
    "0slt_10cpu_2gpu_1res_2cpw_0hto": process(
        (0, 1, 2, 3, 4), [(1, 2), (3, 4)], worker_threads=2, cuda=0
    ),
    # Alternating workers: two on each core, and with hyperthreads one on each thread.
    "0slt_2cpu_1gpu_1alt_0hto": process((0, 1), [(0,), (1,), (0,), (1,)], cuda=0, alt=True),
    "0slt_2cpu_1gpu_1alt": process(
        (0, 1, 2, 3), [(0,), (1,), (2,), (3,)], threads=2, cuda=0, alt=True
    ),
    # Two GPUs to a run: a rank on each, with the cores of its GPU, also where a GPU is left over.
    "1slt_10cpu_5gpu_2gpr_0hto": [
        process((4, 5), [(4,), (5,)], cuda=2),
        process((6, 7), [(6,), (7,)], cuda=3),
    ],
    # ... on two sockets one run has one each.
    "0slt_4cpu_2gpu_2gpr_8hto_2skt": [
        process((0, 1, 8, 9), [(0, 8), (1, 9)], threads=2, cuda=0),
        process((4, 5, 12, 13), [(4, 12), (5, 13)], threads=2, cuda=1),
    ],
    # Ranks without GPUs.
    "0slt_2cpu_0gpu_2cpr_2gpr_0hto": [process((0,), [(0,)]), process((1,), [(1,)])],
    # Asynchronous: the optimizer has a core of its own, the sampler the others.
    "0slt_4cpu_0gpu_4cpr_1ass_0hto": dict(
        all_cpus=(0, 1, 2, 3),
        optimizer=[optimizer((0,))],
        sampler=process((1, 2, 3), [(1,), (2,), (3,)]),
        set_affinity=True,
    ),
    "1slt_8cpu_2gpu_1ass_0hto": dict(
        all_cpus=(4, 5, 6, 7),
        optimizer=[optimizer((4,), cuda=1)],
        sampler=process((5, 6, 7), [(5,), (6,), (7,)]),
        set_affinity=True,
    ),
    # ... with an action server on the optimizer's GPU,
    "1slt_8cpu_2gpu_1ass_1sgr_1oss_0hto": dict(
        all_cpus=(4, 5, 6, 7),
        optimizer=[optimizer((4,), cuda=1)],
        sampler=[process((5, 6, 7), [(5,), (6,), (7,)], cuda=1)],
        set_affinity=True,
    ),
    # ... or two on GPUs of their own, beside two that optimize.
    "0slt_8cpu_4gpu_1ass_2gpr_2sgr_0hto": dict(
        all_cpus=tuple(range(8)),
        optimizer=[optimizer((0,), cuda=0), optimizer((1,), cuda=1)],
        sampler=[
            process((2, 3, 4), [(2,), (3,), (4,)], cuda=2),
            process((5, 6, 7), [(5,), (6,), (7,)], cuda=3),
        ],
        set_affinity=True,
    ),
    # ... and on two sockets each has one that optimizes and one that acts.
    "0slt_8cpu_4gpu_1ass_2gpr_2sgr_0hto_2skt": dict(
        all_cpus=(0, 4, 1, 2, 3, 5, 6, 7),
        optimizer=[optimizer((0,), cuda=0), optimizer((4,), cuda=2)],
        sampler=[
            process((1, 2, 3), [(1,), (2,), (3,)], cuda=1),
            process((5, 6, 7), [(5,), (6,), (7,)], cuda=3),
        ],
        set_affinity=True,
    ),
    # Too few cores: runs share them, and processes of a run do, too.
    "3slt_2cpu_4gpu_0hto": process((1,), [(1,)], cuda=3),
    "0slt_1cpu_0gpu_1cpr_1ass_0hto": dict(
        all_cpus=(0,),
        optimizer=[optimizer((0,))],
        sampler=process((0,), [(0,)]),
        set_affinity=True,
    ),
    "0slt_2cpu_0gpu_2cpr_3gpr_0hto": [process((core,), [(core,)]) for core in (0, 0, 1)],
}


@pytest.mark.parametrize("code", BY_HAND)
def test_affinities_by_hand(code):
    made = affinity_from_code(code)
    assert made == BY_HAND[code]
    assert pickle.loads(pickle.dumps(made)) == made
    one = made[0] if isinstance(made, list) else made
    assert isinstance(one, AttrDict) and one.all_cpus == one["all_cpus"]


def test_builders_take_the_parts_of_a_code():
    assert build_cpu_affinity(slt=2, cpu=6, cpr=2) == BY_HAND["2slt_6cpu_0gpu_2cpr"]
    assert build_gpu_affinity(1, 2, 4, hto=8) == BY_HAND["1slt_4cpu_2gpu_8hto"]
    ranks = build_multigpu_affinity(1, gpu=5, cpu=10, gpr=2, hto=0)
    assert ranks == BY_HAND["1slt_10cpu_5gpu_2gpr_0hto"]
    assert build_multigpu_affinity(0, gpu=1, cpu=1)[0].cuda_idx == 0
    shared = build_async_affinity(1, gpu=2, cpu=8, sgr=1, oss=1, hto=0)
    assert shared == BY_HAND["1slt_8cpu_2gpu_1ass_1sgr_1oss_0hto"]
    alone = build_async_affinity(0, gpu=0, cpu=4, hto=0)
    assert alone == BY_HAND["0slt_4cpu_0gpu_4cpr_1ass_0hto"]
    assert (
        make_affinity(run_slot=1, n_cpu_core=4, n_gpu=2, hyperthread_offset=8, n_socket=1)
        == (BY_HAND["1slt_4cpu_2gpu_8hto"])
    )
    driven = build_affinities_gpu_1cpu_drive(slt=0, gpu=1, cpu=3)
    whole = process((0, 1, 2, 3, 4, 5), [(1, 4), (2, 5)], threads=1, cuda=0)
    assert driven == dict(whole, master_cpus=(0, 3))


def test_cores_of_masters_and_workers():
    assert get_master_cpus((2, 3), hto=8) == (2, 3, 10, 11)
    assert get_master_cpus((2, 3), hto=None) == (2, 3)
    assert get_workers_cpus((0, 1, 2, 3, 4), cpw=2, hto=0, alt=0) == [(0, 1), (2, 3)]
    assert get_workers_cpus((0, 1), cpw=1, hto=4, alt=1) == [(0,), (1,), (4,), (5,)]


def test_disabled_pinning_is_in_the_affinity():
    assert (
        make_affinity(n_cpu_core=1, set_affinity=False, hyperthread_offset=0).set_affinity is False
    )
    parts = affinity_from_code("0slt_2cpu_0gpu_2cpr_1ass_0saf")
    assert [p.set_affinity for p in (parts, parts.optimizer[0], parts.sampler)] == [False] * 3


@pytest.mark.parametrize(
    "arguments, code",
    [
        (dict(n_cpu_core=4, n_gpu=2, hyperthread_offset=8), "4cpu_2gpu_8hto"),
        (dict(n_cpu_core=8, cpu_per_run=2), "8cpu_0gpu_2cpr"),
        (dict(n_cpu_core=8, cpu_per_run=2, hyperthread_offset=0), "8cpu_0gpu_2cpr_0hto"),
        (dict(n_cpu_core=8, n_gpu=4, gpu_per_run=2, run_slot=1), "1slt_8cpu_4gpu_2gpr"),
        (
            dict(n_cpu_core=16, n_gpu=2, contexts_per_gpu=2, cpu_per_worker=2, cpu_reserved=2,
                 n_socket=2, alternating=True, set_affinity=False),
            "16cpu_2gpu_2cxg_2cpw_2skt_2res_1alt_0saf",
        ),
        (
            dict(n_cpu_core=16, n_gpu=3, async_sample=True, gpu_per_run=2, sample_gpu_per_run=1),
            "16cpu_3gpu_2gpr_1ass_1sgr",
        ),
        (
            dict(n_cpu_core=4, n_gpu=1, async_sample=True, optim_sample_share_gpu=True),
            "4cpu_1gpu_1ass_1oss",
        ),
    ],
)  # fmt: skip
def test_codes_are_written_as_rlpyt_writes_them(arguments, code):
    usual = dict(hyperthread_offset=arguments["n_cpu_core"], n_socket=1)
    assert encode_affinity(**{**usual, **arguments}) == code


def test_run_slots_are_prepended_and_removed():
    assert prepend_run_slot(3, "8cpu_4gpu") == "3slt_8cpu_4gpu"
    assert remove_run_slot("3slt_8cpu_4gpu") == (3, "8cpu_4gpu")
    assert decode_affinity("8cpu_4gpu_1cxg") == dict(cpu=8, gpu=4, cxg=1)
    assert "slt" not in ABBREVS and {"cpu", "gpu", "saf"} < set(ABBREVS)
    slots = {
        "8cpu_0gpu_3cpr": 2, "8cpu_4gpu": 4, "8cpu_4gpu_2cxg": 8, "8cpu_5gpu_2gpr": 2,
        "8cpu_4gpu_1ass_1sgr": 2, "8cpu_4gpu_1ass_1sgr_1oss": 4, "8cpu_1gpu_2skt": 1,
    }  # fmt: skip
    assert {code: get_n_run_slots(code) for code in slots} == slots


@st.composite
def machines(draw):
    """Resources that can be shared out, of any kind."""
    n_gpu = draw(st.integers(0, 8))
    per_run = draw(st.integers(1, max(1, n_gpu)))
    asynchronous = draw(st.booleans())
    share = asynchronous and bool(n_gpu) and draw(st.booleans())
    most = per_run if share else n_gpu - per_run
    sample = draw(st.integers(0, most)) if asynchronous and n_gpu else 0
    contexts, worker, reserved = (draw(st.integers(low, 2)) for low in (1, 1, 0))
    needs = per_run * (max(reserved, 1) + worker) + max(1, sample) * worker
    extra = draw(st.integers(0, 5))
    n_core = (needs + extra) * (n_gpu * contexts if n_gpu else draw(st.integers(1, 3)))
    return Resources(
        n_cpu_core=n_core,
        n_gpu=n_gpu,
        contexts_per_gpu=contexts,
        gpu_per_run=per_run,
        cpu_per_run=1 if n_gpu else needs + extra,
        cpu_per_worker=worker,
        cpu_reserved=reserved,
        hyperthread_offset=draw(st.sampled_from([None, 0, n_core + 4])),
        n_socket=draw(st.integers(1, 3)),
        run_slot=draw(st.none() | st.integers(0, 3)),
        async_sample=asynchronous,
        sample_gpu_per_run=sample,
        optim_sample_share_gpu=share,
        alternating=draw(st.booleans()),
        set_affinity=draw(st.booleans()),
    )


def leaves(affinity):
    if isinstance(affinity, list):
        return [leaf for one in affinity for leaf in leaves(one)]
    if "optimizer" in affinity:
        return leaves(affinity["optimizer"]) + leaves(affinity["sampler"])
    return [affinity]


@given(machines())
def test_codes_roundtrip(resources):
    code = resources.to_code()
    assert Resources.from_code(code) == resources
    if resources.run_slot is None:
        offset = resources.thread_offset
        assert encode_affinity(**{**vars(resources), "hyperthread_offset": offset}) == code


@given(machines())
def test_no_two_runs_share_a_core_and_all_stay_on_the_machine(resources):
    code = "_".join(part for part in resources.to_code().split("_") if not part.endswith("slt"))
    taken = []
    for slot in range(get_n_run_slots(code)):
        made = affinity_from_code(prepend_run_slot(slot, code))
        own = leaves(made)
        everything = {cpu for leaf in own for cpu in leaf.get("all_cpus", leaf.get("cpus"))}
        taken += everything
        for leaf in own:
            assert set(leaf.get("master_cpus", leaf.get("cpus"))) <= set(everything)
            assert all(set(worker) <= set(everything) for worker in leaf.get("workers_cpus", []))
            assert leaf.get("workers_cpus") != []
            assert ("cuda_idx" in leaf) <= bool(resources.n_gpu)
            assert leaf.get("cuda_idx", -1) < resources.n_gpu
    assert len(taken) == len(set(taken))
    threads = resources.thread_offset
    n_cpus = max(resources.n_cpu_core, threads) + threads
    assert set(taken) <= set(range(n_cpus))


@pytest.mark.parametrize(
    "code, message",
    [
        ("", "got ''"),
        ("4cpu2gpu", "got '4cpu2gpu'"),
        ("4cpu_-2gpu", "got '-2gpu'"),
        ("4cpu_0gpu_2cpz", "'2cpz'; .*cpu, gpu"),
        ("4cpu_8cpu_1gpu", "has 'cpu' twice"),
        ("2gpu", "machine's cores"),
        ("4cpu_0gpu", "cores of a run.* 4cpr"),
        ("0cpu_1gpu", "n_cpu_core=0"),
        (
            "4cpu_0gpu_8cpr",
            "8 cores, .* 4: .* n_cpu_core=4, n_gpu",
        ),
        ("4cpu_2gpu_3gpr", "3 GPUs .* 2: .*n_gpu"),
        ("4cpu_2gpu_1ass_2sgr", "1 GPUs .* 2 to sample, .* 2.*1oss"),
    ],
)
def test_invalid_codes_are_refused_with_a_remedy(code, message):
    for call in (get_n_run_slots, lambda code: affinity_from_code(f"0slt_{code}")):
        with pytest.raises(AffinityError, match=message):
            call(code)


@pytest.mark.parametrize(
    "code, conflict",
    [
        ("4cpu_2gpu_1ass_1gpr_2sgr_1oss", "2 is more than gpu_per_run=1: samplers use the 1 GPUs"),
        ("4cpu_2gpu_1sgr", "have no effect without async_sample"),
        ("4cpu_8gpu", "4 cores for 8 runs: runs share cores"),
        ("1cpu_1gpu_1ass", "a run has 1 core and needs 2: its processes share cores"),
        ("2cpu_0gpu_2cpr_3gpr", "a run has 2 cores and needs 3: its processes share cores"),
        ("8cpu_1gpu_4hto", "hto. 4 is less than n_cpu_core=8: some second hardware threads"),
    ],
)
def test_shared_cores_are_conflicts_and_not_errors(code, conflict):
    assert affinity_from_code(f"0slt_{code}")
    [found] = Resources.from_code(code).conflicts()
    assert re.search(conflict, found)


def test_run_slots_are_required_and_checked():
    with pytest.raises(AffinityError, match="run slot.*'0slt_4cpu_2gpu'"):
        affinity_from_code("4cpu_2gpu")
    with pytest.raises(AffinityError, match="run slot .* 0 to 1, got 2.* n_cpu_core=4"):
        affinity_from_code("2slt_4cpu_2gpu")
    with pytest.raises(AffinityError, match="'0slt_4cpu_2gpu' .*run slot"):
        prepend_run_slot(1, "0slt_4cpu_2gpu")
    with pytest.raises(AffinityError, match="run slot .*got 2"):
        encode_affinity(n_cpu_core=4, n_gpu=2, run_slot=2)
    with pytest.raises(TypeError, match="n_cpu_core='4'"):
        encode_affinity(n_cpu_core="4")


def test_what_a_code_leaves_out_is_this_machines(monkeypatch):
    two_sockets = Machine(cpus=tuple(range(16)), n_core=8, n_socket=2, hyperthread_offset=8)
    monkeypatch.setattr(module.Machine, "here", lambda: two_sockets)
    assert encode_affinity(n_cpu_core=8, n_gpu=2) == "8cpu_2gpu_2skt"
    assert encode_affinity(n_cpu_core=4, n_gpu=2) == "4cpu_2gpu_8hto_2skt"
    assert encode_affinity(n_cpu_core=40, n_gpu=2) == "40cpu_2gpu"  # another machine
    assert (module.get_n_socket(), module.get_hyperthread_offset()) == (2, 8)
    assert quick_affinity_code(use_gpu=False) == "8cpu_0gpu_8cpr_2skt"
    assert quick_affinity_code(n_parallel=3, use_gpu=False) == "6cpu_0gpu_2cpr_8hto_2skt"
    with pytest.raises(ValueError, match=r"cores \(8\), got 9"):
        quick_affinity_code(n_parallel=9, use_gpu=False)
    with pytest.raises(ValueError, match="n_parallel=0"):
        quick_affinity_code(n_parallel=0)
    monkeypatch.setattr(module, "n_gpus", lambda: 4)
    assert quick_affinity_code(contexts_per_gpu=2) == "8cpu_4gpu_2cxg_2skt"
    assert quick_affinity_code(n_parallel=2) == "8cpu_2gpu_2skt"


def test_examples_of_the_documentation(monkeypatch):
    monkeypatch.setattr(Machine, "here", lambda: Machine(cpus=(0, 1), n_core=2))
    monkeypatch.setattr(module, "n_gpus", lambda: 0)
    page = (Path(__file__).parents[3] / "docs" / "affinity.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    lines = [line.partition("  # ") for line in block.splitlines() if "  # " in line]
    assert len(lines) == 5
    for call, _, said in lines:
        value = eval(call, vars(module))
        assert f'"{value}"' in said or ast.literal_eval(said) == value
