"""Run the soak test `tests.soak.chaos_sweep`, so that `python -m benchmarks.chaos_sweep` works."""

import sys

from tests.soak.chaos_sweep import main

if __name__ == "__main__":
    sys.exit(main())
