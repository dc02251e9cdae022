"""Settings of algorithms are checked when one is made."""

import pytest

from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.es.algo import CemAlgo


@pytest.mark.parametrize("Algo", [A2C, PPO, VTrace])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "x"])
@pytest.mark.parametrize("name", ["value_loss_coeff", "entropy_loss_coeff"])
def test_coefficients_must_be_finite(Algo, name, value):
    with pytest.raises((TypeError, ValueError), match=name):
        Algo(**{name: value})


def test_the_value_loss_has_no_negative_coefficient():
    with pytest.raises(ValueError, match="value_loss_coeff=-1"):
        A2C(value_loss_coeff=-1)
    A2C(entropy_loss_coeff=-0.1)  # penalises entropy


def test_atoms_need_finite_bounds():
    with pytest.raises(ValueError, match="V_max=inf"):
        CategoricalDQN(V_max=float("inf"))


@pytest.mark.parametrize(
    "Algo,name", [(PPO, "linear_lr_schedule"), (CemAlgo, "common_random_numbers")]
)
def test_switches_are_true_or_false(Algo, name):
    assert getattr(Algo(**{name: 1}), name) is True
    with pytest.raises(TypeError, match=f"{name}='no'"):
        Algo(**{name: "no"})
