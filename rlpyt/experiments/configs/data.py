"""rlpyt's settings, which modules of rlpyt's names hold; scripts change copies of them."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("rlpyt.json")
PACKAGE = "rlpyt.experiments.configs."

Parts = dict[str, Any]  # {"algo": {...}, "sampler": {...}, ...}


def configs_of(module: str) -> dict[str, Parts]:
    """Return the settings of a module, by key."""
    found: dict[str, Parts] = json.loads(FILE.read_text(encoding="utf-8"))[
        module.removeprefix(PACKAGE)
    ]
    return found
