"""``check_agent`` passes valid agents and reports each fault of others."""

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.dqn.vector import (
    CatDqnMlpAgent,
    DqnMlpAgent,
    IqnMlpAgent,
    QrDqnMlpAgent,
    R2d1LstmAgent,
)
from rlpyt.agents.pg.atari import AtariFfAgent, AtariLstmAgent
from rlpyt.agents.pg.mujoco import AlternatingMujocoLstmAgent, MujocoFfAgent, MujocoLstmAgent
from rlpyt.agents.pg.vector import (
    CategoricalLstmAgent,
    CategoricalMlpAgent,
    GaussianLstmAgent,
    GaussianMlpAgent,
    MultiCategoricalMlpAgent,
)
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.envs.base import EnvSpaces
from rlpyt.envs.gym import make
from rlpyt.envs.toy import CountEnv, MemoryEnv, ReachEnv
from rlpyt.spaces.float_box import FloatBox
from rlpyt.spaces.gym_wrapper import GymSpaceWrapper
from rlpyt.spaces.int_box import IntBox
from rlpyt.testing import ConformanceError, ConformanceWarning, check_agent
from rlpyt.testing.agent import CHECKS
from tests.cases import product_of
from tests.parts import EchoAgent, ForgetfulEchoAgent
from tests.testing import small_agents
from tests.testing.small_agents import (
    Net,
    Small,
    SmallRnn,
    Tempered,
    with_distribution,
    with_net,
    with_step,
)
from tests.testing.walks import GymWalk

SMALL = dict(hidden_sizes=[8])
SPACES = EnvSpaces(FloatBox(-1.0, 1.0, shape=(4,)), IntBox(0, 2, dtype="int64"))
IMAGES = EnvSpaces(IntBox(0, 256, shape=(2, 12, 10), dtype="uint8"), IntBox(0, 3, dtype="int64"))
SEVERAL = EnvSpaces(
    FloatBox(-1.0, 1.0, shape=(4,)),
    GymSpaceWrapper(gymnasium.spaces.MultiDiscrete([2, 3]), name="act"),
)
CONV = dict(channels=[3], kernel_sizes=[3], strides=[2], paddings=[0], fc_sizes=8)


def cartpole():
    return make("CartPole-v1")


def pendulum():
    return make("Pendulum-v1")


GOOD = {
    "small": (Small(), SPACES),
    "small recurrent": (SmallRnn(), SPACES),
    "a scalar parameter": (Small(Tempered), SPACES),
    "echo": (EchoAgent(), CountEnv),
    "forgetful echo": (ForgetfulEchoAgent(), CountEnv()),
    "categorical": (CategoricalMlpAgent(model_kwargs=SMALL), cartpole),
    "categorical lstm": (CategoricalLstmAgent(model_kwargs=SMALL), MemoryEnv),
    "normalized": (CategoricalMlpAgent(model_kwargs=dict(normalize_observation=True)), cartpole),
    "gaussian": (GaussianMlpAgent(model_kwargs=SMALL), pendulum),
    "gaussian lstm": (GaussianLstmAgent(model_kwargs=SMALL), pendulum),
    "several": (MultiCategoricalMlpAgent(model_kwargs=SMALL), SEVERAL),
    "mujoco": (MujocoFfAgent(), pendulum),
    "mujoco lstm": (MujocoLstmAgent(model_kwargs=dict(lstm_size=8)), pendulum),
    "alternating": (AlternatingMujocoLstmAgent(model_kwargs=dict(lstm_size=8)), pendulum),
    "images": (AtariFfAgent(model_kwargs=CONV), IMAGES),
    "images lstm": (AtariLstmAgent(model_kwargs=dict(**CONV, lstm_size=8)), IMAGES),
}
FOR_ALL = {"pickle", "initialize", "parameters", "step", "value", "rows", "noise", "memory"}
FOR_TRAINING = {"training", "acting-is-training", "likelihood", "gradients", "deterministic"}


@pytest.mark.parametrize("name", GOOD)
def test_good_agents_pass_without_a_warning(name, recwarn):
    report = check_agent(*GOOD[name])
    assert not report.warnings, str(report)
    assert not [w for w in recwarn if w.category is ConformanceWarning]
    assert FOR_ALL | {"modes", "groups", "state-dict"} <= {*report.passed}
    left_open = {f.check for f in report.findings if f.level == "open"}
    assert left_open <= {"fast-policy"} if "echo" not in name else FOR_TRAINING & left_open
    assert report.ok and (left_open or "fast-policy" in report.passed)


MODELS = [{}, dict(noisy=True), dict(dueling=True), dict(memory="gru", noisy=True)]
HEADS = [CatDqnMlpAgent, QrDqnMlpAgent, IqnMlpAgent]


@pytest.mark.parametrize(
    "Agent, model",
    product_of(
        [DqnMlpAgent, R2d1LstmAgent, *HEADS],
        MODELS,
        fast=[
            *((Agent, model) for Agent in (DqnMlpAgent, R2d1LstmAgent) for model in MODELS),
            *((Agent, MODELS[-1]) for Agent in HEADS),
        ],
    ),
)
def test_agents_of_deep_q_learning_pass(Agent, model):
    report = check_agent(Agent(model_kwargs={**SMALL, **model}), cartpole)
    assert not report.warnings, str(report)
    assert {"initialize", "rows", "noise", "training", "gradients", "state-dict"} <= {
        *report.passed
    }


@pytest.mark.parametrize("Agent", [DdpgAgent, Td3Agent, SacAgent, SacVAgent])
@pytest.mark.parametrize("env", [pendulum, ReachEnv])
def test_agents_of_continuous_control_pass(Agent, env):
    report = check_agent(Agent(model_kwargs=SMALL, q_model_kwargs=SMALL), env)
    assert not report.warnings, str(report)
    assert FOR_ALL - {"value"} | {"deterministic", "fast-policy", "state-dict"} <= {*report.passed}


def test_states_may_be_nested():
    class ForgetsItsTarget(DqnMlpAgent):
        def load_state_dict(self, state_dict):
            super().load_state_dict({**state_dict, "target": self.target_model.state_dict()})

    with pytest.raises(ConformanceError, match=r"another target\."):
        check_agent(ForgetsItsTarget(model_kwargs=SMALL), SPACES)


def test_the_agent_itself_is_left_as_it_was():
    agent = Small()
    check_agent(agent, SPACES)
    assert agent.model is None


def test_arguments_without_spaces_are_refused():
    with pytest.raises(TypeError, match="must be an environment"):
        check_agent(Small(), 3)
    with pytest.raises(TypeError, match="none of rlpyt's"):
        check_agent(Small(), EnvSpaces(GymWalk().observation_space, GymWalk().action_space))


def test_an_agent_for_other_spaces_is_named_at_once():
    with pytest.raises(ConformanceError, match=r"\[initialize\].*continuous"):
        check_agent(GaussianMlpAgent(), SPACES)


def altered(**fields):
    """A step with some fields of agent_info computed anew."""

    def new(agent, step, t):
        values = {name: f(getattr(step.agent_info, name)) for name, f in fields.items()}
        return step._replace(agent_info=step.agent_info._replace(**values))

    return with_step(new)


def action(f):
    return with_step(lambda agent, step, t: step._replace(action=f(step.action)))


def double_later(agent, step, t):
    info = step.agent_info
    return step._replace(agent_info=info._replace(value=info.value.double())) if t > 2 else step


def plain_info(agent, step, t):
    return step._replace(agent_info=small_agents.Plain(*step.agent_info))


def numpy_info(agent, step, t):
    info = step.agent_info
    return step._replace(agent_info=info._replace(value=info.value.numpy()))


def changed_value(f):
    return type("Changed", (Small,), {"value": lambda self, *inputs: f(Small.value(self, *inputs))})


ERRORS = [
    (Small, "pickle", r"expected an agent"),
    (small_agents.HoldsLock(), "pickle", r"lock"),
    (small_agents.BuildsAtOnce(), "pickle", r"initialized already"),
    (small_agents.CannotInitialize(), "initialize", r"ValueError: no such spaces"),
    (small_agents.NoParameters(), "parameters", r"there are none"),
    (small_agents.Frozen(), "parameters", r"none requires a gradient"),
    # step
    (with_step(lambda agent, step, t: tuple(step))(), "step", r"returned tuple"),
    (action(lambda a: a[:1])(), "step", r"action .*\(1,\) for 3 "),
    (action(lambda a: a.unsqueeze(-1))(), "step", r"\(1,\) for one "),
    (action(lambda a: a + 2)(), "step", r"action is [23],.* IntBox"),
    (action(lambda a: a.float())(), "step", r"float32; .*int64"),
    (altered(value=lambda v: v.unsqueeze(-1))(), "step", r"value .*\(3, 1\)"),
    (altered(value=lambda v: v * float("nan"))(), "step", r"agent_info value .*finite"),
    (altered(dist_info=lambda d: type(d)(d.prob[:, :1]))(), "step", r"prob .*\(3, 1\)"),
    (with_step(plain_info)(), "step", r"Plain, not namedarraytuples"),
    (with_step(numpy_info)(), "step", r"agent_info.value is a ndarray"),
    (with_step(double_later)(), "step", r"step 3: agent_info .*float64.*float32"),
    # value
    (changed_value(lambda v: v.unsqueeze(-1))(), "value", r"shape .*\[3, 1\]"),
    (changed_value(lambda v: v / 0)(), "value", r"is not finite"),
    (small_agents.OtherValue(), "value", r"agent_info.value and value\(\) .* differ"),
    (small_agents.ValueMovesMemory(), "value", r"after value\(\)"),
    # acting
    (with_net(forward=small_agents.normalized_over_batch)(), "rows", r"with rows \[0, 0, 0\]"),
    (with_step(small_agents.swapped)(), "rows", r"with rows \[1, 2, 0\]"),
    (small_agents.IgnoresNoise(), "noise", r"same noise gave two actions"),
    (small_agents.NeverDeterministic(), "deterministic", r"depend on the noise"),
    (small_agents.OtherFastPolicy(), "fast-policy", r"fast_policy\(\) and step\(\)"),
    # memory
    (small_agents.NeverForgets(), "memory", r"after reset\(\)"),
    (small_agents.HiddenMemory(), "memory", r"recurrent is False"),
    (small_agents.ResetsNone(), "memory", r"reset_one\(2\) environment 2 "),
    (small_agents.ResetsAll(), "memory", r"reset_one\(2\) .*environment 0"),
    (small_agents.RecordsStateAfter(), "memory", r"first step .*zero"),
    (small_agents.NeverAdvances(), "memory", r"second step .*zero"),
    (small_agents.OneMemory(), "modes", r"sampling does not continue"),
    (small_agents.TrainingForgets(), "modes", r"sampling does not continue"),
    (small_agents.EvaluationGoesOn(), "modes", r"two evaluations"),
    (small_agents.OneGroup(), "groups", r"group 0 "),
    # training
    (small_agents.FlatOutputs(), "training", r"output 1 .*\(15,\)"),
    (small_agents.StateByRows(), "training", r"state .*\(3, 1, 8\)"),
    (small_agents.OtherOrder(), "acting-is-training", r"over \[T, B\]"),
    (small_agents.BackwardsInTime(), "acting-is-training", r"over \[T, B\]"),
    (with_net(heads=small_agents.dropping_out)(), "acting-is-training", r"in train mode the model"),
    (with_distribution(small_agents.OddLikelihood)(), "likelihood", r"log_likelihood of"),
    (with_distribution(small_agents.OddRatio)(), "likelihood", r"likelihood_ratio of"),
    (small_agents.Detached(), "gradients", r"no output of __call__ depends"),
    (with_net(heads=small_agents.root_of_zero)(), "gradients", r"is not finite"),
    (small_agents.StateIsPartial(), "state-dict", r"acts differently: step 0"),
    (small_agents.LoadsNothing(), "state-dict", r"acts differently: step 0"),
    (small_agents.CountsInState(), "state-dict", r"has another n_acted"),
]


@pytest.mark.parametrize(
    ("agent", "check", "what"), ERRORS, ids=[f"{i}-{case[1]}" for i, case in enumerate(ERRORS)]
)
def test_each_fault_is_reported(agent, check, what):
    with pytest.raises(ConformanceError, match=rf"(?s)FAIL \[{check}\].*{what}") as caught:
        check_agent(agent, SPACES)
    assert all(f.fix for f in caught.value.report.errors)


WARNINGS = [
    (small_agents.DrawsElsewhere(), "initialize", r"differ in v.bias"),
    (small_agents.PartlyFrozen(), "parameters", r"frozen parameters: body"),
    (with_net(__init__=small_agents.hides_a_layer)(), "parameters", r"layers\[0\].weight"),
    (small_agents.KeepsGraph(), "step", r"carries a graph"),
    (small_agents.LeavesTrainingOn(), "modes", r"model.training .*sample"),
    (with_net(__init__=small_agents.with_unused)(), "gradients", r"no output depends on unused"),
]


@pytest.mark.parametrize(
    ("agent", "check", "what"), WARNINGS, ids=[f"{i}-{case[1]}" for i, case in enumerate(WARNINGS)]
)
def test_each_questionable_property_is_warned_of(agent, check, what):
    with pytest.warns(ConformanceWarning, match=rf"\[{check}\].*{what}"):
        assert check_agent(agent, SPACES).ok


def test_faults_of_zero_first_weights_show():
    """Without moving the parameters, every action would be as likely and every value zero."""

    def zeros(self):
        Net.__init__(self)
        torch.nn.init.zeros_(self.pi.weight)
        torch.nn.init.zeros_(self.v.weight)

    agent = with_net(small_agents.OtherOrder, __init__=zeros)()
    with pytest.raises(ConformanceError, match=r"acting-is-training"):
        check_agent(agent, SPACES)


def test_an_agent_that_only_acts_passes_with_much_left_open():
    report = check_agent(small_agents.NoValue(), SPACES)
    left_open = {f.check for f in report.findings if f.level == "open"}
    assert {"value", "noise", "training", "likelihood"} <= left_open
    call_missing = check_agent(small_agents.NoCall(), SPACES)
    assert "acting-is-training" not in call_missing.passed and call_missing.ok


def test_every_check_is_shown_to_find_something():
    assert {check for _, check, _ in ERRORS + WARNINGS} == {*CHECKS}


def test_inputs_of_unbounded_spaces_stay_moderate():
    from rlpyt.testing.agent_case import AgentCase
    from rlpyt.testing.report import Report

    spaces = EnvSpaces(FloatBox(5.0, 2.0**24, shape=(3,)), IntBox(0, 2))
    case = AgentCase(Small(), spaces, Report("", {}), T=5, B=3)
    observation = case.inputs.observation.numpy()
    assert observation.shape == (5, 3, 3) and np.all(observation == 5.0)
