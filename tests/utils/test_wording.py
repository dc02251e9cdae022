"""Messages of checks, checkpoints, logging and affinities, as users read them.

Other tests ask for the class of an error and for what it names; these rows are the whole text.
"""

import pytest

from rlpyt.utils.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from rlpyt.utils.checks import check_range, true_or_false, whole_number
from rlpyt.utils.launching.affinity import affinity_from_code
from rlpyt.utils.launching.resources import AffinityError
from rlpyt.utils.launching.variant import VariantLevel, load_variant, make_variants
from rlpyt.utils.logging import logger
from tests.wording import check

MESSAGES = {
    "whole number": (
        TypeError,
        lambda: whole_number("n", 1.5, 1),
        "n=1.5 must be a whole number of at least 1.",
    ),
    "least number": (
        ValueError,
        lambda: whole_number("n", 0, 1),
        "n=0 must be at least 1.",
    ),
    "range": (
        ValueError,
        lambda: check_range("x", 1.5, 0, 1, open_low=True),
        "x=1.5 must be in (0, 1].",
    ),
    "switch": (
        TypeError,
        lambda: true_or_false("x", "false"),
        "x='false' must be True or False.",
    ),
    "checkpoint directory": (
        CheckpointError,
        lambda: load_checkpoint("absent"),
        "absent does not exist; expected a directory of checkpoints.",
    ),
    "what a checkpoint cannot hold": (
        CheckpointError,
        lambda: save_checkpoint("c", {"a": [object]}),
        (
            "c/checkpoint-1 could not be saved: state/a/0 must consist of dicts, lists, "
            "tuples, numbers, strings, bytes, arrays and tensors, got a builtins.type."
        ),
    ),
    "part of an affinity code": (
        AffinityError,
        lambda: affinity_from_code("0slt_4cpu_0gpu_2cpz"),
        (
            "affinity code '0slt_4cpu_0gpu_2cpz': unknown part '2cpz'; known are cpu, gpu, "
            "cxg, gpr, cpr, cpw, hto, skt, res, ass, sgr, oss, alt, saf, slt (`rlpyt affinity "
            "--help` explains them)."
        ),
    ),
    "missing run slot": (
        AffinityError,
        lambda: affinity_from_code("4cpu_2gpu"),
        (
            "affinity code '4cpu_2gpu' lacks a run slot. Put one before it, as in "
            "'0slt_4cpu_2gpu' (`prepend_run_slot`)."
        ),
    ),
    "more cores than there are": (
        AffinityError,
        lambda: affinity_from_code("0slt_4cpu_0gpu_8cpr"),
        (
            "affinity code '0slt_4cpu_0gpu_8cpr': a run needs 8 cores, the machine has 4: "
            "lower cpu_per_run (cpr). The code means n_cpu_core=4, n_gpu=0, cpu_per_run=8, "
            "run_slot=0."
        ),
    ),
    "variants": (
        ValueError,
        lambda: make_variants(VariantLevel([("k",)], [[1], [2]], ["x", "x"])),
        "variant level 0 repeats dir_names 'x'.",
    ),
    "directory of a variant": (
        FileNotFoundError,
        lambda: load_variant("."),
        "no variant_config.json in '.'. Pass the log directory that the launcher gave the script.",
    ),
    "snapshots": (
        ValueError,
        lambda: logger.set_snapshot_mode("often"),
        "snapshot_mode='often' is unknown; use one of ('none', 'last', 'all', 'gap', 'last+gap').",
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_read_as_written_here(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(*MESSAGES[name])
