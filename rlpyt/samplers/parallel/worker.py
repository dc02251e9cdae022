"""A worker's entry points in rlpyt (2019); see ``rlpyt.compat.barriers``."""

from rlpyt.compat.barriers import initialize_worker, sampling_process

__all__ = ["initialize_worker", "sampling_process"]
