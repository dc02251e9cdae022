"""Critics of DDPG, TD3 and SAC read other parts of an observation than the policy."""

import numpy as np
import pytest
import torch

import rlpyt
from rlpyt.agents.qpg.ddpg_agent import DdpgAgent
from rlpyt.agents.qpg.sac_agent import SacAgent
from rlpyt.agents.qpg.sac_v_agent import SacAgent as SacVAgent
from rlpyt.agents.qpg.td3_agent import Td3Agent
from rlpyt.algos.qpg.ddpg import DDPG
from rlpyt.algos.qpg.sac import SAC
from rlpyt.algos.qpg.td3 import TD3
from rlpyt.runners.minibatch_rl import MinibatchRl
from rlpyt.samplers.serial.sampler import SerialSampler
from tests.agents.test_observation_groups import (
    CRITIC,
    GROUPS,
    NARROW,
    SERIAL,
    B,
    T,
    changed,
    inputs_of,
    make,
)

AGENTS = [(DdpgAgent, "box"), (Td3Agent, "box"), (SacAgent, "box"), (SacVAgent, "box")]
AGENTS += [(SacAgent, "discrete"), (SacAgent, "hybrid")]
MEMORY = dict(memory="gru", lstm_size=8)


def initialized(Agent, action, memory=None, **kwargs):
    torch.manual_seed(0)
    more = dict(v_model_kwargs=NARROW) if Agent is SacVAgent else {}
    networks = dict(model_kwargs={**NARROW, **(memory or {})}, q_model_kwargs=NARROW, **more)
    agent = Agent(**{**networks, **GROUPS, **kwargs})
    agent.initialize(make(action=action).spaces)
    agent.sample_mode(0)
    return agent


@pytest.mark.parametrize("Agent,action", AGENTS)
def test_networks_read_the_parts_of_their_group(Agent, action):
    agent = initialized(Agent, action)
    inputs = inputs_of(agent)
    pairs = [(agent.model, "privileged", "state"), (agent.q_model, "extra.kind", "privileged")]
    if Agent is SacVAgent:
        pairs += [(agent.v_model, "extra.kind", "privileged")]
    A = agent.env_critic_kwargs["action_size"]
    for network, unseen, seen in pairs:
        action = (torch.zeros(T, B, A),) if network is agent.q_model else ()

        def outputs(inputs, network=network, action=action):
            found = network(*inputs, *action)
            return torch.cat([x.flatten() for x in (found if type(found) is tuple else [found])])

        with torch.no_grad():
            before = outputs(inputs)
            assert torch.equal(outputs(changed(inputs, unseen)), before)
            assert not torch.equal(outputs(changed(inputs, seen)), before)


def test_policy_and_critics_have_statistics_of_their_own():
    normalized = dict(NARROW, normalize_observation=True)
    agent = initialized(Td3Agent, "box", model_kwargs=normalized, q_model_kwargs=normalized)
    agent.update_obs_rms(inputs_of(agent, (50,))[0])
    critics = [*agent.q_model.members, *agent.target_q_model.members]
    assert agent.model.obs_rms is agent.target_model.obs_rms
    assert all(c.obs_rms is critics[0].obs_rms for c in critics)
    assert agent.model.obs_rms.mean.shape == (2,) and critics[0].obs_rms.mean.shape == (3,)
    assert agent.model.obs_rms.count == critics[0].obs_rms.count == 50


@pytest.mark.parametrize("memory", [None, MEMORY])
@pytest.mark.parametrize("Agent,algo,action", [
    (DdpgAgent, DDPG, "box"), (Td3Agent, TD3, "box"), (SacAgent, SAC, "box"),
    (SacAgent, SAC, "hybrid"),
])  # fmt: skip
def test_algorithms_train_both_networks(Agent, algo, action, memory):
    networks = dict(model_kwargs={**NARROW, **(memory or {})}, q_model_kwargs=NARROW)
    agent = Agent(**networks, **GROUPS)
    torch.manual_seed(0)
    env_kwargs = dict(action=action, length=3)
    sampler = SerialSampler(EnvCls=make, env_kwargs=env_kwargs, batch_T=T, batch_B=B)
    sequences = {} if memory is None else dict(batch_T=3, warmup_T=1, store_rnn_state_interval=1)
    algo = algo(batch_size=8, min_steps_learn=2 * T * B, replay_size=20 * T * B, replay_ratio=1,
                **sequences)  # fmt: skip
    before = {}
    initialize = agent.initialize

    def remember(*args, **kwargs):
        initialize(*args, **kwargs)
        before.update({name: p.detach().clone() for name, p in trained(agent).items()})

    agent.initialize = remember
    MinibatchRl(algo=algo, agent=agent, sampler=sampler, n_steps=10 * T * B, seed=1).train()
    assert not [name for name, x in trained(agent).items() if torch.equal(x, before[name])]


def trained(agent):
    """Return the parameters of policy and critics by name."""
    networks = dict(pi=agent.model, q=agent.q_model)
    return {f"{n}.{k}": p for n, network in networks.items() for k, p in network.named_parameters()}


def test_on_the_command_line(tmp_path):
    agent = {"model": dict(encoder=NARROW["encoder"]), "hidden_sizes": [8], **GROUPS}
    run = rlpyt.train(
        "sac", "tests.groups_env:GroupsEnv", steps=64, run_dir=tmp_path / "run", agent=agent,
        env_args=dict(action="box"), sampler=SERIAL, min_steps_learn=32, replay_size=1000,
        batch_size=8, replay_ratio=2, video=False, eval_episodes=1, progress=False,
    )  # fmt: skip
    run.export(tmp_path / "policy.pt2", steps=12)
    policy = rlpyt.load_policy(tmp_path / "policy.pt2")
    inputs = [entry["name"] for entry in policy.metadata["inputs"]]
    assert inputs == ["observation.extra.kind", "observation.state"]
    action, _ = policy.act(dict(state=np.zeros(2, np.float32), extra=dict(kind=1)))
    assert action.shape == (1,)


def test_an_unknown_part_is_named():
    with pytest.raises(ValueError, match="critic_observation 'goal'"):
        initialized(SacAgent, "box", critic_observation=[*CRITIC, "goal"])
