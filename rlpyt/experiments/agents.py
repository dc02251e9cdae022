"""Agents built from options."""

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
from safetensors import SafetensorError
from torch.utils._pytree import tree_leaves

from rlpyt.agents.building import named_arguments
from rlpyt.experiments.options import RunOptions
from rlpyt.experiments.registry import base_algorithm, class_named, import_named
from rlpyt.models.image_encoder import SMALL
from rlpyt.models.network import VectorModel
from rlpyt.models.observation import IMAGE_DIM, is_composite, leaf_shapes
from rlpyt.spaces.action_mask import choices_of
from rlpyt.utils.checkpoint import CheckpointError, saved_shapes
from rlpyt.utils.checks import whole_number
from rlpyt.utils.names import UnknownName
from rlpyt.utils.recorded import label

# Deep Q-learning algorithms, and the kind of agent that each trains.
Q_LEARNING = {
    "dqn": "dqn",
    "catdqn": "catdqn",
    "rainbow": "catdqn",
    "qrdqn": "qrdqn",
    "iqn": "iqn",
    "r2d1": "r2d1",
    "pqn": "dqn",
}
# Actor-critic algorithms for continuous control, and the agent that each trains.
CONTROL = {
    "ddpg": "rlpyt.agents.qpg.ddpg_agent:DdpgAgent",
    "td3": "rlpyt.agents.qpg.td3_agent:Td3Agent",
    "sac": "rlpyt.agents.qpg.sac_agent:SacAgent",
    **dict.fromkeys(("crossq", "xqc", "simba", "flashsac"), "rlpyt.agents.qpg.sac_agent:SacAgent"),
    "sac_v": "rlpyt.agents.qpg.sac_v_agent:SacAgent",
}
# Samplers whose agent acts in the process of its environments.
LOCAL_AGENTS = ("serial", "cpu", "ray")
# Evolution strategies, which all use the same agent.
EVOLUTION = ("cmaes", "cem", "openai_es")
# Arguments of the networks, by the agent's attribute with their class.
NETWORKS = {
    "ModelCls": "model_kwargs",
    "QModelCls": "q_model_kwargs",
    "VModelCls": "v_model_kwargs",
}
KERNEL_DIMS = 4  # of the weights of a convolution
# Arguments that define the schedule of epsilon in training.
EPSILONS = ("eps_init", "eps_final", "eps_final_min", "eps_itr_min", "eps_itr_max")


def build_agent(options: RunOptions, env_spaces: Any) -> Any:
    """Build the agent for an algorithm and these spaces, without initializing it.

    Raises:
        TypeError: no agent supports these spaces.
        ValueError: the agent does not support an option, or options contradict each other.
    """
    from rlpyt.agents.pg.vector import agent_class_for
    from rlpyt.agents.spaces import is_discrete, is_image

    agent = options.agent
    model, args = map(_with_classes, (agent.model, agent.args))
    options = replace(options, agent=replace(agent, model=model, args=args))
    chosen, image = options.agent, is_image(env_spaces.observation)
    base, algo_name = base_algorithm(options.algo_name), label(options.algo_name)
    if chosen.cls is not None:
        return _custom_agent(options)
    if not base:
        raise ValueError(
            f"{algo_name} derives from no algorithm with a preset, so its agent must be "
            "given: --agent rlpyt:CategoricalMlpAgent (discrete actions), --agent "
            "rlpyt:GaussianMlpAgent (continuous), or --agent my_module:MyAgent."
        )
    if chosen.normalize_observation and image:
        raise ValueError(
            f"normalize_observation is for vectors, but {label(options.env)} gives images, which "
            "are always scaled to [0, 1]. Disable it (--agent.no-normalize-observation)."
        )
    if base in Q_LEARNING:
        return _q_agent(options, env_spaces, image)
    for name in ("dueling", "noisy"):
        if getattr(chosen, name):
            raise ValueError(
                f"agent.{name} is for deep Q-learning ({', '.join(Q_LEARNING)}), but "
                f"{algo_name} has no values of discrete actions."
            )
    if base in CONTROL:
        return _control_agent(options, env_spaces.action)
    if base in EVOLUTION:
        return _evolution_agent(options, leaf_shapes(env_spaces.observation.shape))
    for_atari = image and is_discrete(env_spaces.action)
    model_kwargs = _model_kwargs(options, "fc_sizes" if for_atari else "hidden_sizes")
    cls = agent_class_for(env_spaces, recurrent=chosen.has_memory)
    return cls(model_kwargs=model_kwargs, **_agent_kwargs(options, cls))


def _custom_agent(options: RunOptions) -> Any:
    """Build the agent ``agent.cls``, with those of its model's arguments that have an option."""
    cls = class_named(options.agent.cls, "agent", ("initialize", "step"))
    kwargs = _agent_kwargs(options, cls)
    ModelCls = kwargs.get("ModelCls", getattr(cls, "ModelCls", None))
    known = [] if ModelCls is None else named_arguments(ModelCls)
    model_kwargs = _model_kwargs(options, "hidden_sizes", known)
    return cls(**kwargs, **({"model_kwargs": model_kwargs} if model_kwargs else {}))


def _model_class(options: RunOptions) -> dict[str, Any]:
    """Return the argument ``ModelCls`` of the agent if a custom model is given."""
    if options.agent.model_cls is None:
        return {}
    return {"ModelCls": class_named(options.agent.model_cls, "model", ("forward",))}


def use_saved_convolutions(agent: Any, state: Any) -> None:
    """Give an agent, not initialized, the default convolutions with which its state was saved.

    Those of images of 16 to 35 pixels were once those of smaller images. Agents with convolutions
    of their own, and states with others, are left alone.

    Args:
        agent: agent of a saved run.
        state: saved state of the agent, or a tree with tensors of the same shapes.
    """
    shapes = [np.shape(x) for x in tree_leaves(state)]
    kernels = {(out, *size) for out, _, *size in (s for s in shapes if len(s) == KERNEL_DIMS)}
    if kernels != {(n, k, k) for n, k in zip(SMALL["channels"], SMALL["kernel_sizes"])}:
        return
    for name, kwargs in NETWORKS.items():
        Model: Any = getattr(agent, name, None)
        given: Any = getattr(agent, kwargs, None)
        ours = given is not None and isinstance(Model, type) and issubclass(Model, VectorModel)
        if ours and "encoder" in named_arguments(Model) and not {"encoder", "encoders"} & {*given}:
            given["encoder"] = SMALL


def prepare_resumed(agent: Any, checkpoints: Path) -> None:
    """Let the agent of a run that is resumed have the network with which it was saved."""
    with contextlib.suppress(CheckpointError, OSError, SafetensorError):  # raised later
        use_saved_convolutions(agent, saved_shapes(checkpoints))


def _q_agent(options: RunOptions, env_spaces: Any, image: bool) -> Any:
    from rlpyt.agents.dqn.vector import AGENTS, dqn_agent_for

    chosen, kind = options.agent, Q_LEARNING[base_algorithm(options.algo_name)]
    if kind == "r2d1" and not chosen.has_memory:
        raise ValueError(
            "r2d1 trains an LSTM or another memory: enable agent.recurrent or choose agent.memory, "
            "or use dqn."
        )
    model_kwargs = _model_kwargs(options, "fc_sizes" if image else "hidden_sizes")
    if chosen.has_memory:
        model_kwargs.setdefault("memory", "lstm")
    if image and kind == "r2d1" and "fc_sizes" in model_kwargs:
        model_kwargs["fc_size"] = model_kwargs.pop("fc_sizes")
    if chosen.dueling:
        model_kwargs["dueling"] = True
    kwargs = _agent_kwargs(options, AGENTS[kind][image])
    if chosen.noisy:
        model_kwargs["noisy"] = True
        own, presets = chosen.args.items(), _preset_args(options)
        custom = (k for k, v in own if k in EPSILONS and all(x.get(k) != v for x in presets))
        if not any(custom):  # noisy layers explore without epsilon
            kwargs |= {"eps_init": 0.0, "eps_final": 0.0}
    return dqn_agent_for(kind, env_spaces, model_kwargs=model_kwargs, **kwargs)


def _control_agent(options: RunOptions, action: Any) -> Any:
    chosen, name = options.agent, base_algorithm(options.algo_name)
    box = not is_composite(action.shape) and choices_of(action) is None
    if options.algo.get("joint_critics") and (chosen.has_memory or not box):
        what = "agents with memory" if chosen.has_memory else str(action)
        raise ValueError(
            f"{label(options.algo_name)} evaluates critics jointly (joint_critics), which is for a "
            f"single Box of actions and agents without memory, not for {what}. Use sac or simba."
        )
    cls = resolve_name(CONTROL[name])
    model_kwargs = _model_kwargs(options, "hidden_sizes")
    if chosen.has_memory:
        model_kwargs.setdefault("memory", "lstm")
    kwargs = _agent_kwargs(options, cls)
    # Critics use the policy's settings by default.
    names = (
        *("hidden_sizes", "normalize_observation", "normalization", "residual"),
        *("encoder", "encoders"),
    )
    shared = {key: model_kwargs[key] for key in names if key in model_kwargs}
    networks = ("q_model_kwargs", "v_model_kwargs") if name == "sac_v" else ("q_model_kwargs",)
    for network in networks:
        given = kwargs.get(network, {})
        if not isinstance(given, dict):
            raise TypeError(f"agent.args: {network}={given!r} must be a dictionary.")
        kwargs[network] = {**shared, **given}
    return cls(model_kwargs=model_kwargs, **kwargs)


def _evolution_agent(options: RunOptions, shapes: Sequence[Any]) -> Any:
    from rlpyt.es.agent import EsAgent

    image = any(len(shape) == IMAGE_DIM for shape in shapes)
    if image or options.agent.has_memory:
        raise ValueError(
            f"{label(options.algo_name)} trains small networks without memory, for vectors"
            + (f", but {label(options.env)} gives images" if image else "")
            + "; ppo supports images and memories."
        )
    model_kwargs = _model_kwargs(options, "hidden_sizes")
    return EsAgent(model_kwargs=model_kwargs, **_agent_kwargs(options, EsAgent))


def _agent_kwargs(options: RunOptions, cls: Any) -> dict[str, Any]:
    """Return the arguments in ``agent.args``.

    Raises:
        UnknownName: the agent does not take one of the arguments.
    """
    accepted = [name for name in named_arguments(cls) if name != "model_kwargs"]
    names = ("policy_observation", "critic_observation", "critic_memory")
    groups = {x: given for x in names if (given := getattr(options.agent, x)) is not None}
    for name in groups:
        if name not in accepted:
            raise ValueError(
                f"agent.{name} is for agents that take the argument {name}, but {cls.__name__} "
                f"of {label(options.algo_name)} does not. Leave it out."
            )
    # Accepted but ignored, as in rlpyt.
    unused = () if getattr(cls, "has_v", False) else ("v_model_kwargs",)
    args, presets = dict(options.agent.args), _preset_args(options)
    for name, value in options.agent.args.items():
        if name not in accepted and any(preset.get(name) == value for preset in presets):
            del args[name]  # for the agent of the preset
        elif name not in accepted:
            kind = f"argument (agent.args) of {label(options.algo_name)}'s agent:"
            raise UnknownName(kind, name, set(accepted) - set(unused))
    return {**args, **groups, **_model_class(options)}


def _preset_args(options: RunOptions) -> list[dict[str, Any]]:
    """Return the agent's arguments of every preset of this algorithm."""
    from rlpyt.experiments.presets.families import FAMILIES

    base = base_algorithm(options.algo_name)
    presets = [family.get(base, {}) for family in FAMILIES.values()]
    return [preset.get("agent", {}).get("args", {}) for preset in presets]


def _model_kwargs(
    options: RunOptions, sizes: str, known: Collection[str] | None = None
) -> dict[str, Any]:
    """Return the arguments of the model.

    Args:
        options: options of the run.
        sizes: name of the argument for ``hidden_sizes``.
        known: arguments of a custom model, to which the options are restricted; ``None``: all.
    """
    model_kwargs: dict[str, Any] = {}
    if options.agent.hidden_sizes is not None:
        model_kwargs[sizes] = list(options.agent.hidden_sizes)
    if options.agent.normalize_observation:
        model_kwargs["normalize_observation"] = True
    memory = _memory_kwargs(options)
    if options.agent.model_cls is not None:
        known = named_arguments(_model_class(options)["ModelCls"])
    if known is not None:
        model_kwargs = {key: value for key, value in model_kwargs.items() if key in known}
        for name in memory:
            if name not in known:
                raise ValueError(
                    f"agent.memory is for models that take the arguments memory and lstm_size, but "
                    f"the custom model does not take {name}. Add it (rlpyt.models.recurrent), or "
                    "leave agent.memory and agent.memory_size out."
                )
    model = dict(options.agent.model)
    if known is None and "hidden_sizes" in model:  # of models of images they have another name
        model[sizes] = model.pop("hidden_sizes")
    return {**model, **memory, **model_kwargs}


def _with_classes(value: Any, kind: str = "") -> Any:
    """Return a model's arguments with classes for names "module:Class" of layers, at any depth.

    ``kind`` is that of the value: "encoder", "encoders" (by part), "nonlinearity" or another.
    """
    if isinstance(value, Mapping):
        encoder = {"encoders": {*value}, "encoder": {"kind"}}.get(kind, {"encoder"})
        kinds = {name: "nonlinearity" for name in value if name.endswith("nonlinearity")}
        kinds |= dict.fromkeys(encoder, "encoder")
        return {k: _with_classes(x, kinds.get(k, str(k))) for k, x in value.items()}
    is_name = kind in ("encoder", "nonlinearity") and isinstance(value, str) and ":" in value
    return import_named(value, kind) if is_name else value


def _memory_kwargs(options: RunOptions) -> dict[str, Any]:
    """Return the model's arguments from ``agent.memory``, ``memory_size`` and ``memory_args``.

    Raises:
        UnknownName: there is no such memory.
        ValueError: size or arguments are given for an agent without memory.
    """
    from rlpyt.models.recurrent import MEMORIES

    chosen = options.agent
    if not chosen.has_memory:
        for name in ("memory_size", "memory_args"):
            if getattr(chosen, name):
                raise ValueError(
                    f"agent.{name} is for agents with a memory. Choose one (agent.memory=gru)."
                )
        return {}
    kwargs: dict[str, Any] = {}
    kind: Any = chosen.memory or "lstm"
    if isinstance(kind, str) and ":" in kind:
        kind = import_named(kind, "memory")
    elif isinstance(kind, str) and kind not in MEMORIES:
        raise UnknownName("memory", kind, (*MEMORIES, "none", "my_module:MyMemory"))
    if chosen.memory is not None or chosen.memory_args:
        kwargs["memory"] = {"kind": kind, **chosen.memory_args} if chosen.memory_args else kind
    if chosen.memory_size is not None:
        kwargs["lstm_size"] = whole_number("agent.memory_size", chosen.memory_size, 1)
    return kwargs
