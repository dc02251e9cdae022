"""One update of each strategy against its equations, written plainly."""

import numpy as np
import pytest

from rlpyt.es import CEM, CMAES, OpenAIES
from rlpyt.es.cmaes import default_rates
from rlpyt.es.openai_es import adam_step


def values_of(x):
    return (x**2).sum(1) + x[:, 0]


def plain_cma(mean, sigma, C, p_sigma, p_c, g, x, f, rates):
    """Hansen 2016, eq. 41 to 47, one candidate after another."""
    n = len(mean)
    w, mu, mu_eff, c_sigma, d_sigma, c_c, c_1, c_mu = rates
    y = [(x[i] - mean) / sigma for i in np.argsort(f)]
    variances, B = np.linalg.eigh(C)
    inverse_root = B @ np.diag(variances**-0.5) @ B.T
    y_w = sum(w[i] * y[i] for i in range(mu))
    new_mean = mean + sigma * y_w
    p_sigma = (1 - c_sigma) * p_sigma
    p_sigma = p_sigma + np.sqrt(c_sigma * (2 - c_sigma) * mu_eff) * inverse_root @ y_w
    norm = np.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
    length = np.linalg.norm(p_sigma)
    bound = (1.4 + 2 / (n + 1)) * norm
    h = 1 if length / np.sqrt(1 - (1 - c_sigma) ** (2 * (g + 1))) < bound else 0
    p_c = (1 - c_c) * p_c + h * np.sqrt(c_c * (2 - c_c) * mu_eff) * y_w
    delta = (1 - h) * c_c * (2 - c_c)
    new_C = (1 + c_1 * delta - c_1 - c_mu * sum(w)) * C + c_1 * np.outer(p_c, p_c)
    for i in range(len(w)):
        weight = w[i] if w[i] >= 0 else w[i] * n / np.linalg.norm(inverse_root @ y[i]) ** 2
        new_C = new_C + c_mu * weight * np.outer(y[i], y[i])
    new_sigma = sigma * np.exp(c_sigma / d_sigma * (length / norm - 1))
    return new_mean, new_sigma, new_C, p_sigma, p_c


def test_cmaes_follows_its_equations():
    es = CMAES([0.5, -1.0, 2.0], 0.7, popsize=9, seed=3)
    state = es.mean, es.sigma, es.C, es.p_sigma, es.p_c
    for g in range(5):
        x = es.ask()
        f = values_of(x)
        state = plain_cma(*state, g, x, f, es.rates)
        es.tell(x, f)
        own = es.mean, es.sigma, es.C, es.p_sigma, es.p_c
        for a, b in zip(own, state, strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=1e-12)
    assert es.result.stds == pytest.approx(es.sigma * np.sqrt(np.diag(es.C)))


def test_diagonal_cmaes_is_the_full_one_without_correlations():
    es = CMAES([0.5, -1.0, 2.0], [0.7, 0.2, 0.5], popsize=8, seed=3, diagonal=True)
    state = es.mean, es.sigma, np.diag(es.C), es.p_sigma, es.p_c
    for g in range(3):
        x = es.ask()
        f = values_of(x)
        mean, sigma, C, p_sigma, p_c = plain_cma(*state, g, x, f, es.rates)
        state = mean, sigma, np.diag(np.diag(C)), p_sigma, p_c
        es.tell(x, f)
        own = es.mean, es.sigma, np.diag(es.C), es.p_sigma, es.p_c
        for a, b in zip(own, state, strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=1e-12)


def test_rates_are_those_of_the_table():
    """By hand for n = 10, popsize 10: Hansen 2016, table 1."""
    rates = default_rates(10, 10)
    raw = np.log(5.5) - np.log(np.arange(1, 11))
    assert rates.mu == 5
    assert rates.weights[:5] == pytest.approx(raw[:5] / raw[:5].sum())
    assert rates.weights[:5].sum() == pytest.approx(1)
    assert (rates.weights[5:] < 0).all()
    assert rates.mu_eff == pytest.approx(1 / (rates.weights[:5] ** 2).sum())
    assert rates.c_1 == pytest.approx(2 / (11.3**2 + rates.mu_eff))
    assert rates.c_c == pytest.approx((4 + rates.mu_eff / 10) / (14 + rates.mu_eff / 5))
    # C stays positive definite: what negative weights can take away in one step is less than all.
    taken = (
        rates.c_1 + rates.c_mu * rates.weights[:5].sum() - 10 * rates.c_mu * rates.weights[5:].sum()
    )
    assert taken <= 1 + 1e-12
    diagonal = default_rates(10, 10, diagonal=True)
    assert diagonal.c_1 == pytest.approx(4 * rates.c_1)
    assert diagonal.c_mu == pytest.approx(4 * rates.c_mu)


def test_cem_refits_to_the_elite():
    es = CEM([1.0, 2.0], 0.5, popsize=10, seed=0, elite_frac=0.3, extra_std=0.5, extra_itrs=4)
    x = es.ask()
    f = values_of(x)
    es.tell(x, f)
    elite = x[np.argsort(f)[:3]]
    assert es.mean == pytest.approx(elite.mean(0))
    assert es.stds == pytest.approx(np.sqrt(elite.var(0) + 0.75 * 0.25**2))
    for _ in range(3):
        x = es.ask()
        es.tell(x, values_of(x))
    elite = x[np.argsort(values_of(x))[:3]]
    assert es.stds == pytest.approx(elite.std(0))  # no noise is left


def test_openai_es_follows_adam_along_ranks():
    es = OpenAIES([1.0, 2.0], 0.5, popsize=4, seed=0, learning_rate=0.1, weight_decay=0.01)
    mean = es.mean
    x = es.ask()
    es.tell(x, [30.0, -1.0, 7.0, 100.0])
    ranks = [1 / 6, -0.5, -1 / 6, 0.5]
    gradient = sum(r * (xi - mean) / 0.5 for r, xi in zip(ranks, x)) / (4 * 0.5) + 0.01 * mean
    # Adam's first step is the sign of the gradient, but for epsilon.
    assert es.mean == pytest.approx(mean - 0.1 * gradient / (np.abs(gradient) + 1e-8))


def test_adam_is_that_of_the_paper():
    """Kingma & Ba 2015, algorithm 1, number by number."""
    gradients = [2.0, -1.0, 0.5]
    x, m, v = np.zeros(1), np.zeros(1), np.zeros(1)
    plain_x = plain_m = plain_v = 0.0
    for t, g in enumerate(gradients, start=1):
        step, m, v = adam_step(np.array([g]), m, v, t)
        x = x - 0.1 * step
        plain_m = 0.9 * plain_m + 0.1 * g
        plain_v = 0.999 * plain_v + 0.001 * g * g
        m_hat, v_hat = plain_m / (1 - 0.9**t), plain_v / (1 - 0.999**t)
        plain_x -= 0.1 * m_hat / (v_hat**0.5 + 1e-8)
        assert x == pytest.approx([plain_x])


def test_the_order_of_equal_candidates_has_no_effect():
    es = OpenAIES([1.0, 2.0], 0.5, popsize=8, seed=0)
    mean, stds = es.mean.copy(), es.result.stds
    es.tell(es.ask(), np.full(8, 3.0))
    assert es.mean == pytest.approx(mean) and es.result.stds == pytest.approx(stds)
