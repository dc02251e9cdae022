"""Reduced precision is warned of where it would cost time."""

import warnings

import pytest
import torch

from rlpyt.algos.precision import has_bfloat16_units, warn_of_slow_precision

CPU = torch.device("cpu")


def written(tmp_path, flags):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\nmodel name\t: bf16 machine\n{flags}\nbugs\t: bf16\n")
    return path


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ("flags\t\t: fpu avx512f avx512_bf16 amx_tile", True),
        ("Features\t: fp asimd bf16 sve", True),
        ("flags\t\t: fpu avx2 avx512f", False),
        ("", True),  # it does not tell
    ],
)
def test_units_are_read_from_the_processors_flags(flags, found, tmp_path):
    assert has_bfloat16_units(written(tmp_path, flags)) == found
    assert has_bfloat16_units(tmp_path / "nothing")


def test_only_a_cpu_without_units_is_warned_of(tmp_path):
    without = written(tmp_path, "flags\t\t: fpu avx2")
    with pytest.warns(UserWarning, match="no bfloat16 units"):
        warn_of_slow_precision(CPU, without)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_slow_precision(torch.device("cuda"), without)
        warn_of_slow_precision(CPU, written(tmp_path, "flags\t\t: amx_bf16"))
