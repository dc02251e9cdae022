"""V-trace by its definition, slow and plain, and a batch to compute it of."""

import numpy as np
import torch

T, B = 7, 3
DISCOUNT = 0.9


def slow_vtrace(
    ratio, reward, value, done, bootstrap_value, discount, clip_rho, lam, timeout_value
):
    """Eq. 1 as it is printed: a sum over the steps that follow, with a product of weights each."""
    n_steps, n_envs = reward.shape
    rho = ratio if clip_rho is None else np.minimum(clip_rho, ratio)
    c = lam * np.minimum(1, ratio)

    def following(x):
        return np.where(done, timeout_value, np.concatenate([x[1:], bootstrap_value]))

    delta = rho * (reward + discount * following(value) - value)
    v = np.array(value, np.float64)
    for b in range(n_envs):
        for s in range(n_steps):
            for t in range(s, n_steps):
                v[s, b] += discount ** (t - s) * np.prod(c[s:t, b]) * delta[t, b]
                if done[t, b]:
                    break
    advantage = reward + discount * ((1 - lam) * following(value) + lam * following(v)) - value
    return v, advantage


def make_batch(seed=0):
    """A batch with terminations and time limits, one of each in the last row."""
    rng = np.random.default_rng(seed)
    done, timeout = np.zeros((T, B), bool), np.zeros((T, B), bool)
    done[[2, 5, 3, 6, 6], [0, 0, 1, 1, 2]] = True
    timeout[[5, 6], [0, 1]] = True
    batch = dict(
        log_ratio=rng.normal(size=(T, B)),
        reward=rng.normal(size=(T, B)),
        value=rng.normal(size=(T, B)),
        done=done,
        bootstrap_value=rng.normal(size=(1, B)),
        timeout_value=rng.normal(size=(T, B)) * timeout,
    )
    return {k: v if v.dtype == bool else v.astype(np.float32) for k, v in batch.items()}


def slow(batch, clip_rho, lam):
    rest = {k: v for k, v in batch.items() if k != "log_ratio"}
    ratio = np.exp(batch["log_ratio"].astype(np.float64))
    return slow_vtrace(ratio, discount=DISCOUNT, clip_rho=clip_rho, lam=lam, **rest)


def of_kind(kind, batch):
    return {k: torch.from_numpy(v) for k, v in batch.items()} if kind == "torch" else batch


def check(result, expected, kind="numpy"):
    assert isinstance(result, torch.Tensor if kind == "torch" else np.ndarray)
    assert str(result.dtype).removeprefix("torch.") == "float32"
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5, atol=1e-5)
