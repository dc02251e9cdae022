import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from rlpyt.utils import seed as S


@pytest.fixture(autouse=True)
def restore_generators():
    states = random.getstate(), np.random.get_state(), torch.get_rng_state(), S.seed_
    yield
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    S.seed_ = states[3]


def draw():
    return random.random(), np.random.rand(), torch.rand(1).item()


@pytest.mark.parametrize("seed", [0, 17, 2**32 - 1, 2**32, 2**64 - 1, np.int64(17), 1e6])
def test_set_seed_seeds_all_three_generators(seed):
    S.set_seed(seed)
    first = draw()
    assert all(a != b for a, b in zip(first, draw(), strict=True))
    S.set_seed(seed)
    assert draw() == first
    assert S.get_seed() == seed
    S.set_seed(18)
    assert all(a != b for a, b in zip(first, draw(), strict=True))


def test_seeds_above_32_bits_keep_their_upper_half():
    S.set_seed(2**32 + 5)
    above = np.random.rand()
    S.set_seed(5)
    assert np.random.rand() != above


@pytest.mark.parametrize(
    "bad, error",
    [(-1, ValueError), (2**64, ValueError), (1.5, TypeError), ("3", TypeError), (True, TypeError)],
)
def test_bad_seeds_are_refused_everywhere(bad, error):
    for use in (S.check_seed, S.set_seed, lambda s: S.stream(s, "x"), lambda s: S.env_seed(s, 0)):
        with pytest.raises(error, match=r"seed"):
            use(bad)


def test_make_seed_is_in_range_and_not_seeded():
    made = []
    for _ in range(30):
        random.seed(0)
        np.random.seed(0)
        made.append(S.make_seed())
    assert all(0 <= seed <= 10_000 for seed in made)
    assert len(set(made)) > 1


def test_streams_differ_by_seed_purpose_and_rank_and_are_stable():
    keys = [(0, "noise", 0), (1, "noise", 0), (0, "env", 0), (0, "noise", 1)]
    draws = [tuple(S.stream(*key).integers(2**60, size=2)) for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws[0] == tuple(S.stream(0, "noise").integers(2**60, size=2))


def test_streams_are_the_same_in_another_process():
    code = (
        "from rlpyt.utils.seed import *; print(env_seed(3, 5), stream(3, 'a', 5).integers(2**60))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        str(S.env_seed(3, 5)),
        str(S.stream(3, "a", 5).integers(2**60)),
    ]


def test_env_seeds_are_31_bit_and_all_different():
    seeds = [S.env_seed(s, r, p) for s in (0, 1) for p in ("env", "eval_env") for r in range(100)]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 0
    assert 2**30 < max(seeds) < 2**31


class SeedableEnv:
    got = None

    def seed(self, seed):
        self.got = seed


def test_every_env_gets_its_own_seed():
    envs = [SeedableEnv(), object(), SeedableEnv()]
    S.set_envs_seeds(envs, 7)
    assert (envs[0].got, envs[2].got) == (S.env_seed(7, 0), S.env_seed(7, 2))
    S.set_envs_seeds(envs, 7, env_ranks=[4, 5, 6], purpose="eval_env")
    assert envs[2].got == S.env_seed(7, 6, "eval_env")
    S.set_envs_seeds(envs, None)
    assert envs[2].got == S.env_seed(7, 6, "eval_env")
