"""Identification of unknown files by their first bytes or archive listing, without loading them."""

import zipfile
from pathlib import Path

_PICKLE = "a Python pickle, which can run code when loaded"
_MAGIC = {
    b"\x80\x02": _PICKLE,
    b"\x80\x03": _PICKLE,
    b"\x80\x04": _PICKLE,
    b"\x80\x05": _PICKLE,
    b"\x89HDF": "an HDF5 file (Keras and others)",
    b"\x93NUMPY": "a numpy array file (np.load)",
}


def describe_file(path: Path) -> str:
    """Return a short description of a file, such as "a PyTorch file (torch.save)".

    Raises:
        OSError: the file cannot be read.
    """
    if zipfile.is_zipfile(path):
        return _describe_archive(path)
    with open(path, "rb") as file:
        head = file.read(16)
    for magic, description in _MAGIC.items():
        if head.startswith(magic):
            return description
    if head[8:9] == b"{" and 0 < int.from_bytes(head[:8], "little") < path.stat().st_size:
        return "a safetensors file (safetensors.torch.load_file reads it)"
    return "an unknown kind of file" if head else "an empty file"


def _describe_archive(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith("/data.pkl") for name in names):
        return (
            "a PyTorch file (written by torch.save, as rlpyt's own snapshots are; "
            "torch.load(path, weights_only=True) reads its tensors)"
        )
    if "policy.pth" in names:
        return "a Stable-Baselines3 model (read it with that library)"
    return "a zip archive"
