"""Processors of an affinity code on this machine, and detection of the machine."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest

from rlpyt.envs.gym import make
from rlpyt.experiments import hardware
from rlpyt.experiments.options import RunOptions
from rlpyt.processes.call import run_in_child
from rlpyt.runners.sync_rl import ranks_affinities
from rlpyt.samplers import layout
from rlpyt.samplers.layout import Hardware, split_affinity
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.launching import machine
from rlpyt.utils.launching import placement as module
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.machine import Machine, cpu_quota
from rlpyt.utils.launching.placement import listed, placed, placement, run_cpus
from rlpyt.utils.launching.resources import AffinityError, Resources


@pytest.fixture
def allowed(monkeypatch):
    """Says which processors this process may use."""

    def allow(*cpus):
        for place in (module, layout, machine):
            monkeypatch.setattr(place, "available_cpus", lambda: list(cpus))

    return allow


@pytest.mark.parametrize(
    "code, available, expected",
    [
        # An ordinary machine: numbers are what they are.
        ("1slt_4cpu_0gpu_2cpr_0hto", [0, 1, 2, 3], {2: 2, 3: 3}),
        ("0slt_8cpu_0gpu_2cpr_0hto", [0, 1, 2, 3], {0: 0, 1: 1}),
        ("0slt_2cpu_0gpu_1cpr", [0, 1, 2, 3], {0: 0, 2: 2}),
        # A job that may use others: in order.
        ("1slt_4cpu_0gpu_2cpr_0hto", [4, 5, 6, 7], {2: 6, 3: 7}),
        ("1slt_4cpu_0gpu_2cpr_0hto", [2, 3, 4, 5], {2: 4, 3: 5}),
        ("0slt_2cpu_1gpu_4hto", [4, 5, 20, 21], {0: 4, 1: 5, 4: 20, 5: 21}),
        ("0slt_2cpu_1gpu", [4, 5, 20, 21], {0: 4, 1: 5, 2: 20, 3: 21}),
        # More than the code's machine, and it among them.
        ("0slt_4cpu_0gpu_4cpr_0hto", [0, 1, 2, 3, 9], {0: 0, 1: 1, 2: 2, 3: 3}),
        # What a launcher has left of them for the run.
        ("1slt_4cpu_0gpu_2cpr_0hto", [2, 3], {2: 2, 3: 3}),
        ("1slt_4cpu_0gpu_2cpr_0hto", [6, 7], {2: 6, 3: 7}),
        ("1slt_2cpu_0gpu_1cpr", [1, 3], {1: 1, 3: 3}),
        # Without second hardware threads those of the code are the cores themselves.
        ("1slt_4cpu_0gpu_2cpr", [0, 1, 2, 3], {2: 2, 3: 3, 6: 2, 7: 3}),
        ("1slt_4cpu_0gpu_2cpr", [2, 3], {2: 2, 3: 3, 6: 2, 7: 3}),
        ("0slt_2cpu_1gpu_4hto", [0, 1], {0: 0, 1: 1, 4: 0, 5: 1}),
    ],
)
def test_a_codes_processors_are_found(code, available, expected):
    assert placement(Resources.from_code(code), available) == expected


@pytest.mark.parametrize(
    "n_core, expected",
    [(4, {2: 6, 3: 7, 6: 6, 7: 7}), (2, {2: 4, 3: 5, 6: 6, 7: 7})],
    ids=["four cores of a container", "two cores, left to the run by a launcher"],
)
def test_as_many_processors_as_a_run_has_are_its_own_if_they_are_threads(
    n_core, expected, monkeypatch
):
    cpus = (4, 5, 6, 7)
    monkeypatch.setattr(Machine, "here", lambda: Machine(cpus=cpus, n_core=n_core))
    assert placement(Resources.from_code("1slt_4cpu_0gpu_2cpr"), list(cpus)) == expected


@pytest.mark.parametrize(
    "code, available",
    [("1slt_4cpu_0gpu_2cpr", [0, 1]), ("1slt_8cpu_0gpu_4cpr", [4, 5, 6]), ("0slt_2cpu_1gpu", [3])],
)
def test_a_code_for_a_larger_machine_is_refused(code, available):
    with pytest.raises(AffinityError, match=f" {len(available)} processors.*_0saf"):
        placement(Resources.from_code(code), available)


def test_only_affinities_of_codes_are_mapped(allowed):
    allowed(4, 5, 6, 7)
    made = affinity_from_code("1slt_4cpu_0gpu_2cpr_0hto")
    expected = dict(all_cpus=(6, 7), master_cpus=(6, 7), workers_cpus=[(6,), (7,)])
    for one in (made, dict(made), pickle.loads(pickle.dumps(made))):  # however it has travelled
        found = placed(one)
        assert {key: found[key] for key in expected} == expected
        assert placed(found) == found  # once is enough
    own = dict(workers_cpus=[4, 5], master_cpus=[4])
    assert placed(own) == own
    parts = affinity_from_code("0slt_4cpu_0gpu_4cpr_1ass_0hto")
    assert (placed(parts).get("all_cpus"), placed(parts.optimizer[0])["cpus"]) == (
        (4, 5, 6, 7),
        (4,),
    )
    slot = Resources.from_code("1slt_4cpu_0gpu_2cpr_0hto")
    assert run_cpus(slot) == (6, 7)
    assert run_cpus(replace(slot, set_affinity=False)) is None


@pytest.mark.filterwarnings("ignore:n_workers=8 on 4 cores")
def test_hardware_is_read_of_codes(allowed):
    allowed(4, 5, 6, 7)
    found = Hardware.of("1slt_4cpu_0gpu_2cpr_0hto")
    assert found == Hardware.of(affinity_from_code("1slt_4cpu_0gpu_2cpr_0hto"))
    assert (found.n_workers, found.workers_cpus, found.master_cpus) == (2, [[6], [7]], [6, 7])
    assert (found.master_torch_threads, found.cuda_idx) == (2, None)
    free = Hardware.of("0slt_8cpu_0gpu_8cpr_0saf")  # not pinned, so it need not be this machine
    assert (free.n_workers, free.workers_cpus, free.master_cpus) == (8, [None] * 8, None)
    with pytest.raises(TypeError, match="SyncRl"):
        Hardware.of("0slt_4cpu_0gpu_4cpr_2gpr")
    with pytest.raises(ValueError, match="AsyncRl"):
        Hardware.of(dict(sampler=None))


@pytest.mark.filterwarnings("ignore:n_workers=8 on 4 cores")
def test_a_run_with_the_code_of_a_larger_machine_is_not_pinned(allowed):
    allowed(4, 5, 6, 7)
    words = "8 cores, .* 4 processors: 4-7"
    with pytest.warns(UserWarning, match=words):
        found = Hardware.of("0slt_8cpu_0gpu_8cpr")
    assert (found.n_workers, found.workers_cpus, found.master_cpus) == (8, [None] * 8, None)
    assert found.master_torch_threads == 4


@pytest.mark.parametrize("code", ["1slt_2cpu_2gpu_1res_0hto", "0slt_4cpu_0gpu_1cpr_2cpw_0hto"])
def test_without_a_core_for_workers_one_shares_the_masters(allowed, code):
    allowed(0, 1, 2, 3)
    core = int(code[0])
    with pytest.warns(UserWarning, match="worker shares the master's cores"):
        found = Hardware.of(code, 6)
    assert (found.workers_cpus, found.master_cpus) == ([[core]], [core])


def test_runs_that_share_cores_are_warned(allowed):
    allowed(0, 1)
    with pytest.warns(UserWarning, match="2 cores for 4 runs") as said:
        assert Hardware.of("1slt_2cpu_2gpu_2cxg_0hto").workers_cpus == [[0]]
    assert len(said) == 1


def test_defaults_follow_the_containers_quota(allowed, monkeypatch):
    allowed(*range(8))
    options = RunOptions(algo_name="ppo", env="CartPole-v1", torch_threads=0)
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=1, batch_B=8)
    for quota, n in ((None, 8), (2.5, 2), (0.5, 1), (64.0, 8)):
        monkeypatch.setattr(machine, "cpu_quota", lambda quota=quota: quota)
        assert Hardware.of(None).n_workers == n
        assert split_affinity(None)["optimizer"] == [{"torch_threads": max(1, n // 2)}]
        assert hardware.affinity(options)["master_torch_threads"] == n
        shares = ranks_affinities(2, sampler)
        assert [own["master_torch_threads"] for own in shares] == [max(1, n // 2)] * 2


def test_an_empty_affinity_is_none(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    sampler = SerialSampler(make, dict(id="CartPole-v1"), batch_T=1, batch_B=8)
    assert Hardware.of({}) == Hardware.of(None)
    assert split_affinity({}) == split_affinity(None)
    ranks = ranks_affinities({}, sampler)
    assert ranks == ranks_affinities(None, sampler) and len(ranks) == 3


def test_alternating_workers_sit_on_each_others_cores(allowed):
    allowed(0, 1, 2, 3)
    code = "0slt_4cpu_0gpu_4cpr_1alt"  # and its second hardware threads are not here
    assert Hardware.of(code, 8, groups=2).workers_cpus == [[0], [1], [2], [3]] * 2
    with pytest.warns(UserWarning, match="batch_B=4 and 8 workers, .* is 4"):
        assert Hardware.of(code, 4, groups=2).workers_cpus == [[0], [1]] * 2


def test_workers_with_nothing_to_do_are_not_started(allowed):
    allowed(0, 1, 2, 3)
    with pytest.warns(UserWarning, match="batch_B=6 and 4 workers, .* is 3"):
        assert Hardware.of("0slt_4cpu_0gpu_4cpr", 6).n_workers == 3


def test_processors_that_are_not_there_are_one_warning(allowed):
    allowed(0, 1)
    affinity = dict(workers_cpus=[[0, 8], 9], master_cpus=0)
    with pytest.warns(UserWarning, match="cpus 8-9, .* 0-1") as said:
        found = Hardware.of(affinity)
    assert (found.workers_cpus, found.master_cpus, len(said)) == ([None, None], None, 1)


def test_unpinned_workers_do_not_share_the_masters_cores(allowed):
    allowed(0, 1, 2)
    found = Hardware.of(dict(master_cpus=[0], n_workers=3, workers_cpus=[1]))
    assert found.workers_cpus == [[1], [0, 1, 2], [0, 1, 2]]
    assert Hardware.of(dict(n_workers=2)).workers_cpus == [None, None]


def test_numbers_of_numpy_are_numbers(allowed):
    allowed(0, 1)
    given = dict(workers_cpus=np.array([0, 1]), master_cpus=np.int64(0), cuda_idx=np.int64(0))
    plain = dict(workers_cpus=[0, 1], master_cpus=[0], cuda_idx=0)
    assert Hardware.of(given) == Hardware.of(plain)
    assert Hardware.of(dict(n_workers=np.int64(2))) == Hardware.of(dict(n_workers=2))


@pytest.mark.parametrize(
    ("affinity", "error", "words"),
    [
        (dict(workers_cpus=2), TypeError, "workers_cpus=2 .*n_workers="),
        (dict(workers_cpus="0-1"), TypeError, "workers_cpus='0-1'"),
        (dict(workers_cpus=[0, "1"]), TypeError, "workers_cpus='1'"),
        (dict(master_cpus="0"), TypeError, "master_cpus='0'"),
        (dict(n_workers=0), ValueError, "n_workers=0"),
        (dict(n_workers="2"), TypeError, "n_workers='2'"),
        (
            dict(n_workers=21),
            ValueError,
            "n_workers .* 20 .*got 21",
        ),
        (dict(cuda_idx="0"), TypeError, "cuda_idx='0'"),
        (dict(cuda_idx=-1), ValueError, "cuda_idx=-1"),
    ],
    ids=str,
)
def test_invalid_values_are_refused(allowed, affinity, error, words):
    allowed(0, 1)
    with pytest.raises(error, match=words):
        Hardware.of(affinity)


def test_processors_are_listed_as_ranges():
    assert listed([3, 1, 2, 9, 11, 12]) == "1-3, 9, 11-12"


def cpus_dir(folder, places):
    for cpu, (socket, core) in enumerate(places):
        topology = folder / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
        (topology / "core_id").write_text(f"{core}\n")
    return folder


TWO = [(0, 0), (0, 1), (1, 0), (1, 1)]  # two sockets of two cores


@pytest.mark.parametrize(
    "places, allowed_cpus, expected",
    [
        ([(0, 0), (0, 1)], [0, 1], dict(n_core=2, n_socket=1, hyperthread_offset=0)),
        (TWO + TWO, range(8), dict(n_core=4, n_socket=2, hyperthread_offset=4)),
        (TWO + TWO, [0, 1, 4, 5], dict(n_core=2, n_socket=1, hyperthread_offset=2)),
        (TWO + TWO, [1, 2, 3], dict(n_core=3, n_socket=1, hyperthread_offset=0)),
        # Threads of a core beside each other: no offset says where they are.
        ([(0, 0), (0, 0), (0, 1), (0, 1)], range(4), dict(n_core=2, hyperthread_offset=0)),
        # Sockets in turns: no blocks.
        ([(0, 0), (1, 0), (0, 1), (1, 1)], range(4), dict(n_core=4, n_socket=1)),
    ],
)
def test_what_this_machine_has(places, allowed_cpus, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.utils.launching.machine.available_cpus", lambda: list(allowed_cpus))
    found = Machine.here(cpus_dir(tmp_path, places), tmp_path)
    assert found.cpus == tuple(allowed_cpus) and found.quota is None
    assert {name: getattr(found, name) for name in expected} == expected


def test_a_machine_without_topology_is_estimated_from_counts(tmp_path, monkeypatch):
    monkeypatch.setattr("rlpyt.utils.launching.machine.available_cpus", lambda: [0, 1, 2, 3])
    monkeypatch.setattr("psutil.cpu_count", lambda logical: 2)
    assert Machine.here(tmp_path, tmp_path) == Machine((0, 1, 2, 3), 2, hyperthread_offset=2)


def own_cgroup(tmp_path, *lines):
    path = tmp_path / "own_cgroup"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_cpu_quota_of_a_container_that_sees_its_group_as_the_root(tmp_path):
    own = own_cgroup(tmp_path, "1:cpu,cpuacct:/docker/1a", "0::/docker/1a")
    assert cpu_quota(tmp_path, own) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpu_quota(tmp_path, own) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_quota(tmp_path, own) is None
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota(tmp_path, own) is None
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("250000\n")
    assert cpu_quota(tmp_path, own) == 2.5
    assert cpu_quota(tmp_path, tmp_path / "missing") == 2.5


@pytest.mark.parametrize("version", [1, 2])
def test_cpu_quota_is_the_smallest_of_nested_groups(tmp_path, version):
    """Slurm limits the job; its step, in which the process runs, has no limit of its own."""
    root = tmp_path if version == 2 else tmp_path / "cpu"
    own = own_cgroup(tmp_path, "0::/job/step" if version == 2 else "3:cpuset,cpu:/job/step")
    quotas = {"": 8, "job": 2, "job/step": None, "other": 1}
    for group, cores in quotas.items():
        (root / group).mkdir(parents=True, exist_ok=True)
        if version == 2:
            quota = "max" if cores is None else 1000 * cores
            (root / group / "cpu.max").write_text(f"{quota} 1000\n")
        else:
            quota = -1 if cores is None else 1000 * cores
            (root / group / "cpu.cfs_quota_us").write_text(f"{quota}\n")
            (root / group / "cpu.cfs_period_us").write_text("1000\n")
    assert cpu_quota(tmp_path, own) == 2
    own.write_text("4:memory:/other\n")
    assert cpu_quota(tmp_path, own) is None


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be pinned here")
def test_a_process_that_may_use_only_another_core_runs_there():
    last = max(os.sched_getaffinity(0))

    def cpus_of_workers():
        os.sched_setaffinity(0, [last])
        return Hardware.of("0slt_1cpu_0gpu_1cpr").workers_cpus

    assert run_in_child(cpus_of_workers) == [[last]]
