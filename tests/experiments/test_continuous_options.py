"""Continuous control from options: what does not fit is told in the words of the options."""

import pytest

from rlpyt.envs.base import EnvSpaces
from rlpyt.experiments.agents import CONTROL, Q_LEARNING, build_agent
from rlpyt.experiments.build import build_algo
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.presets.families import layers
from rlpyt.models.impala import ImpalaModel
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.int_box import IntBox

SPACES = EnvSpaces(FloatBox(-1.0, 1.0, shape=(3,)), FloatBox(-2.0, 1.0, shape=(2,)))
PICTURES = EnvSpaces(IntBox(0, 256, shape=(4, 84, 84), dtype="uint8"), SPACES.action)


def options(algo_name="sac", family="classic", **changes):
    chosen = RunOptions(algo_name=algo_name, env="an environment")
    for layer in layers(algo_name, "an environment", family):
        chosen = chosen.updated(layer)
    return chosen.updated(changes)


@pytest.mark.parametrize("algo_name", CONTROL)
@pytest.mark.parametrize("family", ["classic", "mujoco"])
def test_presets_build_what_they_name(algo_name, family):
    chosen = options(algo_name, family)
    agent = build_agent(chosen, SPACES)
    agent.initialize(SPACES)
    algo = build_algo(chosen)
    algo.check_agent(agent)
    n_updates = 2 if (algo_name, family) == ("xqc", "mujoco") else 1  # a step
    assert algo.replay_ratio == n_updates * algo.batch_size
    widths = {tuple(p.shape)[-1] for p in (*agent.model.parameters(), *agent.q_model.parameters())}
    assert set(chosen.agent.hidden_sizes) <= widths


def test_critics_use_the_settings_of_the_policy_by_default():
    both = dict(hidden_sizes=(5, 6), normalize_observation=True)
    agent = build_agent(options(agent=both), SPACES)
    assert agent.q_model_kwargs == dict(hidden_sizes=[5, 6], normalize_observation=True)
    own = dict(both, args=dict(q_model_kwargs=dict(hidden_sizes=[9], layer_norm=True)))
    agent = build_agent(options(agent=own), SPACES)
    assert agent.q_model_kwargs == dict(
        hidden_sizes=[9], layer_norm=True, normalize_observation=True
    )


def test_arguments_of_critics_that_are_not_given_are_those_of_the_preset():
    narrow = options("xqc", "mujoco", agent=dict(args=dict(q_model_kwargs=dict(hidden_sizes=[9]))))
    preset = options("xqc", "mujoco").agent.args["q_model_kwargs"]
    assert preset["n_atoms"] > 1
    assert narrow.agent.args["q_model_kwargs"] == {**preset, "hidden_sizes": [9]}


@pytest.mark.parametrize("algo_name", CONTROL)
def test_arguments_of_the_model_replace_the_preset(algo_name):
    agent = build_agent(options(algo_name, agent=dict(model=dict(hidden_sizes=[5]))), SPACES)
    assert agent.model_kwargs["hidden_sizes"] == [5]
    critics = options(algo_name).agent.args.get("q_model_kwargs", {})
    assert agent.q_model_kwargs["hidden_sizes"] == critics.get("hidden_sizes", [5])


@pytest.mark.parametrize("algo_name", ["ddpg", "td3", "sac", "sac_v"])
def test_policy_and_critics_have_the_chosen_memory(algo_name):
    chosen = options(algo_name, agent=dict(memory="gru", memory_size=16))
    agent = build_agent(chosen, SPACES)
    agent.initialize(SPACES)
    networks = [agent.model, *agent.members("q_model")]
    assert all(x.recurrent_layer.hidden_size == 16 for x in networks)
    assert build_agent(options(algo_name, agent=dict(recurrent=True)), SPACES).recurrent
    assert not build_agent(options(algo_name, agent=dict(memory="none")), SPACES).recurrent
    build_algo(chosen).check_parts(agent)
    without = dict(memory="gru", args=dict(q_model_kwargs=dict(memory=None)))
    agent = build_agent(options(algo_name, agent=without), SPACES)
    agent.initialize(SPACES)
    assert agent.model.recurrent_layer is not None
    assert agent.members("q_model")[0].recurrent_layer is None


@pytest.mark.parametrize("algo_name, has_v", [("sac", False), ("sac_v", True)])
def test_arguments_of_a_value_network_are_named_where_there_is_one(algo_name, has_v):
    with pytest.raises(ValueError, match="q_model_kwargs") as refused:
        build_agent(options(algo_name, agent=dict(args=dict(bogus=1))), SPACES)
    assert ("v_model_kwargs" in str(refused.value).rstrip(".").split(", ")) == has_v


@pytest.mark.parametrize(
    "agent,error,said",
    [
        (dict(dueling=True), ValueError, "agent.dueling"),
        (dict(args=dict(n_critic=3)), ValueError, "n_critics"),
        (dict(args=dict(n_critics=None)), TypeError, "n_critics=None"),
        (dict(args=dict(q_model_kwargs=3)), TypeError, "q_model_kwargs=3"),
        (
            dict(args=dict(q_model_kwargs=dict(n_critics=3))),
            ValueError,
            "q_model_kwargs .*n_critics",
        ),
        (dict(args=dict(v_model_kwargs=dict(a=3))), ValueError, "value network"),
    ],
)
def test_unsupported_options_of_the_agent_are_refused(agent, error, said):
    with pytest.raises(error, match=said):
        build_agent(options(agent=agent), SPACES)


@pytest.mark.parametrize(
    "agent,said",
    [
        (dict(model=dict(foo=1)), r"PiMlpModel .*'foo' \(model_kwargs\)"),
        (dict(args=dict(q_model_kwargs=dict(layr_norm=True))), "QofMuMlpModel.*'layr_norm'"),
        (dict(args=dict(q_model_kwargs=dict(n_quantiles=0))), "n_quantiles=0"),
    ],
)
def test_errors_of_models_name_their_arguments(agent, said):
    with pytest.raises((TypeError, ValueError), match=said):
        build_agent(options(agent=agent), SPACES).initialize(SPACES)


@pytest.mark.parametrize("kind", [{}, {"kind": "impala", "spectral_norm": True}])
def test_images_are_encoded_by_policy_and_critics(kind):
    chosen = dict(model=dict(encoder=dict(feature_size=9, **kind)), args=dict(n_critics=2))
    agent = build_agent(options(agent=chosen), PICTURES)
    agent.initialize(PICTURES)
    networks = [agent.model, *agent.q_model.members]
    assert [network.observation_size for network in networks] == [9, 9, 9]
    convolutions = (isinstance(x, ImpalaModel) for network in networks for x in network.modules())
    assert sum(convolutions) == (3 if kind else 0)


def test_discrete_actions_are_for_sac():
    for family in ("atari", "minatar"):
        with pytest.raises(ValueError, match="td3 .*continuous"):
            layers("td3", "pong", family)
        with pytest.raises(ValueError, match="sac .*vector"):
            layers("sac", "pong", family)
    discrete = EnvSpaces(SPACES.observation, IntBox(0, 3))
    with pytest.raises(TypeError, match="discrete .*sac, ppo or a2c"):
        build_agent(options("td3"), discrete).initialize(discrete)
    agent = build_agent(options(), discrete)
    agent.initialize(discrete)
    build_algo(options()).check_agent(agent)


CRITICS_ALONE = dict(args=dict(q_model_kwargs=dict(normalize_observation=True)))


@pytest.mark.parametrize(
    "algo_name, agent",
    [
        *((name, dict(normalize_observation=True)) for name in ("sac", "ppo", "dqn", "cmaes")),
        *((name, dict(model=dict(normalize_observation=True))) for name in ("td3", "ppo", "r2d1")),
        ("ddpg", CRITICS_ALONE),
        ("sac", CRITICS_ALONE),
    ],
)
def test_only_real_numbers_are_normalized(algo_name, agent):
    action = IntBox(0, 3) if algo_name in Q_LEARNING else SPACES.action
    whole = EnvSpaces(IntBox(0, 5, shape=(3,)), action)
    plain = dict(recurrent=algo_name == "r2d1")
    build_agent(options(algo_name, agent=plain), whole).initialize(whole)
    with pytest.raises(ValueError, match=r"normalize.* IntBox.*int32\."):
        build_agent(options(algo_name, agent={**plain, **agent}), whole).initialize(whole)
