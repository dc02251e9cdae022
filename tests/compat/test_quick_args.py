import inspect
import pickle

import pytest

from rlpyt.agents.base import BaseAgent
from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.envs.toy import CountEnv
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.quick_args import save__init__args


class Base:
    kind = "base"

    def __init__(self, size, rate=0.1, *, name="b", **kwargs):
        helper = 7
        save__init__args(locals())


class Child(Base):
    def __init__(self, depth=2, rate=0.5, **kwargs):
        save__init__args(locals())
        super().__init__(size=3, **kwargs)


def test_arguments_become_attributes_and_nothing_else():
    assert vars(Base(1, rate=2, other=5)) == {"size": 1, "rate": 2, "name": "b"}


def test_arguments_of_the_subclass_take_precedence():
    child = Child(name="c")
    assert vars(child) == {"depth": 2, "rate": 0.5, "size": 3, "name": "c"}


def test_underscore_goes_in_front():
    class Private:
        def __init__(self, size, rate=1):
            save__init__args(locals(), underscore=True)

    assert vars(Private(4)) == {"_size": 4, "_rate": 1}


@pytest.mark.parametrize("overwrite, rate", [(False, 0.5), (True, 0.1)])
def test_overwrite_replaces_existing_attributes(overwrite, rate):
    class Plain:
        def __init__(self, rate=0.1):
            save__init__args(locals(), overwrite=overwrite)

    class Sub(Plain):
        def __init__(self, rate=0.5):
            save__init__args(locals())
            super().__init__()

    assert Sub().rate == rate


def test_class_attributes_count_as_existing():
    class Fixed(Base):
        rate = 9

    assert Fixed(1, rate=2).rate == 9


def test_subclass_only_takes_the_most_derived_constructor():
    class Only(Base):
        def __init__(self, depth, size=1):
            rate = 3
            save__init__args(locals(), subclass_only=True)

    assert vars(Only(2)) == {"depth": 2, "size": 1}

    class Inherits(Only):
        pass

    assert vars(Inherits(2)) == {"depth": 2, "size": 1}


def test_zero_argument_super_and_multiple_inheritance():
    class Mixin:
        def __init__(self, extra=1, **kwargs):
            super().__init__(**kwargs)
            save__init__args(locals())  # locals() holds __class__ as well

    class Both(Mixin, Base):
        pass

    assert vars(Both(size=8)) == {"size": 8, "rate": 0.1, "name": "b", "extra": 1}


def test_locals_without_self_are_refused():
    with pytest.raises(ValueError, match="locals"):
        save__init__args({"size": 1})


NOTHING, SMALL = {}, dict(hidden_sizes=[4])


class CustomAlgo(RlAlgorithm):
    def __init__(self, optim_kwargs=NOTHING, clip_grad_norm=2.0, OptimCls=dict, batch_size=7):
        save__init__args(locals())

    def initialize(self, *args, **kwargs):
        raise NotImplementedError


class CustomAgent(BaseAgent):
    def __init__(self, n_critics=2, parts="ab", **kwargs):
        super().__init__(**kwargs)
        save__init__args(locals())


def test_class_attributes_of_our_bases_do_not_count_as_existing():
    algo, agent = CustomAlgo(), CustomAgent(model_kwargs=dict(size=3))
    assert (algo.optim_kwargs, algo.clip_grad_norm, algo.OptimCls) == (NOTHING, 2.0, dict)
    assert algo.batch_size == 7  # a property with a setter
    assert (agent.n_critics, agent.parts, agent.model_kwargs) == (2, "ab", dict(size=3))


class CustomA2C(A2C):
    def __init__(self, learning_rate=0.5, **kwargs):
        save__init__args(locals())
        super().__init__(**kwargs)


class CustomPPO(PPO):
    def __init__(self, ratio_clip=0.3, minibatches=8, **kwargs):
        save__init__args(locals())
        super().__init__(minibatches=2, **kwargs)


class CustomMlpAgent(CategoricalMlpAgent):
    def __init__(self, model_kwargs=SMALL, *args, **kwargs):
        save__init__args(locals())
        super().__init__(None, dict(hidden_sizes=[64]), *args, **kwargs)


class CustomSampler(SerialSampler):
    def __init__(self, *args, batch_B=3, max_decorrelation_steps=0, **kwargs):
        save__init__args(locals())
        super().__init__(*args, **kwargs)


class CustomRunner(MinibatchRl):
    def __init__(self, log_interval_steps=50, **kwargs):
        save__init__args(locals())
        super().__init__(**kwargs)


def test_saved_arguments_take_precedence_over_those_of_our_constructors():
    assert CustomA2C(discount=0.5).learning_rate == 0.5
    assert CustomA2C(learning_rate=0.25).learning_rate == 0.25
    ppo = CustomPPO(epochs=3)
    assert (ppo.ratio_clip, ppo.minibatches, ppo.epochs) == (0.3, 8, 3)
    with pytest.raises(ValueError, match="ratio_clip"):
        CustomPPO(ratio_clip=-1)
    assert CustomMlpAgent().model_kwargs == SMALL
    sampler = CustomSampler(CountEnv, {}, 5)
    assert sampler.batch_spec == (5, 3) and sampler.max_decorrelation_steps == 0
    runner = CustomRunner(algo=CustomA2C(), agent=CustomMlpAgent(), sampler=sampler, n_steps=150)
    assert runner.log_interval_steps == 50 and runner.n_steps == 150


def test_our_own_classes_stay_as_they_are_after_such_a_subclass():
    CustomA2C()
    assert (A2C().learning_rate, A2C(learning_rate=0.1).learning_rate) == (0.001, 0.1)
    assert "value_loss_coeff" in inspect.signature(A2C).parameters
    assert pickle.loads(pickle.dumps(CustomA2C(discount=0.5))).learning_rate == 0.5


def test_an_argument_named_like_our_method_is_not_saved_and_said():
    class Recording(RlAlgorithm):
        def __init__(self, record=True, rate=1):
            save__init__args(locals())

    with pytest.warns(UserWarning, match="record of Recording"):
        algo = Recording()
    assert algo.rate == 1 and callable(algo.record)
