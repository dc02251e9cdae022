"""Custom parts in the documented forms work in every sampler."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentInputs
from rlpyt.agents.pg.categorical import CategoricalPgAgent
from rlpyt.agents.pg.vector import (
    CategoricalLstmAgent,
    CategoricalMlpAgent,
    GaussianMlpAgent,
    agent_for,
)
from rlpyt.algos.pg.a2c import A2C
from rlpyt.algos.pg.ppo import PPO
from rlpyt.distributions.categorical import Categorical
from rlpyt.envs.gym import GymEnvWrapper
from rlpyt.envs.toy import CountEnv, MemoryEnv
from rlpyt.errors import NonFiniteError, WorkerError
from rlpyt.samplers.collections import TrajInfo
from rlpyt.samplers.collectors import BaseEvalCollector, DecorrelatingStartCollector
from rlpyt.samplers.layout import Hardware, rows_per_worker
from rlpyt.samplers.parallel.cpu.collectors import CpuWaitResetCollector
from rlpyt.samplers.parallel.cpu.sampler import CpuSampler
from rlpyt.samplers.parallel.gpu.sampler import GpuSampler
from rlpyt.samplers.serial.sampler import SerialSampler
from rlpyt.utils.buffer import buffer_func, leaves_of, numpify_buffer, torchify_buffer
from tests.parts import EchoAgent, SmallMlp

SAMPLERS = [SerialSampler, CpuSampler]
T, B = 6, 4


def start(SamplerCls, EnvCls, agent, seed=7, bootstrap_value=True, **kwargs):
    kwargs = {"env_kwargs": {}, **kwargs}
    sampler = SamplerCls(EnvCls=EnvCls, batch_T=T, batch_B=B, **kwargs)
    sampler.initialize(
        agent, affinity=dict(n_workers=2), seed=seed, bootstrap_value=bootstrap_value
    )
    return sampler


class HandWrittenCollector(DecorrelatingStartCollector):
    """Written from docs/sampling.md: one object plays each environment, and fresh arrays go on."""

    def collect_batch(self, agent_inputs, traj_infos, itr):
        ended = []
        rows = [Row(b, self, infos, ended) for b, infos in enumerate(traj_infos)]
        null_action = self.envs[0].action_space.null_value()
        for t in range(self.batch_T):
            chosen, agent_info = self.agent.step(*torchify_buffer(agent_inputs))
            chosen, agent_info = numpify_buffer(chosen), numpify_buffer(agent_info)
            seen = agent_inputs.observation
            steps = [row.play(seen[row.b], chosen[row.b], agent_info[row.b]) for row in rows]
            reward = np.array([step.reward for step in steps], np.float32)
            done = np.array([step.done for step in steps])
            self.write(t, agent_inputs, chosen, agent_info, reward, done)
            for b in np.flatnonzero(done):
                self.agent.reset_one(b)
            following = np.stack([row.observation for row in rows])
            action = np.where(done, null_action, chosen)
            agent_inputs = AgentInputs(following, action, np.where(done, 0, reward))
        if hasattr(self.samples_np.agent, "bootstrap_value"):  # the algorithm asks for values
            value = self.agent.value(*torchify_buffer(agent_inputs))
            self.samples_np.agent.bootstrap_value[:] = value
        return agent_inputs, [row.info for row in rows], ended

    def write(self, t, agent_inputs, action, agent_info, reward, done):
        agent, env = self.samples_np.agent, self.samples_np.env
        if t == 0:
            if hasattr(agent, "timeout_value"):
                agent.timeout_value[:] = 0
            agent.prev_action[t] = agent_inputs.prev_action
            env.prev_reward[t] = agent_inputs.prev_reward
        env.observation[t], agent.action[t] = agent_inputs.observation, action
        agent.agent_info[t], env.reward[t], env.done[t] = agent_info, reward, done


class Row:
    """Environment ``b`` of a collector, and the trajectory that is being played in it."""

    def __init__(self, b, collector, info, ended):
        self.b, self.env, self.make_info = b, collector.envs[b], collector.TrajInfoCls
        self.info, self.ended = info, ended

    def play(self, seen, action, agent_info):
        step = self.env.step(action)
        self.info.step(seen, action, step.reward, step.done, agent_info, step.env_info)
        self.observation = step.observation
        if step.env_info.traj_done:
            self.ended.append(self.info.terminate(step.observation))
            self.info, self.observation = self.make_info(), self.env.reset()
        return step


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_hand_written_collector_sees_the_same_episodes(SamplerCls):
    def observations(**kwargs):
        sampler = start(SamplerCls, CountEnv, EchoAgent(), **kwargs)
        try:
            batches = [sampler.obtain_samples(i) for i in range(3)]
            infos = [info for _, infos in batches for info in infos]
            return batches[-1][0].env.observation.clone(), sorted(i.Return for i in infos)
        finally:
            sampler.shutdown()

    (own, own_returns) = observations(CollectorCls=HandWrittenCollector)
    (ours, our_returns) = observations()
    assert torch.equal(own, ours) and own_returns == our_returns  # CountEnv ignores actions


class QueueingEval(BaseEvalCollector):
    """Plays one episode of each environment without asking the agent; puts results in the queue."""

    def collect_evaluation(self, itr):
        for env in self.envs:
            self.traj_infos_queue.put(self.episode(env))
        self.traj_infos_queue.put(None)  # the end

    def episode(self, env):
        info, observation, over, action = self.TrajInfoCls(), env.reset(), False, np.int64(0)
        while not over:
            step = env.step(action)
            info.step(observation, action, step.reward, step.done, None, step.env_info)
            observation, over = step.observation, step.env_info.traj_done
        return info.terminate(observation)


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_hand_written_evaluation_may_use_its_queue(SamplerCls):
    sampler = start(
        SamplerCls, CountEnv, EchoAgent(), eval_CollectorCls=QueueingEval, eval_n_envs=2,
        eval_max_steps=100,
    )  # fmt: skip
    try:
        assert len(sampler.evaluate_agent(0)) == 2
    finally:
        sampler.shutdown()


class DictEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Dict(
        position=gymnasium.spaces.Box(-1, 1, (2,), np.float32),
        inner=gymnasium.spaces.Dict(count=gymnasium.spaces.Box(0, 100, (1,), np.int64)),
    )

    def __init__(self, action_space):
        self.action_space = action_space

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._observe(), {}

    def _observe(self):
        position = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return dict(position=position, inner=dict(count=np.array([self.t])))

    def step(self, action):
        assert self.action_space.contains(action), action
        self.t += 1
        return self._observe(), float(np.sum(action)), False, self.t >= 4, {}


SPACES = [
    gymnasium.spaces.Discrete(3),
    gymnasium.spaces.Discrete(3, start=5),
    gymnasium.spaces.MultiDiscrete([2, 3]),
    gymnasium.spaces.MultiBinary(3),
    gymnasium.spaces.Box(-2, 3, (2,), np.float32),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_composite_observations_with_every_action_space_train(SamplerCls, space):
    def make():
        return GymEnvWrapper(DictEnv(space))

    agent = agent_for(make().spaces)
    sampler = start(SamplerCls, make, agent)
    try:
        algo = PPO(minibatches=2, epochs=1)
        algo.initialize(agent, 10, sampler.batch_spec, mid_batch_reset=True)
        for itr in range(2):
            samples, _ = sampler.obtain_samples(itr)
            count = samples.env.observation.inner.count[..., 0]
            assert samples.env.env_info.timeout.eq(count == 3).all()
            info = algo.optimize_agent(itr, samples)
            assert np.isfinite(info.loss).all()
    finally:
        sampler.shutdown()


def test_fast_acting_chooses_the_same_actions_as_torch():
    def run(fast):
        torch.manual_seed(0)
        sampler = start(SerialSampler, CountEnv, agent_for(CountEnv().spaces, fast_acting=fast))
        assert (sampler.agent.fast_policy() is not None) == fast
        return [buffer_func(sampler.obtain_samples(i)[0], torch.clone) for i in range(5)]

    for a, b in zip(run(True), run(False), strict=True):
        assert torch.equal(a.agent.action, b.agent.action)
        for x, y in zip(leaves_of(a), leaves_of(b), strict=True):
            assert torch.allclose(x.double(), y.double(), rtol=1e-5, atol=1e-6)


def test_a_distribution_of_ones_own_decides_the_actions():
    class Greedy(Categorical):
        def sample(self, dist_info):
            return dist_info.prob.argmax(-1)

    class GreedyAgent(CategoricalMlpAgent):
        def make_distribution(self, action_space):
            return Greedy(dim=3)

    sampler = start(SerialSampler, CountEnv, GreedyAgent())
    samples, _ = sampler.obtain_samples(0)
    prob = samples.agent.agent_info.dist_info.prob
    assert torch.equal(samples.agent.action, prob.argmax(-1))


@pytest.mark.parametrize("patched", ["step", "choose", "sample"])
def test_a_patched_method_decides_the_actions(patched):
    agent = agent_for(CountEnv().spaces)
    sampler = start(SerialSampler, CountEnv, agent)
    agent.sample_mode(0)
    stock = getattr(agent.distribution if patched == "sample" else agent, patched)
    if patched == "step":
        agent.step = lambda *args: stock(*args)._replace(action=torch.ones(args[-1].shape).long())
    elif patched == "choose":
        agent.choose = lambda *args: (0 * (choice := stock(*args))[0] + 1, *choice[1:])
    else:
        agent.distribution.sample = lambda dist_info: 0 * stock(dist_info) + 1
    samples, _ = sampler.obtain_samples(0)
    assert (samples.agent.action == 1).all()
    if patched == "step":
        inputs = (samples.env.observation[0], samples.agent.action[0], samples.env.reward[0])
        assert (agent.greedy(*inputs)[0] == 1).all()


class FickleEnv(gymnasium.Env):
    """Its first instance tells other things than the next ones."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    made = 0

    def __init__(self):
        FickleEnv.made += 1
        self.first = FickleEnv.made == 1

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        info = dict(common=1.5, **(dict(gone=2.0) if self.first else dict(new=3.0)))
        return np.zeros(1, np.float32), 0.0, False, False, info


def test_info_keys_that_differ_between_instances_are_fitted_with_a_warning():
    FickleEnv.made = 0
    sampler = start(
        SerialSampler, lambda: GymEnvWrapper(FickleEnv()), CategoricalMlpAgent(),
        max_decorrelation_steps=0,
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"\['gone', 'new'\]"):
        samples, _ = sampler.obtain_samples(0)
    info = samples.env.env_info
    assert info._fields == ("common", "gone", "timeout")
    assert info.common.eq(1.5).all() and info.gone.eq(0).all() and not info.timeout.any()


@pytest.mark.parametrize("kwargs", [dict(CollectorCls=CpuWaitResetCollector), dict(TrajInfoCls=1)])
def test_state_of_every_collector_goes_on_exactly(kwargs):
    class OwnInfo(TrajInfo):
        pass

    if "TrajInfoCls" in kwargs:
        kwargs = dict(TrajInfoCls=OwnInfo)

    def batches(sampler, n):
        out = []
        for i in range(n):
            samples, infos = sampler.obtain_samples(i)
            out.append((buffer_func(samples, torch.clone), [dict(info) for info in infos]))
        return out

    whole = start(SerialSampler, CountEnv, EchoAgent(), **kwargs)
    batches(whole, 3)
    state = whole.state_dict()
    expected = batches(whole, 3)
    other = start(SerialSampler, CountEnv, EchoAgent(), seed=99, **kwargs)
    assert other.load_state_dict(state)
    for (a, infos_a), (b, infos_b) in zip(expected, batches(other, 3), strict=True):
        assert infos_a == infos_b
        assert all(torch.equal(x, y) for x, y in zip(leaves_of(a), leaves_of(b), strict=True))


def test_serial_sampler_shows_its_collector_as_rlpyt_did():
    sampler = start(SerialSampler, CountEnv, EchoAgent())
    assert len(sampler.collector.envs) == B and sampler.n_worker == 0 and sampler.workers == []


def test_fast_acting_follows_training():
    sampler = start(SerialSampler, CountEnv, agent_for(CountEnv().spaces))
    samples, _ = sampler.obtain_samples(0)
    algo = A2C(learning_rate=0.1)
    algo.initialize(sampler.agent, 10, sampler.batch_spec, mid_batch_reset=True)
    algo.optimize_agent(0, samples)
    samples, _ = sampler.obtain_samples(1)
    with torch.no_grad():
        dist_info, value = sampler.agent(
            samples.env.observation, samples.agent.prev_action, samples.env.prev_reward
        )
    assert torch.allclose(dist_info.prob, samples.agent.agent_info.dist_info.prob, atol=1e-5)
    assert torch.allclose(value, samples.agent.agent_info.value, atol=1e-3)


class WideEnv(gymnasium.Env):
    """Insists on its bounds."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(np.array([10, -1]), np.array([14, 0]), dtype=np.float32)

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_gaussian_actions_are_in_the_spaces_units_and_clipped_only_for_the_environment():
    agent = GaussianMlpAgent()
    sampler = start(SerialSampler, lambda: GymEnvWrapper(WideEnv()), agent)
    samples, _ = sampler.obtain_samples(0)
    action, info = samples.agent.action, samples.agent.agent_info.dist_info
    assert info.mean[..., 0].sub(12).abs().max() < 2 and info.mean[..., 1].add(0.5).abs().max() < 1
    low, high = torch.tensor([10.0, -1.0]), torch.tensor([14.0, 0.0])
    assert ((action < low) | (action > high)).any()  # recorded as drawn
    z = (action - info.mean) / info.log_std.exp()
    assert z.abs().max() < 5


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_recurrent_agent_remembers_within_and_not_across_episodes(SamplerCls):
    env_kwargs = dict(delay=2)
    agent = agent_for(MemoryEnv(**env_kwargs).spaces, recurrent=True)
    sampler = start(SamplerCls, MemoryEnv, agent, env_kwargs=env_kwargs)
    try:
        for itr in range(2):
            samples, _ = sampler.obtain_samples(itr)
        state = samples.agent.agent_info.prev_rnn_state.h
        after_done = samples.env.done[:-1]
        assert after_done.any()
        assert not state[1:][after_done].any() and state[1:][~after_done].any()
    finally:
        sampler.shutdown()


class NanModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi, value / 0 - value / 0


class FlatModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi, value.sum()


class UnsqueezedModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi, value.unsqueeze(-1)


class LogitsModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi.log() + 1, value


class NegativeModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi - torch.tensor([0.9, -0.9, 0.0]), value


class RoundedModel(SmallMlp):
    def forward(self, observation, prev_action, prev_reward):
        pi, value = super().forward(observation, prev_action, prev_reward)
        return pi.log().bfloat16().softmax(-1).float(), value


class ObservationModel(SmallMlp):
    def forward(self, observation):
        return super().forward(observation, None, None)


class TooManyActions(SmallMlp):
    def __init__(self, inputs, actions):
        super().__init__(inputs, actions + 1)


@pytest.mark.parametrize(
    "Model,error,message",
    [
        (NanModel, NonFiniteError, "'agent_info.value' .*finite"),
        (FlatModel, ValueError, r"'agent_info.value' .*\(\)"),
        (UnsqueezedModel, ValueError, "shape .B., got"),
        (TooManyActions, ValueError, r"'prob' .*got \(2, 4\)"),
        (LogitsModel, ValueError, "probabilities .*softmax"),
        (NegativeModel, ValueError, "sum of 1 .*smallest entry of -0"),
        (None, ValueError, "no ModelCls"),
    ],
)
def test_models_are_tried_out_at_the_start(Model, error, message):
    agent = CategoricalPgAgent(ModelCls=Model, model_kwargs=dict(inputs=3, actions=3))
    with pytest.raises(error, match=message):
        sampler = start(SerialSampler, CountEnv, agent)
        A2C().initialize(agent, 1, sampler.batch_spec, True, sampler.examples)


class PolicyAlone(SmallMlp):
    def forward(self, *inputs):
        return super().forward(*inputs)[0]


class OneMore(SmallMlp):
    def forward(self, *inputs):
        return (*super().forward(*inputs), torch.zeros(()))


@pytest.mark.parametrize("Model", [PolicyAlone, OneMore])
def test_the_outputs_of_models_are_named(Model):
    agent = CategoricalPgAgent(ModelCls=Model, model_kwargs=dict(inputs=3, actions=3))
    with pytest.raises(TypeError) as caught:
        start(SerialSampler, CountEnv, agent)
    assert f"{Model.__name__}.forward must return" in caught.value.__notes__[0]


def test_the_arguments_of_models_are_named():
    agent = CategoricalPgAgent(ModelCls=ObservationModel, model_kwargs=dict(inputs=3, actions=3))
    with pytest.raises(TypeError, match="ObservationModel.forward") as caught:
        start(SerialSampler, CountEnv, agent)
    (note,) = caught.value.__notes__
    assert "(observation, prev_action, prev_reward)" in note


class LogitsCategorical(Categorical):
    """Reads ``prob`` as logits."""

    def sample(self, dist_info):
        return super().sample(type(dist_info)(dist_info.prob.softmax(-1)))


class LogitsAgent(CategoricalPgAgent):
    def make_distribution(self, action_space):
        return LogitsCategorical(action_space.n)


@pytest.mark.parametrize(
    "Agent,Model", [(CategoricalPgAgent, RoundedModel), (LogitsAgent, LogitsModel)]
)
def test_rounded_probabilities_and_other_distributions_are_accepted(Agent, Model):
    agent = Agent(ModelCls=Model, model_kwargs=dict(inputs=3, actions=3))
    sampler = start(SerialSampler, CountEnv, agent)
    samples, _ = sampler.obtain_samples(0)
    assert samples.agent.action.max() < 3
    sampler.shutdown()


def test_agents_name_the_spaces_they_need():
    with pytest.raises(TypeError, match="Discrete action space"):
        agent = CategoricalPgAgent(ModelCls=SmallMlp)
        start(SerialSampler, lambda: GymEnvWrapper(WideEnv()), agent)
    with pytest.raises(TypeError, match="continuous Box"):
        start(SerialSampler, CountEnv, GaussianMlpAgent())


@pytest.mark.parametrize(
    "kwargs,error,message",
    [
        (dict(batch_T=0), ValueError, "batch_T=0"),
        (dict(batch_B=-2), ValueError, "batch_B=-2"),
        (dict(batch_T=1.5), TypeError, "batch_T=1.5"),
        (dict(batch_T="12a"), TypeError, "batch_T='12a'"),
        (dict(batch_B=True), TypeError, "batch_B=True"),
        (dict(batch_B=float("inf")), TypeError, "batch_B=inf"),
        (dict(EnvCls=CountEnv()), TypeError, "EnvCls"),
        (dict(TrajInfoCls=3), TypeError, "TrajInfoCls .*got 3"),
        (
            dict(CollectorCls=dict),
            TypeError,
            "CollectorCls",
        ),
        (dict(eval_n_envs=2), ValueError, "eval_max_steps"),
    ],
)
def test_bad_sampler_arguments_are_refused(kwargs, error, message):
    arguments = {**dict(EnvCls=CountEnv, env_kwargs={}, batch_T=T, batch_B=B), **kwargs}
    with pytest.raises(error, match=message):
        SerialSampler(**arguments).initialize(EchoAgent())


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_calls_that_come_too_early_and_bad_arguments_of_initialize_are_refused(SamplerCls):
    sampler = SamplerCls(CountEnv, {}, batch_T=T, batch_B=B, eval_n_envs=2, eval_max_steps=10)
    for call in (sampler.obtain_samples, sampler.evaluate_agent):
        with pytest.raises(RuntimeError, match="initialized"):
            call(0)
    for agent in (None, EchoAgent):
        with pytest.raises(TypeError, match="must be an agent"):
            sampler.initialize(agent)
    with pytest.raises(ValueError, match="seed=-1"):
        sampler.initialize(EchoAgent(), seed=-1)


@pytest.mark.parametrize(
    "affinity,error,message",
    [
        (dict(n_workers=0), ValueError, "n_workers=0"),
        (dict(n_workers=-1), ValueError, "n_workers=-1"),
        (dict(n_workers=10_000), ValueError, "n_workers .*10000"),
        (dict(n_worker=2), ValueError, r"unknown keys \['n_worker'\]"),
        ("all", TypeError, "affinity .*got .all."),
    ],
)
def test_bad_affinities_are_refused(affinity, error, message):
    sampler = CpuSampler(EnvCls=CountEnv, env_kwargs={}, batch_T=T, batch_B=B)
    with pytest.raises(error, match=message):
        sampler.initialize(EchoAgent(), affinity=affinity, seed=1)


@pytest.mark.parametrize(
    "B, groups, n_workers, message",
    [
        (9, 2, 6, r"\(2 groups of 3.*batch_B=12 or batch_B=6\."),
        (1, 2, 2, r"\(2 groups of 1.*batch_B=2\."),
        (8, 2, 6, r"n_workers=4\) \(--sampler.n-workers 4\)"),
        (10, 1, 4, r"n_workers=4\. .*batch_B=12 or batch_B=8, .*n_workers=2\)"),
    ],
)
def test_advice_about_workers_does_not_go_in_circles(B, groups, n_workers, message):
    with pytest.raises(ValueError, match=message):
        rows_per_worker(B, n_workers, groups)


@pytest.mark.parametrize(
    "B, groups, wanted, used",
    [(4, 1, 3, 2), (4, 1, 8, 4), (7, 1, 2, 1), (8, 2, 3, 4), (9, 2, 3, 2), (6, 2, 3, 6)],
)
@pytest.mark.filterwarnings("ignore:n_workers=")
def test_fewer_workers_are_used_where_they_cannot_share_evenly(B, groups, wanted, used):
    doubled = wanted * groups if wanted % groups else wanted
    with warnings.catch_warnings(record=True) as caught:
        assert Hardware.of(dict(n_workers=wanted), B, groups).n_workers == used
    said = [str(w.message) for w in caught if "divisible" in str(w.message)]
    fitting = used < doubled and B % used == 0
    numbers = f"{doubled} workers, so their number is {used}"
    assert len(said) == fitting and all(numbers in s for s in said)


def test_what_cannot_travel_to_a_worker_is_named():
    import threading

    lock = threading.Lock()

    def make():
        with lock:
            return CountEnv()

    with pytest.raises(TypeError, match="cannot send .*lock"):
        start(CpuSampler, make, EchoAgent())


def test_environments_that_are_none_are_named():
    with pytest.raises((TypeError, WorkerError), match="returned None"):
        start(CpuSampler, lambda: None, EchoAgent())


class Consuming(CountEnv):
    """An environment whose constructor takes its settings out of a dictionary and a list."""

    def __init__(self, config):
        super().__init__(length=config.pop("length", 9) - config["levels"].pop(), fixed=True)


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
def test_environments_may_consume_their_arguments(SamplerCls):
    arguments = {"config": {"length": 4, "levels": [7, 1]}}
    sampler = start(
        SamplerCls, Consuming, EchoAgent(), env_kwargs=arguments, eval_n_envs=1, eval_max_steps=6
    )
    ends = sampler.obtain_samples(0)[0].env.done
    assert [info["Length"] for info in sampler.evaluate_agent(0)] == [3, 3]
    sampler.shutdown()
    assert (ends.sum(0) == 2).all()  # of 6 steps
    assert arguments == {"config": {"length": 4, "levels": [7, 1]}}


class ConsumingModel(SmallMlp):
    """A model whose constructor does so."""

    def __init__(self, config):
        super().__init__(inputs=3, actions=config.pop("actions"))


def test_models_may_consume_their_arguments():
    arguments = {"config": {"actions": 3}}
    for _ in range(2):
        agent = CategoricalPgAgent(ConsumingModel, model_kwargs=arguments)
        start(SerialSampler, CountEnv, agent).shutdown()


class KeepingAgent(CategoricalMlpAgent):
    """An agent that keeps what it read in the last step, without copying it."""

    last = None

    def step(self, observation, prev_action, prev_reward):
        action, info = super().step(observation, prev_action, prev_reward)
        now = (observation, prev_action, prev_reward)
        if self.last is not None and len(self.last[0]) == len(prev_reward):
            change = observation - self.last[0]
            assert ((change == 1) | (observation == 0)).all(), change
        self.last = now
        return action, info


class KeepingModel(torch.nn.Module):
    """A model that keeps the last observation."""

    def __init__(self, observation_shape, output_size):
        super().__init__()
        self.pi, self.v = torch.nn.Linear(1, output_size), torch.nn.Linear(1, 1)
        self.last = None

    def forward(self, observation, prev_action, prev_reward):
        if self.last is not None and self.last.shape == observation.shape:
            assert ((observation - self.last == 1) | (observation == 0)).all()
        self.last = observation
        return torch.softmax(self.pi(observation), -1), self.v(observation).squeeze(-1)


KEEPING = {
    "agent": KeepingAgent,
    "model": lambda: CategoricalMlpAgent(ModelCls=KeepingModel),
}


class Counting(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), float(self.t), self.t >= 9, False, {}


@pytest.mark.parametrize("SamplerCls", SAMPLERS)
@pytest.mark.parametrize("kind", KEEPING)
def test_agents_and_models_may_keep_what_they_have_read(SamplerCls, kind):
    agent = KEEPING[kind]()
    sampler = start(SamplerCls, Counting, agent, bootstrap_value=False)
    try:
        for itr in range(3):
            agent.sample_mode(itr)
            sampler.obtain_samples(itr)
    finally:
        sampler.shutdown()


class KeepingInfo(TrajInfo):
    """Keeps what it has seen of an episode, without copying it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seen = []

    def step(self, observation, action, reward, done, agent_info, env_info):
        super().step(observation, action, reward, done, agent_info, env_info)
        self.seen.append(observation)

    def terminate(self, observation):
        self.seen.append(observation)
        return self


@pytest.mark.parametrize("SamplerCls", [SerialSampler, GpuSampler])
def test_trajectories_may_keep_what_they_have_seen(SamplerCls):
    sampler = SamplerCls(
        Counting, {}, batch_T=12, batch_B=2, max_decorrelation_steps=0, TrajInfoCls=KeepingInfo,
        eval_n_envs=2, eval_max_steps=40, eval_max_trajectories=2,
    )  # fmt: skip
    try:
        sampler.initialize(CategoricalMlpAgent(model_kwargs=dict(hidden_sizes=[8])), seed=0)
        found = sampler.obtain_samples(0)[1] + sampler.evaluate_agent(0)
    finally:
        sampler.shutdown()
    assert [[float(x[0]) for x in info.seen] for info in found] == [[*range(10)]] * 4


class Pair(torch.nn.Module):
    """A recurrent model that returns the state of nn.LSTM as it is."""

    def __init__(self, observation_shape, output_size, form=tuple):
        super().__init__()
        self.lstm, self.form = torch.nn.LSTM(1, 4), form
        self.pi, self.v = torch.nn.Linear(4, output_size), torch.nn.Linear(4, 1)

    def forward(self, observation, prev_action, prev_reward, state):
        lead = observation.shape[:-1]
        x = observation.reshape(-1, prev_reward.shape[-1] if lead else 1, 1)
        x, state = self.lstm(x, None if state is None else tuple(state))
        x = x.reshape(*lead, 4)
        return torch.softmax(self.pi(x), -1), self.v(x).squeeze(-1), self.form(state)


def test_models_may_return_the_pair_of_an_lstm():
    agent = CategoricalLstmAgent(ModelCls=Pair)
    sampler = start(SerialSampler, Counting, agent, bootstrap_value=True)
    samples, _ = sampler.obtain_samples(0)
    assert isinstance(samples.agent.agent_info.prev_rnn_state.h, torch.Tensor)
    sampler.shutdown()
    agent = CategoricalLstmAgent(
        ModelCls=Pair, model_kwargs=dict(form=lambda s: dict(zip("hc", s)))
    )
    with pytest.raises(TypeError, match="Pair returns must be a tensor, a pair of tensors"):
        start(SerialSampler, Counting, agent, bootstrap_value=True)
