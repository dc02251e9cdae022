"""Options of agents: those that were given count, those that fit nothing are refused."""

import pytest

from rlpyt.experiments.agents import build_agent
from rlpyt.experiments.build import env_recipe, env_spaces
from rlpyt.experiments.configs.presets import layers
from rlpyt.experiments.options import RunOptions
from rlpyt.utils.names import UnknownName


def built(algo_name, **agent):
    options = RunOptions(algo_name=algo_name, env="CartPole-v1")
    recipe = env_recipe("CartPole-v1")
    for layer in (*layers(algo_name, "CartPole-v1", recipe.family), {"agent": agent}):
        options = options.updated(layer)
    return build_agent(options, env_spaces(recipe))


@pytest.mark.parametrize(
    "args, epsilons",
    [
        ({}, (0.0, 0.0)),  # not the preset's
        (dict(eps_eval=0.05), (0.0, 0.0)),
        (dict(eps_init=0.5), (0.5, 0.04)),
        (dict(eps_final=0.2), (1, 0.2)),
        (dict(eps_init=0.3, eps_final=0.3), (0.3, 0.3)),
    ],
)
def test_a_noisy_agent_has_the_epsilon_that_it_was_given(args, epsilons):
    agent = built("dqn", noisy=True, args=args)
    assert (agent.eps_init, agent.eps_final) == epsilons
    assert agent.eps_eval == args.get("eps_eval", 0.001)


def test_r2d1_needs_a_recurrent_agent():
    assert built("r2d1").recurrent
    options = RunOptions(algo_name="r2d1", env="toy/memory")
    for layer in layers("r2d1", "toy/memory", "classic"):
        options = options.updated(layer)
    assert options.agent.recurrent
    with pytest.raises(ValueError, match="r2d1 trains an LSTM"):
        built("r2d1", recurrent=False)


def test_unknown_arguments_of_an_agent_are_answered_with_the_known_ones():
    with pytest.raises(UnknownName, match="'eps_finl'; did you mean 'eps_final'.*n_quantiles"):
        built("qrdqn", args=dict(eps_finl=0.2))
