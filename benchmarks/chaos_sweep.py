"""Run the long sweep of the soak test `tests.soak.chaos`: 60 runs of 10 s, seven kills."""

import sys

from tests.soak.chaos import OUTPUT, main

if __name__ == "__main__":
    output = str(OUTPUT.with_name("chaos_sweep.json"))
    sys.exit(main(["--only", "long sweep", "--faults", "1", "--output", output, *sys.argv[1:]]))
