"""Run the soak tests, so that `python -m benchmarks.chaos` works; ``--heal``: with ``on_fault``."""

import sys

from tests.soak import chaos, healing

if __name__ == "__main__":
    if "--heal" in sys.argv:
        sys.exit(healing.main([word for word in sys.argv[1:] if word != "--heal"]))
    sys.exit(chaos.main())
