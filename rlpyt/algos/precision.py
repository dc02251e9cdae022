"""Hardware support for bfloat16."""

import warnings
from pathlib import Path

import torch

CPUINFO = Path("/proc/cpuinfo")
UNITS = {"avx512_bf16", "amx_bf16", "bf16"}  # CPU flags of Intel, AMD and ARM in Linux


def has_bfloat16_units(cpuinfo: Path = CPUINFO) -> bool:
    """Return False if the processor is known to have no bfloat16 instructions."""
    if not cpuinfo.is_file():
        return True
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    flags = [line for line in lines if line.lower().startswith(("flags", "features"))]
    return not flags or bool(UNITS & set(flags[0].split()))


def warn_of_slow_precision(device: torch.device, cpuinfo: Path = CPUINFO) -> None:
    """Warn if bfloat16 would be emulated on this device."""
    if device.type == "cpu" and not has_bfloat16_units(cpuinfo):
        warnings.warn(
            "mixed_precision is several times slower than float32 on this processor, which has no "
            "bfloat16 units (avx512_bf16, amx_bf16). Set mixed_precision=False, or use a GPU."
        )
