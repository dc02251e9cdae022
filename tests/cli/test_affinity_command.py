"""``rlpyt affinity``: a code's table, what this machine lacks of it, and what it has."""

import re
from pathlib import Path

import pytest

from rlpyt.cli import affinity as module
from rlpyt.cli.main import main
from rlpyt.sweeps.slots import divide_machine
from rlpyt.utils.launching import placement
from rlpyt.utils.launching.affinity import get_n_run_slots, quick_affinity_code
from rlpyt.utils.launching.machine import Machine
from rlpyt.utils.launching.resources import ABBREVIATIONS, Resources


def affinity(*argv):
    with pytest.raises(SystemExit) as stop:
        main(["affinity", *argv])
    return stop.value.code


@pytest.fixture
def machine(monkeypatch):
    """Says what this machine has."""

    def has(cpus, gpus=0, **kwargs):
        found = Machine(cpus=tuple(cpus), n_core=len(cpus), **kwargs)
        monkeypatch.setattr(module.Machine, "here", lambda: found)
        monkeypatch.setattr(module, "n_gpus", lambda: gpus)
        monkeypatch.setattr(placement, "available_cpus", lambda: list(cpus))

    return has


def test_a_table_shows_every_run_slot(machine, capsys):
    machine(range(16), gpus=4)
    assert affinity("12cpu_4gpu_1res_0hto") == 0
    said = capsys.readouterr().out
    assert "n_gpu=4, hyperthread_offset=0, cpu_reserved=1\nfor MinibatchRl" in said
    rows = [line.split() for line in said.splitlines() if line[:1].isdigit()]
    assert rows[1:] == [
        ["0", "0", "0-2", "2", "on", "1-2"],
        ["1", "1", "3-5", "2", "on", "4-5"],
        ["2", "2", "6-8", "2", "on", "7-8"],
        ["3", "3", "9-11", "2", "on", "10-11"],
    ]
    assert "Note" not in said


def test_processes_of_a_run_have_rows_of_their_own(machine, capsys):
    machine(range(8), gpus=2)
    affinity("1slt_8cpu_2gpu_1ass_1sgr_1oss")
    said = capsys.readouterr().out
    assert "for AsyncRl" in said
    rows = [
        line.split() for line in said.splitlines() if "optimizer " in line or "sampler " in line
    ]
    # Second threads, 12 to 15, do not exist here.
    assert rows[0] == ["1", "optimizer", "0", "1", "4,", "12", "4"]
    assert rows[1][:6] == ["1", "sampler", "0", "1", "5-7,", "13-15"]
    assert rows[1][6:] == ["5-7", "3", "on", "5-7,", "13-15"]
    affinity("8cpu_2gpu_2gpr")
    said = capsys.readouterr().out
    assert "for SyncRl" in said and "rank 0" in said and "rank 1" in said


def test_missing_renumbered_and_unused_resources_are_shown(machine, capsys):
    machine([4, 5, 6, 7])
    affinity("4cpu_0gpu_2cpr_0hto")
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line[:1] in "01"]
    assert [row[:3] for row in rows if row] == [["0", "0-1", "4-5"], ["1", "2-3", "6-7"]]
    affinity("5cpu_2gpu_1cxg")
    said = capsys.readouterr().out
    assert "this machine has 0 of the 2 GPUs" in said
    assert "1 of 5 cores are in no run slot" in said
    assert "may only use processors 4-7; launchers refuse slots without processors here" in said
    affinity("2cpu_2gpu_1res_0hto")
    said = capsys.readouterr().out
    assert "0     0    0           4     1 on 0\n" in said  # the worker shares its core
    affinity("99cpu_0gpu_33cpr_0hto_0saf")
    said = capsys.readouterr().out
    assert "not pinned" in said and "33 on 0-32" in said and "here" not in said


@pytest.mark.parametrize("first", [0, 3])
def test_the_work_grows_with_the_slots_and_not_with_their_square(machine, monkeypatch, first):
    made = []
    cores = Resources.machine_cores

    def counting(*args):
        made.append(found := cores(*args))
        return found

    monkeypatch.setattr(Resources, "machine_cores", counting)
    work = []
    for n in (50, 100):
        made.clear()
        machine(range(first, first + n))
        module.describe_code(f"{n}cpu_0gpu_1cpr")
        work.append(sum(map(len, made)))
    assert work[1] == 2 * work[0]


def test_this_machine_and_codes_for_it(machine, capsys):
    machine([2, 3, 4, 5], gpus=2, hyperthread_offset=4)
    assert affinity() == 0
    said = capsys.readouterr().out
    assert "processors this process may use   4 (2-5)" in said
    codes = [line.split()[0] for line in said.splitlines() if line[:4] == "4cpu"]
    assert codes[:3] == ["4cpu_0gpu_4cpr", "4cpu_0gpu_1cpr", "4cpu_0gpu_4cpr_1ass"]
    assert codes[3:] == ["4cpu_2gpu", "4cpu_2gpu_2gpr", "4cpu_2gpu_1ass_1oss"]
    assert all(get_n_run_slots(code) for code in codes)


def test_suggested_codes_respect_the_cpu_quota_of_a_container(machine, capsys):
    machine([2, 3, 4, 5], quota=2.5)
    affinity()
    said = capsys.readouterr().out
    assert "2.5" in said
    codes = [line.split()[0] for line in said.splitlines() if "cpu_" in line]
    assert codes == [
        "2cpu_0gpu_2cpr_0hto_0saf", "2cpu_0gpu_1cpr_0hto_0saf", "2cpu_0gpu_2cpr_0hto_1ass_0saf"
    ]  # fmt: skip
    assert quick_affinity_code(use_gpu=False) == divide_machine(2).to_code() == codes[0]
    machine([2, 3, 4, 5], quota=0.5)
    assert quick_affinity_code(use_gpu=False) == divide_machine().to_code()
    assert divide_machine().to_code() == "1cpu_0gpu_1cpr_0hto_0saf"


def test_an_invalid_code_is_refused_in_one_line(capsys):
    assert affinity("4cpu_2gpu_3gpr") == 2
    assert "a run needs 3 GPUs" in capsys.readouterr().err
    assert affinity("4cup") == 2


def test_the_page_shows_what_the_command_prints(machine, capsys):
    machine(range(64), gpus=8)
    page = (Path(__file__).parents[2] / "docs" / "affinity.md").read_text()
    shown = re.findall(r"```\n\$ rlpyt affinity (\S+)\n(.*?)```", page, re.DOTALL)
    assert len(shown) == 2
    for code, output in shown:
        affinity(code)
        assert capsys.readouterr().out.rstrip() == output.rstrip()
    assert set(ABBREVIATIONS.values()) <= set(re.findall(r"^\| `(\w{3})` \|", page, re.MULTILINE))


def test_the_help_explains_every_part():
    assert set(ABBREVIATIONS.values()) <= set(module.__doc__.split())
