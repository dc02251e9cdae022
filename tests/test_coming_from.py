"""docs/coming_from.md: every name on its right side can be imported.

Its examples run in tests/test_docs_pages.py.
"""

import json
import pkgutil
import re
from pathlib import Path

import pytest
import torch

from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.losses import value_loss
from rlpyt.algos.pg.ppo import PPO

PAGE = Path(__file__).parents[1] / "docs" / "coming_from.md"
OPTIONAL = {"matplotlib", "scipy", "yaml"}  # libraries of extras and of the reader's own


def rows():
    """(section, names on the left, cells on the right) of each row of each table."""
    section, found = "", []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section = line.strip("# ")
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            found.append((section, re.findall(r"`([^`]+)`", cells[0]), " ".join(cells[1:])))
    return found


ROWS = rows()
MENTIONED = sorted(
    {
        name
        for _, _, right in ROWS
        for name in re.findall(r"`([a-z_]+(?:\.\w+)+)`", right)
        if name not in ("env_info.timeout", "progress.csv")
    }
)


@pytest.mark.parametrize("name", MENTIONED)
def test_names_exist(name):
    try:
        pkgutil.resolve_name(name)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")


def test_every_row_says_where_to_go_and_every_name_has_one_row():
    assert len(ROWS) > 100 and len(MENTIONED) > 80
    seen = set()
    for section, names, right in ROWS:
        assert re.match(r"`[a-z_]+(\.\w+)+`", right), (section, names)
        for name in names:
            assert (section, name) not in seen, (section, name)
            seen.add((section, name))


def test_every_name_of_their_documentation_has_a_row():
    documented = json.loads((Path(__file__).parent / "documented_names.json").read_text())
    for section, names in documented.items():
        have = {name for own, left, _ in ROWS if own == section for name in left}
        assert set(names) <= have, (section, set(names) - have)


@pytest.mark.parametrize("AlgoCls", [PPO, A2C])
def test_weights_of_value_losses_of_sb3_are_translated(AlgoCls):
    table = PAGE.with_name("coming_from_sb3.md").read_text(encoding="utf-8")
    theirs, ours = re.search(r"`vf_coef=([\d.]+)` \| `value_loss_coeff=([\d.]+)`", table).groups()
    torch.manual_seed(0)
    value, return_ = torch.randn(5, 3), torch.randn(5, 3)
    expected = float(theirs) * torch.nn.functional.mse_loss(value, return_)
    coeff = AlgoCls(value_loss_coeff=float(ours)).value_loss_coeff
    torch.testing.assert_close(coeff * value_loss(value, return_, None), expected)
