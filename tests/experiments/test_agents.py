"""Options of agents: those that were given count, those that fit nothing are refused."""

import pytest
import torch
from gymnasium import spaces

from rlpyt.envs.base import EnvSpaces
from rlpyt.experiments.agents import _with_classes, build_agent
from rlpyt.experiments.build import env_recipe, env_spaces
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import layers
from rlpyt.models.image_encoder import ImageEncoder
from rlpyt.models.mingru import MinGru
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.utils.names import UnknownName

FEED_FORWARD = "rlpyt.models.pg.vector:CategoricalMlpModel"


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
    with pytest.raises(ValueError, match="r2d1 .*LSTM"):
        built("r2d1", recurrent=False)


def test_unknown_arguments_of_an_agent_are_answered_with_the_known_ones():
    with pytest.raises(UnknownName, match="'eps_finl'; .*'eps_final'.*n_quantiles"):
        built("qrdqn", args=dict(eps_finl=0.2))


MEMORIES = [
    (dict(recurrent=True), {}),
    (dict(recurrent=True, memory_size=32), dict(lstm_size=32)),
    (dict(memory="lstm"), dict(memory="lstm")),
    (dict(memory="mingru", memory_size=128.0), dict(memory="mingru", lstm_size=128)),
    (dict(memory="gtrxl", memory_args=dict(window=8)), dict(memory=dict(kind="gtrxl", window=8))),
    (
        dict(recurrent=True, memory_args=dict(num_layers=2)),
        dict(memory=dict(kind="lstm", num_layers=2)),
    ),
    (dict(memory="rlpyt.models.mingru:MinGru"), dict(memory=MinGru)),
]


@pytest.mark.parametrize(("chosen", "model_kwargs"), MEMORIES, ids=str)
@pytest.mark.parametrize("algo_name", ["ppo", "a2c", "vtrace", "r2d1", "dqn", "rainbow", "iqn"])
def test_memories_are_arguments_of_the_model(algo_name, chosen, model_kwargs):
    agent = built(algo_name, **chosen)
    assert agent.recurrent
    assert model_kwargs.items() <= agent.model_kwargs.items()
    agent.initialize(env_spaces(env_recipe("CartPole-v1")))


def test_memory_none_is_no_memory():
    assert not built("ppo", memory="none").recurrent
    assert not built("ppo", recurrent=True, memory="none").recurrent
    assert not built("ppo").recurrent


@pytest.mark.parametrize(
    ("algo_name", "chosen", "message"),
    [
        ("ppo", dict(memory="gru1"), "memory 'gru1'; .*'gru'"),
        ("ppo", dict(memory_size=8), "agent.memory_size is "),
        ("ppo", dict(memory="none", memory_args=dict(a=1)), "agent.memory_args"),
        ("ppo", dict(memory="gru", memory_size=0), "agent.memory_size=0"),
        ("ppo", dict(memory="gru", model_cls=FEED_FORWARD), "custom model .*memory"),
        ("r2d1", dict(memory="none"), "r2d1 .*LSTM"),
        ("cem", dict(memory="gru"), "without memory"),
    ],
)
def test_memories_that_fit_nothing_are_refused(algo_name, chosen, message):
    with pytest.raises(ValueError, match=message):
        built(algo_name, **chosen)


@pytest.mark.parametrize("algo_name", ["crossq", "xqc", "flashsac"])
def test_presets_with_joint_critics_are_for_a_box_alone(algo_name):
    with pytest.raises(ValueError, match=rf"{algo_name} .*single Box .*Discrete\(2\).*sac"):
        built(algo_name)


def test_images_in_a_dict_are_no_vectors_for_an_evolution_strategy():
    parts = {"image": spaces.Box(0, 255, (3, 8, 8), "uint8"), "x": spaces.Box(-1, 1, (2,))}
    env_spaces = EnvSpaces(GymSpaceWrapper(spaces.Dict(parts)), IntBox(0, 2))
    with pytest.raises(ValueError, match="cmaes .*gives images"):
        build_agent(RunOptions(algo_name="cmaes", env="any"), env_spaces)


def test_names_of_classes_are_found_in_arguments_of_single_networks():
    encoder, layer = "rlpyt.models.image_encoder:ImageEncoder", "torch.nn:SiLU"
    critics = dict(encoder=dict(kind=encoder, channels=[4]), nonlinearity=layer)
    found = _with_classes({"q_model_kwargs": critics})["q_model_kwargs"]
    assert found == {
        "encoder": {"kind": ImageEncoder, "channels": [4]}, "nonlinearity": torch.nn.SiLU,
    }  # fmt: skip
    parts = dict(encoders={"image": encoder, "state": "mlp"}, hidden_sizes=[4])
    assert _with_classes(parts) == {**parts, "encoders": {"image": ImageEncoder, "state": "mlp"}}
