import numpy as np
import pytest
import torch

from rlpyt.agents.base import AgentStep
from rlpyt.agents.dqn.dqn_agent import AgentInfo
from rlpyt.agents.dqn.vector import DqnMlpAgent, dqn_agent_for
from rlpyt.agents.exploration import annealed, log_spaced, ramp
from rlpyt.envs.toy import CountEnv


def agent_of(**kwargs):
    agent = DqnMlpAgent(**kwargs)
    agent.initialize(CountEnv().spaces)
    return agent


def test_ramp_and_annealing():
    assert [ramp(i, 2, 6) for i in (0, 2, 3, 4, 6, 9)] == [0, 0, 0.25, 0.5, 1, 1]
    assert [ramp(i, 3, 3) for i in (2, 3, 4)] == [0, 0, 1]
    assert annealed(3, 2, 6, 1.0, 0.2) == pytest.approx(0.8)
    both = annealed(4, 2, 6, np.ones(2), np.array([0.0, 0.5]))
    assert both.tolist() == [0.5, 0.75]


def test_log_spacing():
    assert np.allclose(log_spaced(0.001, 0.1, 3), [0.001, 0.01, 0.1])
    assert log_spaced(0.001, 0.1, 1).tolist() == [0.001]
    with pytest.raises(ValueError, match="0 < low <= high"):
        log_spaced(0, 0.1, 3)


def test_epsilon_follows_the_iteration_whatever_came_before():
    agent = agent_of(eps_init=1, eps_final=0.2, eps_itr_min=10, eps_itr_max=30)
    for itr, epsilon in [(0, 1), (10, 1), (20, 0.6), (30, 0.2), (500, 0.2), (20, 0.6)]:
        agent.sample_mode(itr)
        assert agent.distribution.epsilon == pytest.approx(epsilon)
    fresh = agent_of(eps_init=1, eps_final=0.2, eps_itr_min=10, eps_itr_max=30)
    fresh.sample_mode(400)  # as after a resume
    assert fresh.distribution.epsilon == pytest.approx(0.2)


def test_evaluation_epsilon_and_back():
    agent = agent_of(eps_eval=0.05)
    agent.eval_mode(0)
    assert agent.distribution.epsilon == 1
    agent.eval_mode(7)
    assert agent.distribution.epsilon == 0.05
    agent.sample_mode(0)
    assert agent.distribution.epsilon == 1


def test_algorithms_set_the_ramp():
    agent = agent_of()
    agent.set_epsilon_itr_min_max(4, 4)  # a step
    agent.sample_mode(4)
    assert agent.distribution.epsilon == 1
    agent.sample_mode(5)
    assert agent.distribution.epsilon == pytest.approx(0.01)
    agent.give_min_itr_learn(9)
    assert (agent.eps_itr_min, agent.eps_itr_max) == (9, 9)
    agent.set_sample_epsilon_greedy(0.3)
    assert agent.distribution.epsilon == 0.3


def test_vector_epsilon_goes_by_global_rank_and_group():
    agent = agent_of(eps_final=0.1, eps_final_min=0.001, eps_itr_min=0, eps_itr_max=10)
    agent.collector_initialize(global_B=5, env_ranks=[1, 2, 3, 4])
    spread = log_spaced(0.001, 0.1, 5).astype(np.float32)
    agent.sample_mode(99)
    assert np.allclose(agent.epsilon_of(4, 0), spread[1:])
    assert np.allclose(agent.epsilon_of(2, 1), spread[3:])
    agent.set_group(1)
    agent.fit_epsilon(2)
    assert np.allclose(agent.distribution.epsilon, spread[3:])
    agent.set_group(0)
    agent.fit_epsilon(2)
    assert np.allclose(agent.distribution.epsilon, spread[1:3])
    agent.sample_mode(5)
    assert np.allclose(agent.epsilon_of(2, 0), 0.5 + 0.5 * spread[1:3])
    agent.eval_mode(5)
    assert agent.epsilon_of(3, 0) == np.float32(0.001)
    agent.collector_initialize(global_B=5, env_ranks=[2])  # again, from the same numbers
    agent.sample_mode(99)
    assert agent.epsilon_of(1, 0) == spread[2]


def test_the_mean_epsilon_is_that_of_the_environments_of_all_processes():
    settings = dict(eps_final=0.4, eps_final_min=0.004, eps_itr_min=2, eps_itr_max=10)
    agents = [agent_of(**settings) for _ in range(2)]
    for rank, agent in enumerate(agents):
        agent.collector_initialize(global_B=6, env_ranks=range(3 * rank, 3 * rank + 3))
    for itr in (0, 2, 5, 10, 99):
        for agent in agents:
            agent.sample_mode(itr)
        mean = np.concatenate([agent.eps_sample for agent in agents]).mean()
        assert [agent.statistics(itr)["Epsilon"] for agent in agents] == pytest.approx([mean, mean])
    alike = agent_of(eps_final=0.2, eps_itr_min=10, eps_itr_max=30)
    assert alike.statistics(20)["Epsilon"] == pytest.approx(0.6)


class OwnStep(DqnMlpAgent):
    """Acts as agents written for rlpyt do: by asking the distribution for what it was set to."""

    @torch.no_grad()
    def step(self, observation, prev_action, prev_reward):
        q = self(observation, prev_action, prev_reward)
        return AgentStep(self.distribution.sample(q), AgentInfo(q))


@pytest.mark.parametrize("groups", [1, 2])
def test_agents_with_a_step_of_their_own_have_the_epsilons_of_their_environments(groups):
    agent = OwnStep(eps_final=0.5, eps_final_min=1e-9, eps_itr_min=0, eps_itr_max=1)
    agent.initialize(CountEnv().spaces, global_B=4, env_ranks=[0, 1, 2, 3])
    agent.sample_mode(0)
    assert agent.distribution.epsilon == 1.0  # of any number of environments
    agent.sample_mode(9)
    assert np.allclose(agent.distribution.epsilon, log_spaced(1e-9, 0.5, 4))
    surprises, n = np.zeros(4), 4 // groups
    inputs = torch.zeros(n, 3), torch.zeros(n, dtype=torch.long), torch.zeros(n)
    for seed in range(200):
        noise = torch.rand(4, 2, generator=torch.Generator().manual_seed(seed))
        for group in range(groups):
            agent.set_group(group)
            mine = slice(group * n, (group + 1) * n)
            agent.set_noise(noise[mine])
            action, info = agent.step(*inputs)
            surprises[mine] += (action != info.q.argmax(-1)).numpy()
    assert (surprises[:2] == 0).all() and surprises[3] > 40


@pytest.mark.parametrize(
    "kwargs,message",
    [
        (dict(eps_final=1.5), "eps_final=1.5"),
        (dict(eps_init=0.1, eps_final=0.2), "eps_final .*eps_init=0.1.* 0.2"),
        (dict(eps_final=0.1, eps_final_min=0.2), "eps_final_min=0.2"),
        (dict(eps_itr_min=-1), "eps_itr_max .*-1"),
        (dict(eps_eval=-1), "eps_eval=-1"),
    ],
)
def test_impossible_schedules_are_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        DqnMlpAgent(**kwargs)


def test_an_end_before_the_beginning_lets_epsilon_fall_at_once():
    agent = DqnMlpAgent(eps_init=1.0, eps_final=0.1, eps_itr_min=50, eps_itr_max=4)
    agent.initialize(CountEnv().spaces)
    agent.sample_mode(4)
    assert agent.distribution.epsilon == 1.0
    agent.sample_mode(5)
    assert agent.distribution.epsilon == np.float32(0.1)


def test_ready_agents_by_kind():
    spaces = CountEnv().spaces
    for kind in ("dqn", "catdqn", "qrdqn", "iqn", "r2d1"):
        assert dqn_agent_for(kind, spaces).recurrent == (kind == "r2d1")
    with pytest.raises(ValueError, match="kind='sarsa'"):
        dqn_agent_for("sarsa", spaces)
