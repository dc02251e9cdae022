"""Names of Atari games and their actions."""

import importlib
import re
from typing import Any

from rlpyt.utils.extras import needing
from rlpyt.utils.names import nearest

_MEANINGS = (
    "NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT",
    "UPFIRE", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE",
    "DOWNLEFTFIRE",
)  # fmt: skip
ACTION_MEANING = dict(enumerate(_MEANINGS))
ACTION_INDEX = {meaning: index for index, meaning in ACTION_MEANING.items()}


def rom_id(game: str) -> str:
    """Return the emulator's name of a game given by any common id.

    Raises:
        ValueError: the game is unknown; the message lists the nearest names.
    """
    known: dict[str, str] = {
        rom.replace("_", ""): rom for rom in import_extra("ale_py").roms.get_all_rom_ids()
    }
    bare = re.sub(r"^ALE/|(-ram)?(NoFrameskip|Deterministic)?-v\d+$", "", str(game))
    wanted = bare.replace("_", "").lower()
    if wanted not in known:
        close = [known[name] for name in nearest(wanted, known)]
        raise ValueError(f"unknown game {game!r}; nearest: {close or 'none'}.")
    return known[wanted]


def import_extra(name: str) -> Any:
    """Import a package that only Atari needs, or raise ImportError with the install command."""
    with needing("AtariEnv", "atari"):
        module = importlib.import_module(name)
    return module
