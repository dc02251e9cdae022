"""From options to a ready agent."""

import importlib
from typing import Any

from rlpyt.agents.building import named_arguments
from rlpyt.experiments.options import RunOptions
from rlpyt.utils.names import UnknownName

# Algorithms of deep Q-learning, and the kind of agent that each trains.
Q_LEARNING = {
    "dqn": "dqn",
    "catdqn": "catdqn",
    "rainbow": "catdqn",
    "qrdqn": "qrdqn",
    "iqn": "iqn",
    "r2d1": "r2d1",
}
# Algorithms of continuous control with critics, and the agents that they train.
CONTROL = {
    "ddpg": "rlpyt.agents.qpg.ddpg_agent:DdpgAgent",
    "td3": "rlpyt.agents.qpg.td3_agent:Td3Agent",
    "sac": "rlpyt.agents.qpg.sac_agent:SacAgent",
    "sac_v": "rlpyt.agents.qpg.sac_v_agent:SacAgent",
}
# Samplers whose agent acts beside its environments.
LOCAL_AGENTS = ("serial", "cpu", "ray")
# Evolution strategies, which all search an agent of one kind.
EVOLUTION = ("cmaes", "cem", "openai_es")
# Arguments that are the schedule of epsilon in training.
EPSILONS = ("eps_init", "eps_final", "eps_final_min", "eps_itr_min", "eps_itr_max")


def build_agent(options: RunOptions, env_spaces: Any) -> Any:
    """The ready agent for an algorithm and these spaces, not yet initialized.

    Raises:
        TypeError: none fits.
        ValueError: options that the agent does not have, or that contradict each other.
    """
    from rlpyt.agents.pg.vector import agent_for
    from rlpyt.agents.spaces import is_discrete, is_image

    chosen, image = options.agent, is_image(env_spaces.observation)
    if chosen.normalize_observation and image:
        raise ValueError(
            f"normalize_observation is for vectors, and {options.env} gives images, which are "
            "scaled to [0, 1] as they are; leave it out (--agent.no-normalize-observation)."
        )
    if options.algo_name in Q_LEARNING:
        return _q_agent(options, env_spaces, image)
    for name in ("dueling", "noisy"):
        if getattr(chosen, name):
            raise ValueError(
                f"agent.{name} is for deep Q-learning ({', '.join(Q_LEARNING)}); "
                f"{options.algo_name} has no values of discrete actions."
            )
    if options.algo_name in CONTROL:
        return _control_agent(options)
    if options.algo_name in EVOLUTION:
        return _evolution_agent(options, image)
    for_atari = image and is_discrete(env_spaces.action)
    model_kwargs = _model_kwargs(options, "fc_sizes" if for_atari else "hidden_sizes")
    kwargs = dict(chosen.args)
    return agent_for(env_spaces, recurrent=chosen.recurrent, model_kwargs=model_kwargs, **kwargs)


def collector_kwargs(options: RunOptions) -> dict[str, Any]:
    """What the sampler is told about its collection loop, where the agent needs one of its own.

    Raises:
        ValueError: that loop does not fit the other options.
    """
    if options.algo_name not in EVOLUTION:
        return {}
    from rlpyt.es.collector import PopulationCollector

    sampler = options.sampler
    if sampler.asynchronous or options.ranks > 1 or sampler.kind not in LOCAL_AGENTS:
        raise ValueError(
            f"{options.algo_name} tries candidates out in one process or in workers: take the "
            "sampler serial, cpu or ray, not asynchronous, and ranks=1."
        )
    return {"CollectorCls": PopulationCollector}


def _q_agent(options: RunOptions, env_spaces: Any, image: bool) -> Any:
    from rlpyt.agents.dqn.vector import AGENTS, dqn_agent_for

    chosen, kind = options.agent, Q_LEARNING[options.algo_name]
    recurrent = kind == "r2d1"
    if chosen.recurrent and not recurrent:
        raise ValueError(
            f"{options.algo_name} learns from single steps, and cannot train an LSTM; r2d1 can."
        )
    if recurrent and not chosen.recurrent:
        raise ValueError("r2d1 trains an LSTM (agent.recurrent); dqn trains agents without.")
    if chosen.noisy and recurrent:
        raise ValueError("r2d1 has no noisy layers; leave agent.noisy out.")
    model_kwargs = _model_kwargs(options, "fc_sizes" if image else "hidden_sizes")
    if image and recurrent and "fc_sizes" in model_kwargs:
        (model_kwargs["fc_size"],) = model_kwargs.pop("fc_sizes")
    if chosen.dueling:
        model_kwargs["dueling"] = True
    kwargs = _agent_kwargs(options, AGENTS[kind][image])
    if chosen.noisy:
        model_kwargs["noisy"] = True
        if not _wants_epsilon(options):  # noise explores by itself
            kwargs |= {"eps_init": 0.0, "eps_final": 0.0}
    return dqn_agent_for(kind, env_spaces, model_kwargs=model_kwargs, **kwargs)


def _control_agent(options: RunOptions) -> Any:
    chosen, name = options.agent, options.algo_name
    if chosen.recurrent:
        raise ValueError(f"{name} learns from single steps, and cannot train an LSTM; ppo can.")
    module, _, cls_name = CONTROL[name].partition(":")
    cls = getattr(importlib.import_module(module), cls_name)
    model_kwargs = _model_kwargs(options, "hidden_sizes")
    kwargs = _agent_kwargs(options, cls)
    # The critics are as wide as the policy, and read observations alike, unless they say otherwise.
    read = ("hidden_sizes", "normalize_observation", "encoder")
    same = {key: model_kwargs[key] for key in read if key in model_kwargs}
    networks = ("q_model_kwargs", "v_model_kwargs") if name == "sac_v" else ("q_model_kwargs",)
    for network in networks:
        given = kwargs.get(network, {})
        if not isinstance(given, dict):
            raise TypeError(f"agent.args: {network}={given!r} must be a dictionary.")
        kwargs[network] = {**same, **given}
    return cls(model_kwargs=model_kwargs, **kwargs)


def _evolution_agent(options: RunOptions, image: bool) -> Any:
    from rlpyt.es.agent import EsAgent

    if image or options.agent.recurrent:
        raise ValueError(
            f"{options.algo_name} searches small networks without memory, for vectors"
            + (f", and {options.env} gives images" if image else "")
            + "; ppo learns from images, and trains an LSTM."
        )
    model_kwargs = _model_kwargs(options, "hidden_sizes")
    return EsAgent(model_kwargs=model_kwargs, **_agent_kwargs(options, EsAgent))


def _agent_kwargs(options: RunOptions, cls: Any) -> dict[str, Any]:
    """The options ``agent.args``.

    Raises:
        UnknownName: the agent does not take one.
    """
    own = ("model_kwargs",)  # options of their own: hidden_sizes, model, ...
    taken = [name for name in named_arguments(cls) if name not in own]
    useless = () if getattr(cls, "has_v", False) else ("v_model_kwargs",)  # but taken, as in rlpyt
    for name in options.agent.args:
        if name not in taken:
            kind = f"argument (agent.args) of {options.algo_name}'s agent:"
            raise UnknownName(kind, name, set(taken) - set(useless))
    return dict(options.agent.args)


def _wants_epsilon(options: RunOptions) -> bool:
    """Whether a schedule of epsilon was given; that of a preset is for models without noise."""
    from rlpyt.experiments.configs.presets import FAMILIES

    presets = [family.get(options.algo_name, {}) for family in FAMILIES.values()]
    usual = [preset.get("agent", {}).get("args", {}) for preset in presets]
    return any(
        name in EPSILONS and not any(args.get(name) == value for args in usual)
        for name, value in options.agent.args.items()
    )


def _model_kwargs(options: RunOptions, sizes: str) -> dict[str, Any]:
    model_kwargs: dict[str, Any] = dict(options.agent.model)
    if options.agent.hidden_sizes is not None:
        model_kwargs[sizes] = list(options.agent.hidden_sizes)
    if options.agent.normalize_observation:
        model_kwargs["normalize_observation"] = True
    return model_kwargs
