import os

from rlpyt.utils.farewell import wait_for_helpers_at_exit

wait_for_helpers_at_exit()

# One thread everywhere: two cores are shared by pytest, workers and BLAS.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("RLPYT_DEBUG", "1")
