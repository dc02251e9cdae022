"""Whether reduced precision is worth its while on this machine."""

import warnings
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
UNITS = {"avx512_bf16", "amx_bf16", "bf16"}  # of Intel, AMD and ARM; in Linux' words


def has_bfloat16_units(cpuinfo: Path = CPUINFO) -> bool:
    """Whether the processor multiplies bfloat16 itself; true where it does not tell."""
    if not cpuinfo.is_file():
        return True
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    flags = [line for line in lines if line.lower().startswith(("flags", "features"))]
    return not flags or bool(UNITS & set(flags[0].split()))


def warn_of_slow_precision(device: torch.device, cpuinfo: Path = CPUINFO) -> None:
    """Say it, if bfloat16 would be emulated on this device."""
    if device.type == "cpu" and not has_bfloat16_units(cpuinfo):
        warnings.warn(
            "mixed_precision: this processor has no bfloat16 units (avx512_bf16, amx_bf16), so "
            "training will be several times slower than in float32; leave it out, or use a GPU."
        )
