"""Run the soak test `tests.soak.chaos`, so that `python -m benchmarks.chaos` works."""

import sys

from tests.soak.chaos import main

if __name__ == "__main__":
    sys.exit(main())
