"""Lists of configurations, in lagom's forms."""

import random

import numpy as np
import pytest

from rlpyt.experiments.config import Condition, Config, Grid, Sample


def test_the_documented_table():
    config = Config(
        {
            "log.dir": "some path",
            "network.lr": Grid([1e-3, 5e-3]),
            "env.id": Grid(["CartPole-v1", "Ant-v2"]),
        },
        num_sample=1,
        keep_dict_order=False,
    )
    rows = [list(one.items()) for one in config.make_configs()]
    assert rows == [
        [("ID", at), ("env.id", env), ("log.dir", "some path"), ("network.lr", lr)]
        for at, (lr, env) in enumerate(
            [(1e-3, "CartPole-v1"), (1e-3, "Ant-v2"), (5e-3, "CartPole-v1"), (5e-3, "Ant-v2")]
        )
    ]


def test_order_of_items_can_be_kept():
    config = Config({"b": 1, "a": Grid([1]), "c": Condition(lambda c: 0)}, keep_dict_order=True)
    assert [list(one) for one in config.make_configs()] == [["ID", "b", "a", "c"]]


def test_the_grid_is_repeated_for_each_sample():
    numbers = iter(range(100))
    config = Config({"x": Sample(lambda: next(numbers)), "g": Grid(["p", "q"])}, num_sample=3)
    found = [(one["ID"], one["g"], one["x"]) for one in config.make_configs()]
    assert found == [(0, "p", 0), (1, "q", 1), (2, "p", 2), (3, "q", 3), (4, "p", 4), (5, "q", 5)]


def test_a_condition_gets_the_other_values():
    config = Config(
        {
            "twice": Condition(lambda c: 2 * c["n"]),  # n is no condition: its place is no matter
            "n": Grid([1, 5]),
            "seen": Condition(sorted),
            "later": Condition(lambda c: c["twice"] + 1),
        }
    )
    assert [(c["twice"], c["later"], c["seen"]) for c in config.make_configs()] == [
        (2, 3, ["n", "twice"]),
        (10, 11, ["n", "twice"]),
    ]


def test_seeded_samples_repeat_and_leave_global_streams_alone():
    items = {
        "own": Sample(lambda rng: rng.uniform()),
        "numpy": Sample(np.random.rand),
        "python": Sample(random.random),
        "drawn": Sample(lambda low=3: low),
    }
    np.random.seed(5)
    expected = np.random.rand()
    np.random.seed(5)
    first, again, other = (Config(items, 4, seed=s).make_configs() for s in (1, 1, 2))
    assert np.random.rand() == expected
    assert first == again
    for key in ("own", "numpy", "python"):
        assert len({one[key] for one in first}) == 4
        assert first[0][key] != other[0][key]
    assert first[0]["drawn"] == 3


def test_configurations_share_no_value():
    items = {"g": Grid([[1], [2]]), "h": Grid([{"a": [0]}]), "net": {"sizes": [64]}}
    first, second = Config(items).make_configs()
    first["h"]["a"].append(1)
    first["net"]["sizes"].append(1)
    assert second["h"] == {"a": [0]} and second["net"] == items["net"] == {"sizes": [64]}


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: Config([1]), TypeError, "dictionary of names"),
        (lambda: Config({1: 2}), TypeError, "string, got 1"),
        (lambda: Config({"ID": 2}), ValueError, "'ID' .*make_configs"),
        (
            lambda: Config({"a": Grid([])}),
            ValueError,
            "a: Grid .*no values",
        ),
        (lambda: Config({"a": Grid([1, 1])}), ValueError, "a: .*distinct"),
        (lambda: Config({"a": Grid("ab")}), TypeError, "a: Grid .*list"),
        (lambda: Config({"a": Sample(3)}), TypeError, "a: Sample .*got 3"),
        (lambda: Config({"a": 1}, num_sample=0), ValueError, "num_sample=0"),
        (lambda: Config({"a": 1}, seed=-1), ValueError, "seed=-1"),
    ],
)
def test_invalid_arguments_are_refused_at_construction(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_many_configurations_are_warned_of():
    config = Config({"a": Grid(range(40)), "b": Grid(range(30))}, num_sample=2)
    with pytest.warns(UserWarning, match="2,400 configurations"):
        assert len(config.make_configs()) == config.n_configs == 2400
