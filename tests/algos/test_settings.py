"""Settings during training: assignments, and schedules, of every algorithm."""

import csv
import math
import warnings

import pytest
import torch

from rlpyt.agents.pg.vector import CategoricalMlpAgent
from rlpyt.algos.base import column_of
from rlpyt.algos.dqn.cat_dqn import CategoricalDQN
from rlpyt.algos.dqn.dqn import DQN
from rlpyt.algos.dqn.pqn import PQN
from rlpyt.algos.dqn.qr_dqn import IQN, QRDQN
from rlpyt.algos.dqn.r2d1 import R2D1
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.algos.pg.vtrace import VTrace
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.sac_v import SAC_V
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.envs.toy import CountEnv, DelayEnv
from rlpyt.es.agent import EsAgent
from rlpyt.es.algo import CemAlgo, CmaesAlgo, OpenaiEsAlgo
from rlpyt.es.collector import PopulationCollector
from rlpyt.replays.non_sequence.time_limit import TlPrioritizedReplayBuffer
from rlpyt.runners.hooks import Hook
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.checks import declared, limits_of
from rlpyt.utils.logging.context import run_context
from tests.algos.dqn import parts_dqn
from tests.algos.qpg import parts_qpg
from tests.runners.test_minibatch_rl import StopAfter

T, B, N_ITR = 6, 4, 5
REPLAY = dict(
    min_steps_learn=2 * T * B, replay_size=100 * B, replay_ratio=2.0, target_update_interval=1,
    pri_beta_steps=None,
    target_update_tau=0.5, prioritized_replay=True, default_priority=1.0,
)  # fmt: skip
Q = dict(REPLAY, batch_size=16, optim_kwargs=dict(eps=1e-3), double_dqn=False, learning_rate=0.01)
SEQUENCES = dict(batch_T=3, batch_B=4, warmup_T=2, store_rnn_state_interval=1, n_step_return=1)
BASES = {
    A2C: {},
    PPO: dict(minibatches=2, linear_lr_schedule=False),
    VTrace: {},
    PQN: dict(minibatches=2, epochs=2, learning_rate=0.01),
    DQN: Q,
    CategoricalDQN: Q,
    QRDQN: Q,
    IQN: Q,
    R2D1: {
        **REPLAY,
        **SEQUENCES,
        "double_dqn": False,
        "input_priorities": False,
        "learning_rate": 0.01,
    },
    DDPG: dict(REPLAY, batch_size=16),
    TD3: dict(REPLAY, batch_size=16),
    SAC: dict(REPLAY, batch_size=16, q_learning_rate=1e-3, alpha_learning_rate=2e-3),
    SAC_V: dict(REPLAY, batch_size=16, q_learning_rate=1e-3),
    CmaesAlgo: {},
    CemAlgo: {},
    OpenaiEsAlgo: {},
}
KINDS = {PQN: "dqn", DQN: "dqn", CategoricalDQN: "cat", QRDQN: "qr", IQN: "iqn", R2D1: "r2d1"}
KINDS |= {DDPG: "ddpg", TD3: "td3", SAC: "sac", SAC_V: "sac_v"}
# Values that differ from the bases' and change the course of a run.
VALUES = dict(
    discount=0.5, learning_rate=0.03, q_learning_rate=0.04, alpha_learning_rate=0.5,
    value_loss_coeff=3.0, entropy_loss_coeff=1.0, clip_grad_norm=1e-4, gae_lambda=0.3,
    normalize_advantage=True, epochs=1, ratio_clip=1e-4, mixed_precision=True, target_kl=1e-12,
    q_lambda=0.2, bootstrap_timelimit=False, value_clip=1e-6,
    clip_rho_threshold=0.5, clip_pg_rho_threshold=0.5, batch_size=7, batch_B=3,
    delta_clip=1e3, replay_ratio=4.0, target_update_tau=0.1, target_update_interval=3,
    double_dqn=True, pri_beta_init=0.9, pri_beta_final=0.5, pri_eta=0.1, n_tau=3, n_tau_target=5,
    value_scale_eps=0.5, q_target_clip=0.1, policy_update_interval=3, reward_scale=3.0,
    reparameterize=False, target_entropy=3.0, policy_output_regularization=1.0,
    common_random_numbers=False, save_replay=False,
)  # fmt: skip
# Settings without an effect on the parameters of such a run.
NO_EFFECT = {"save_replay", "pri_beta_init", "common_random_numbers", "double_dqn"}
# C51 has no TD errors to clip; the candidates of these evolution strategies are all equal.
UNUSED = {(CategoricalDQN, "delta_clip"), (OpenaiEsAlgo, "learning_rate")}


def parts_of(Algo):
    """Agent, and arguments of the sampler."""
    kind = KINDS.get(Algo)
    if Algo in (A2C, PPO, VTrace):
        return CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8])), dict(EnvCls=DelayEnv)
    if kind in parts_dqn.AGENTS:
        return parts_dqn.AGENTS[kind](), dict(EnvCls=CountEnv)
    if kind:
        return parts_qpg.AGENTS[kind](), dict(EnvCls=parts_qpg.DriftEnv, env_kwargs=dict(pays=True))
    collector = dict(EnvCls=DelayEnv, CollectorCls=PopulationCollector)
    return EsAgent(model_kwargs=dict(hidden_sizes=[4])), collector


def runner_of(Algo, settings=None, hooks=(), n_itr=N_ITR, **kwargs):
    agent, arguments = parts_of(Algo)
    sampler = SerialSampler(
        batch_T=T, batch_B=B, max_decorrelation_steps=0, **{"env_kwargs": {}, **arguments}
    )
    algo = Algo(**{**BASES[Algo], **(settings or {})})
    return MinibatchRl(
        algo=algo, agent=agent, sampler=sampler, n_steps=n_itr * T * B, seed=3,
        log_interval_steps=T * B, hooks=list(hooks), **kwargs,
    )  # fmt: skip


def trained(Algo, settings=None, hooks=(), **kwargs):
    """Parameters at the end of a run."""
    runner = runner_of(Algo, settings, hooks, **kwargs)
    runner.train()
    es = Algo in (CmaesAlgo, CemAlgo, OpenaiEsAlgo)
    model = runner.agent.population.rows if es else runner.agent.state_dict()
    return torch.cat([x.flatten().double() for x in torch.utils._pytree.tree_leaves(model)])


class Assign(Hook):
    """Assign a setting at the start, or after an iteration."""

    def __init__(self, name, value, after=None):
        self.name, self.value, self.after = name, value, after

    def on_start(self, runner):
        if self.after is None:
            setattr(runner.algo, self.name, self.value)

    def on_iteration(self, runner, itr):
        if self.after == itr:
            setattr(runner.algo, self.name, self.value)


class Watch(Hook):
    """Values of settings in every iteration, and the learning rate of the optimizer."""

    def __init__(self, *names):
        self.names, self.seen, self.rates = names, [], []

    def on_iteration(self, runner, itr):
        self.seen.append([getattr(runner.algo, name) for name in self.names])
        self.rates.append(runner.algo.statistics().get("LearningRate"))


def names_of(Algo, fixed):
    return [name for name, item in declared(Algo).items() if limits_of(item).fixed is fixed]


def assignable(Algo):
    """Settings to assign, with their values."""
    memory = () if Algo is R2D1 else ("batch_B", "pri_eta")
    # For discrete actions, for a fixed temperature, and without one.
    others = {SAC: ("entropy_share", "fixed_alpha"), SAC_V: ("alpha_learning_rate",)}
    unused = (*memory, *others.get(Algo, ()))
    values = {name: VALUES[name] for name in names_of(Algo, fixed=False) if name not in unused}
    return {**values, "delta_clip": 0.1} if Algo is R2D1 else values  # whose default is None


every = pytest.mark.parametrize("Algo", BASES, ids=lambda Algo: Algo.__name__)


@every
def test_assigned_settings_act_as_if_they_had_been_given_to_the_constructor(Algo):
    values = assignable(Algo)
    values.pop("target_kl", None)  # would end the epochs before all others act
    assigned = trained(Algo, hooks=[Assign(name, value) for name, value in values.items()])
    assert torch.equal(assigned, trained(Algo, values))
    if values.keys() - NO_EFFECT and Algo is not OpenaiEsAlgo:  # whose candidates are all equal
        assert not torch.equal(assigned, trained(Algo))


@pytest.mark.slow
@every
def test_each_assigned_setting_acts(Algo):
    base = trained(Algo)
    for name, value in assignable(Algo).items():
        assigned = trained(Algo, hooks=[Assign(name, value)])
        assert torch.equal(assigned, trained(Algo, {name: value})), name
        if name not in NO_EFFECT and (Algo, name) not in UNUSED:
            assert not torch.equal(assigned, base), name


@every
def test_settings_that_take_no_effect_any_more_cannot_be_assigned(Algo):
    runner = runner_of(Algo)
    runner.startup()
    assert names_of(Algo, fixed=True)
    for name in names_of(Algo, fixed=True):
        value = getattr(runner.algo, name)
        with pytest.raises(AttributeError, match=f"^{name} cannot be changed"):
            setattr(runner.algo, name, value)
    runner.shutdown()


def test_an_assigned_value_is_checked():
    runner = runner_of(SAC, dict(q_learning_rate=None))
    runner.startup()
    with pytest.raises(ValueError, match="learning_rate=-1"):
        runner.algo.learning_rate = -1
    with pytest.raises(ValueError, match="policy_update_interval=0"):
        runner.algo.policy_update_interval = 0
    with pytest.raises(AttributeError, match="^q_learning_rate .*None"):
        runner.algo.q_learning_rate = 1e-3
    with pytest.raises(AttributeError, match="^fixed_alpha .*learned"):
        runner.algo.fixed_alpha = 0.3
    assert runner.algo.changes == {} and runner.algo.statistics()["LearningRate"] == 3e-4
    runner.shutdown()


def test_a_temperature_that_is_fixed_can_be_changed_but_not_learned():
    runner = runner_of(SAC, dict(fixed_alpha=0.5))
    runner.startup()
    runner.algo.fixed_alpha = 0.25
    assert runner.algo.alpha.item() == pytest.approx(0.25)
    with pytest.raises(ValueError, match="fixed_alpha .*None"):
        runner.algo.fixed_alpha = None
    runner.shutdown()


def bent(progress):
    return 0.02 - 0.01 * progress**2


# Forms of a schedule, and plain definitions of their values.
FORMS = {
    "linear": ("linear:0.02", lambda p: 0.02 * (1 - p)),
    "linear to a value": ("linear:0.02:0.01", lambda p: 0.02 + (0.01 - 0.02) * p),
    "cosine": ("cosine:0.02", lambda p: 0.01 * (1 + math.cos(math.pi * p))),
    "points": ([(0.2, 0.02), (0.8, 0.01)], lambda p: 0.02 - 0.01 * min(max((p - 0.2) / 0.6, 0), 1)),
    "warmup": ([(0, 0), (0.5, 0.02)], lambda p: 0.02 * min(p / 0.5, 1)),
    "JSON": ("[[0, 0.02], [1, 0.01]]", lambda p: 0.02 - 0.01 * p),
    "function": (bent, bent),
}
SCHEDULED = {
    Algo: [n for n, x in declared(Algo).items() if limits_of(x).scheduled] for Algo in BASES
}
with_schedules = pytest.mark.parametrize(
    "Algo", [Algo for Algo, names in SCHEDULED.items() if names], ids=lambda Algo: Algo.__name__
)


def scheduled(Algo, form):
    names = [n for n in SCHEDULED[Algo] if n != "mu_learning_rate"]
    if Algo is SAC:
        names.remove("alpha_learning_rate")  # of a learned temperature
    return dict.fromkeys(names, FORMS[form][0])


@pytest.mark.parametrize(
    "Algo, form",
    [
        *((Algo, "points") for Algo, names in SCHEDULED.items() if names),
        *((PPO, x) for x in FORMS if x != "points"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_schedules_have_the_values_of_their_definition(Algo, form):
    settings = scheduled(Algo, form)
    watch = Watch(*settings)
    runner = runner_of(Algo, settings, [watch])
    runner.train()
    expected = [FORMS[form][1](itr / N_ITR) for itr in range(N_ITR)]
    for values in zip(*watch.seen, strict=True):
        assert values == pytest.approx(expected, rel=1e-12)
    columns = runner.algo.statistics()
    assert {column_of(name) for name in settings} <= columns.keys()
    if Algo is OpenaiEsAlgo:
        assert runner.algo.strategy.learning_rate == pytest.approx(expected[-1])
    else:
        assert watch.rates == pytest.approx(expected, rel=1e-12)
    if Algo is SAC:
        assert runner.algo.alpha.item() == pytest.approx(expected[-1])


@with_schedules
def test_a_resumed_run_with_schedules_is_the_uninterrupted_one(Algo, tmp_path):
    settings = scheduled(Algo, "cosine")
    whole = trained(Algo, settings)
    trained(Algo, settings, [StopAfter(2)], checkpoint_dir=tmp_path)
    watch = Watch(*settings)
    resumed = trained(Algo, settings, [watch], resume_from=tmp_path, checkpoint_dir=tmp_path / "b")
    assert len(watch.seen) == N_ITR - 3
    assert torch.equal(whole, resumed)


@pytest.mark.parametrize("Algo", [A2C, DQN, TD3])
def test_a_schedule_differs_from_its_initial_value(Algo):
    assert not torch.equal(
        trained(Algo, dict(learning_rate="linear:0.02")), trained(Algo, dict(learning_rate=0.02))
    )


def test_the_linear_schedule_of_ppo_is_one_of_learning_rate_and_clip(tmp_path):
    watch = Watch("learning_rate", "ratio_clip")
    runner = runner_of(PPO, dict(linear_lr_schedule=True, learning_rate=0.02), [watch])
    with run_context(tmp_path, 0, "run"):
        runner.train()
    shares = [1 - itr / N_ITR for itr in range(N_ITR)]
    assert watch.seen == [[0.02 * share, 0.1 * share] for share in shares]  # as computed before
    with open(tmp_path / "progress.csv") as file:
        rows = list(csv.DictReader(file))
    clips = [float(row["Diagnostics/RatioClip"]) for row in rows]
    assert clips == pytest.approx([0.1 * share for share in shares])


def test_a_schedule_of_the_user_replaces_the_linear_one():
    watch = Watch("learning_rate", "ratio_clip")
    settings = dict(linear_lr_schedule=True, learning_rate="linear:0.02:0.01")
    trained(PPO, settings, [watch])
    assert watch.seen[-1] == pytest.approx([0.02 - 0.01 * 0.8, 0.1 * 0.2])


def test_an_assigned_value_replaces_a_schedule_and_a_schedule_a_value():
    watch = Watch("learning_rate")
    hooks = [Assign("learning_rate", 0.5, after=1), Assign("learning_rate", "linear:1.0", 2), watch]
    trained(A2C, dict(learning_rate="linear:0.1"), hooks)
    # in order: the hooks of an iteration are called before it is watched
    expected = [0.1, 0.5, 0.6, 0.4, 0.2]
    assert [x for (x,) in watch.seen] == pytest.approx(expected)
    assert watch.rates == pytest.approx(expected)


class WriteRate(Hook):
    """Write the optimizer's learning rate, as code for plain torch does."""

    def on_iteration(self, runner, itr):
        steps = getattr(runner.algo, "steps", None) or {"": runner.algo.gradient_step}
        for step in steps.values():
            step.optimizer.param_groups[0]["lr"] = 0.02


@pytest.mark.parametrize("Algo", [A2C, PPO, DQN, SAC])
def test_a_rate_written_into_the_optimizer_acts_or_is_said_to_have_no_effect(Algo):
    """With a schedule it has none."""
    settings = dict(learning_rate=[(0, 1e-3), (1, 1e-4)])
    with pytest.warns(UserWarning, match="learning_rate = 0.02") as caught:
        overwritten = trained(Algo, settings, [WriteRate()])
    assert sum("param_groups" in str(w.message) for w in caught) == 1
    assert torch.equal(overwritten, trained(Algo, settings))
    if Algo is not PPO:  # whose base has a linear schedule
        assert not torch.equal(trained(Algo, hooks=[WriteRate()]), trained(Algo))


class SlowFirstLayer(torch.optim.Adam):
    """Adam with a quarter of the learning rate for the first layer."""

    def __init__(self, params, lr):
        params = list(params)
        super().__init__([dict(params=params[:2], lr=lr / 4), dict(params=params[2:])], lr=lr)


class GroupRates(Hook):
    """Learning rates of the optimizer's parameter groups in every iteration."""

    def __init__(self):
        self.seen = []

    def on_iteration(self, runner, itr):
        self.seen.append([group["lr"] for group in runner.algo.optimizer.param_groups])


def test_groups_that_an_optimizer_makes_keep_their_share_of_the_rate(tmp_path):
    """Under a schedule, when a rate is assigned, and over a resume."""
    settings = dict(OptimCls=SlowFirstLayer, optim_kwargs={}, learning_rate="linear:0.1")
    watch = GroupRates()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(A2C, settings, [Assign("learning_rate", 0.4, after=2), watch])
    expected = [0.1, 0.08, 0.4, 0.4, 0.4]
    assert watch.seen == [pytest.approx([rate / 4, rate]) for rate in expected]

    settings["learning_rate"] = [[0, 0.0], [1, 0.1]]  # a warmup
    watch = GroupRates()
    trained(A2C, settings, [watch])
    expected = [0, 0.02, 0.04, 0.06, 0.08]
    assert watch.seen == [pytest.approx([rate / 4, rate]) for rate in expected]

    settings["learning_rate"] = 0.1
    whole = trained(A2C, settings)
    trained(A2C, settings, [StopAfter(2)], checkpoint_dir=tmp_path)
    watch = GroupRates()
    resumed = trained(A2C, settings, [watch], resume_from=tmp_path, checkpoint_dir=tmp_path / "b")
    assert watch.seen == [[0.025, 0.1]] * len(watch.seen) and watch.seen
    assert torch.equal(resumed, whole)


@pytest.mark.parametrize("Algo", [A2C, SAC])
@pytest.mark.parametrize("name", ["lr", "learningrate"])
def test_a_name_like_that_of_a_setting_is_said_to_change_nothing(Algo, name):
    with pytest.warns(UserWarning, match=f"no setting {name},.*: learning_rate") as caught:
        assigned = trained(Algo, hooks=[Assign(name, 7.0, after=1), Assign(name, 8.0, after=2)])
    assert sum("has no setting" in str(w.message) for w in caught) == 1
    assert torch.equal(assigned, trained(Algo))


def test_an_own_attribute_of_that_name_is_not():
    runner = runner_of(A2C, hooks=[Assign("lr", 7.0, after=1)])
    runner.algo.lr = 1.0
    with warnings.catch_warnings(action="error", category=UserWarning):
        runner.train()
    assert runner.algo.lr == 7.0


@pytest.mark.parametrize("Algo", [A2C, SAC])
def test_the_state_of_another_optimizer_is_refused(Algo):
    def algo_with(cls):
        runner = runner_of(Algo, dict(OptimCls=cls))
        runner.train()
        return runner.algo

    state = algo_with(torch.optim.Adam).optim_state_dict()
    with pytest.raises(ValueError, match="SGD.* momentum"):
        algo_with(torch.optim.SGD).load_optim_state_dict(state)


def test_without_an_initial_value_a_schedule_starts_at_the_default():
    assert PPO(learning_rate="linear").learning_rate == 0.001
    assert TD3(q_learning_rate="cosine").schedules["q_learning_rate"](0.5) == pytest.approx(5e-4)
    assert TD3(mu_learning_rate="linear:0.5").schedules["learning_rate"](0.5) == 0.25


@pytest.mark.parametrize(
    "settings, message",
    [
        (dict(learning_rate="line:1"), "learning_rate='line:1'"),
        (dict(learning_rate="linear:x"), "learning_rate='linear:x'"),
        (dict(learning_rate="linear:1:2:3"), "learning_rate='linear:1:2:3'"),
        (dict(learning_rate="linear:-1"), "learning_rate=-1.0 .* progress of 0"),
        (dict(learning_rate=[(0, 0.1), (0.4, -0.1), (1, 0.1)]), "=-0.1 .* progress of 0.4"),
        (dict(learning_rate=lambda progress: -progress), "learning_rate=-1.0 .* progress of 1"),
        (dict(learning_rate=lambda progress: math.nan), "learning_rate=nan"),
        (dict(learning_rate=[(0.5, 1.0), (0.2, 1.0)]), "increases"),
        (dict(learning_rate=[(0, 1.0), (2, 1.0)]), r"progress in \[0, 1\]"),
        (dict(learning_rate=[]), "learning_rate"),
    ],
)
def test_schedules_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        A2C(**settings)


def test_values_of_functions_are_checked_in_every_iteration_those_of_decays_once(monkeypatch):
    coeff = dict(entropy_loss_coeff=lambda progress: math.nan if progress == 0.5 else 0.1)
    algo = A2C(learning_rate="linear:0.02:0.01", **coeff)
    algo.n_itr = 4
    algo.apply_schedule(1)
    with pytest.raises(ValueError, match=r"entropy_loss_coeff=nan .* progress of 0\.5"):
        algo.apply_schedule(2)
    algo.entropy_loss_coeff = 0.1
    monkeypatch.setattr("rlpyt.algos.base.checked", None)
    algo.apply_schedule(3)
    assert algo.learning_rate == pytest.approx(0.0125)


def test_a_temperature_has_no_default_to_start_at():
    with pytest.raises(ValueError, match="fixed_alpha='linear'"):
        SAC(fixed_alpha="linear")


def test_a_schedule_and_a_decay_per_generation_exclude_each_other():
    with pytest.raises(ValueError, match="learning_rate_decay=0.9"):
        OpenaiEsAlgo(learning_rate="linear", learning_rate_decay=0.9)


@pytest.mark.parametrize("settings", [dict(q_learning_rate=1e-3), dict(alpha_learning_rate=1e-3)])
def test_states_of_separate_rates_can_be_loaded_with_one_rate_and_back(settings):
    def updated(settings, state=None):
        runner = runner_of(SAC, {"q_learning_rate": None, "alpha_learning_rate": None, **settings})
        runner.startup()
        for itr in range(3):
            runner.run_iteration(itr)
        if state is not None:
            runner.algo.load_optim_state_dict(state)
        runner.shutdown()
        return runner.algo

    one, several = updated({}), updated(settings)
    assert len(one.steps["all"].optimizer.param_groups) == 1
    assert len(several.steps["all"].optimizer.param_groups) > 1

    states = one.optim_state_dict(), several.optim_state_dict()
    assert states[0].keys() == states[1].keys()
    for given, target in ((states[0], settings), (states[1], {})):
        loaded = updated(target, given)
        again = loaded.optim_state_dict()
        for name in given.keys() - {"log_alpha"}:
            for i, entry in given[name]["state"].items():
                for key, value in entry.items():
                    assert torch.equal(value, again[name]["state"][i][key])
        rates = loaded.steps["all"].learning_rates
        assert rates == {"learning_rate": 3e-4, **target}


def test_a_network_without_trained_parameters_has_norms_on_the_device_of_the_loss():
    from rlpyt.algos.optim import GradientStep, ParameterGroup

    p = torch.nn.Parameter(torch.ones(3))
    frozen = ParameterGroup("pi", [], n_members=2)
    assert frozen.norms() is None
    step = GradientStep([frozen, ParameterGroup("q", [p])], torch.optim.SGD, 0.1)
    norms = step((p * 4).sum())
    assert norms["pi"].tolist() == [0, 0] and norms["q"].item() == pytest.approx(48**0.5)
    assert frozen.no_norms(torch.zeros((), device="meta")).device.type == "meta"


class Telling(A2C):
    """Records a statistic that it does not declare, from the second iteration on."""

    def loss(self, samples):
        if self.update_counter:
            self.record(largest=samples.env.reward.max(), second=samples.env.reward)
        return super().loss(samples)


class TellingDQN(DQN):
    def loss(self, samples):
        self.record(largest=samples.return_.max())
        return super().loss(samples)


@pytest.mark.parametrize("Algo", [Telling, TellingDQN])
def test_statistics_that_are_not_declared_are_logged(Algo, tmp_path):
    base = Algo.__base__
    runner = runner_of(base)
    runner.algo = Algo(**BASES[base])
    with run_context(tmp_path, 0, "run"):
        runner.train()
    with open(tmp_path / "progress.csv") as file:
        values = [row["largestAverage"] for row in csv.DictReader(file)]
    assert values[0] in ("", "nan") and all(math.isfinite(float(x)) for x in values[3:])


@pytest.mark.parametrize(
    "algo, settings, switch",
    [
        (DQN, dict(pri_alpha=0.4), dict(prioritized_replay=True)),
        (SAC, dict(default_priority=2.0), dict(prioritized_replay=True)),
        (TD3, dict(pri_beta_init=0.5), dict(ReplayBufferCls=TlPrioritizedReplayBuffer)),
        (DQN, dict(munchausen_tau=0.1), dict(munchausen=0.9)),
        (DDPG, dict(n_sampled_goals=2), dict(hindsight="future")),
    ],
)
def test_settings_that_nothing_reads_are_named(algo, settings, switch):
    (name,) = settings
    with pytest.warns(UserWarning, match=f"{name}={settings[name]} of .* has no effect"):
        algo(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        algo(**settings, **switch)
        algo()
