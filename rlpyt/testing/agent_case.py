"""Copy and initialize the agent under test, and let it act."""

import contextlib
import copy
from typing import Any, NamedTuple

import numpy as np
import torch

from rlpyt.envs.base import EnvSpaces, build_env
from rlpyt.spaces.elements import leaf_spaces
from rlpyt.testing.report import Report
from rlpyt.testing.trees import copied, difference, stacked
from rlpyt.utils import serialize
from rlpyt.utils.buffer import buffer_func, torchify_buffer

PERTURBATION = 0.3  # standard deviation, divided by the root of the number of inputs
TYPICAL = 3.0  # clip for normally distributed observations of unbounded spaces


class Inputs(NamedTuple):
    """Inputs of an agent; tensors [T, B, ...] or [B, ...]."""

    observation: Any
    prev_action: Any
    prev_reward: Any


class AgentCase:
    """The agent under test: makes copies that act on the same inputs with the same noise.

    Args:
        agent: the agent as constructed.
        spaces: spaces of the environment.
        report: takes the findings.
        T, B: time steps and environments of the inputs.
        seed: seed of parameters, inputs and noise.

    Attributes:
        inputs: `Inputs` [T, B, ...]; observations and actions are drawn from their spaces.
    """

    def __init__(
        self, agent: Any, spaces: EnvSpaces, report: Report, T: int = 5, B: int = 3, seed: int = 0
    ) -> None:
        self.agent, self.spaces, self.report = agent, spaces, report
        self.T, self.B, self.seed = T, B, seed
        self._models: dict[int, Any] = {}
        self._rng = np.random.default_rng(seed)
        for space in (spaces.observation, spaces.action):
            if hasattr(space, "seed"):
                space.seed(seed)
        self.inputs = self._draw_inputs()

    def _draw_inputs(self) -> Inputs:
        T, B = self.T, self.B

        def table(draw: Any) -> Any:
            return stacked([stacked([draw() for _ in range(B)]) for _ in range(T)])

        def observation() -> Any:
            space = self.spaces.observation
            drawn = iter([_typical_leaf(leaf, self._rng) for _, leaf in leaf_spaces(space)])
            return buffer_func(space.null_value(), lambda _: next(drawn))

        reward = self._rng.normal(size=(T, B)).astype(np.float32)
        action = table(self.spaces.action.sample)
        return Inputs(*torchify_buffer((table(observation), action, reward)))

    def fresh(self, seed: int = 0) -> Any:
        """Return an initialized copy in sample mode; equal seeds give equal parameters."""
        if seed not in self._models:
            self._models[seed] = self.initialized(seed)
        try:
            return copy.deepcopy(self._models[seed])
        except Exception:  # a part cannot be copied
            return self.initialized(seed)

    def recreated(self) -> Any:
        """Return a copy as a worker process receives it."""
        return serialize.loads(serialize.dumps(self.agent))

    def initialized(self, seed: int = 0) -> Any:
        """Return a copy, initialized with perturbed parameters."""
        agent = self.recreated()
        ranks = list(range(self.B))
        with torch.inference_mode(False):  # parameters need gradients
            torch.default_generator.manual_seed(self.seed + seed)
            agent.initialize(self.spaces, share_memory=False, global_B=self.B, env_ranks=ranks)
            _perturb(agent)
        agent.collector_initialize(global_B=self.B, env_ranks=ranks)
        agent.reset()
        agent.sample_mode(0)
        return agent

    def at(self, t: int, order: Any = None) -> Inputs:
        """Return the inputs [B, ...] of time t, with rows in this order."""
        rows = slice(None) if order is None else list(order)
        return Inputs(*(buffer_func(part, lambda leaf: leaf[t][rows]) for part in self.inputs))

    def act(self, agent: Any, t: int, order: Any = None, noise_seed: int = 0) -> Any:
        """Act at time t as samplers do; return (action, agent_info) as numpy arrays.

        Equal seeds give equal noise, and equal states of torch's generator.
        """
        torch.default_generator.manual_seed(1000 * noise_seed + t)
        spec = agent.noise_spec
        if spec is not None:
            noise = self.noise(spec, t, noise_seed)
            agent.set_noise(torch.from_numpy(noise if order is None else noise[list(order)]))
        with torch.inference_mode():
            step = agent.step(*self.at(t, order))
        return copied(tuple(step))

    def noise(self, spec: Any, t: int, seed: int = 0) -> Any:
        """Draw noise [B, *spec.shape], float32, for time t."""
        rng = np.random.default_rng([seed, t])
        draw = rng.random if spec.kind == "uniform" else rng.standard_normal
        return draw((self.B, *spec.shape), dtype=np.float32)

    def run(self, agent: Any, order: Any = None, T: int | None = None) -> list[Any]:
        """Act at times 0, 1, ... and return the results."""
        return [self.act(agent, t, order) for t in range(self.T if T is None else T)]

    def expect_same(self, a: Any, b: Any, what: str, fix: str, *, close: bool = True) -> bool:
        """Report an error if two results, or lists of results by time, differ.

        Args:
            a, b: the results.
            what: the observation; the first difference is appended.
            fix: what to do about it.
            close: allow rounding differences.

        Returns:
            True if they are the same.
        """
        if isinstance(a, list):
            pairs = enumerate(zip(a, b, strict=True))
            texts = ((t, difference(own, other, close)) for t, (own, other) in pairs)
            found = next((f"step {t}: {text}" for t, text in texts if text), None)
        else:
            found = difference(a, b, close)
        return self.report.expect(not found, f"{what}: {found}", fix)


@torch.no_grad()
def _perturb(agent: Any) -> None:
    """Add noise to all parameters: with zeros from initialization, faults would not show."""
    for p in agent.parameters():
        if p.is_floating_point():
            n_inputs = max(1, p[0].numel()) if p.numel() and p.dim() else 1
            p.add_(torch.randn_like(p) * (PERTURBATION / n_inputs**0.5))


def _typical_leaf(space: Any, rng: np.random.Generator) -> Any:
    if np.dtype(space.dtype).kind != "f":
        return space.sample()
    low = np.maximum(getattr(space, "low", -np.inf), -TYPICAL)
    high = np.maximum(np.minimum(getattr(space, "high", np.inf), TYPICAL), low)
    drawn = np.clip(rng.normal(size=space.shape), low, high)
    return drawn.astype(space.dtype)


def spaces_of(env_or_spaces: Any) -> EnvSpaces:
    """Return the spaces of an environment, a factory or ``EnvSpaces``.

    Raises:
        TypeError: there are no spaces, or they are not rlpyt's.
    """
    given = env_or_spaces
    factory = isinstance(given, type) or (callable(given) and not hasattr(given, "step"))
    if factory or (hasattr(given, "reset") and hasattr(given, "step")):
        env = build_env(given if factory else lambda: env_or_spaces, {}, "check_agent")
        with contextlib.closing(env) if factory else contextlib.nullcontext():
            given = EnvSpaces(env.observation_space, env.action_space)
    if not hasattr(given, "observation") or not hasattr(given, "action"):
        raise TypeError(
            f"env_or_spaces={env_or_spaces!r:.100} must be an environment, a class or function "
            "that makes one, or EnvSpaces(observation, action)."
        )
    for space in (given.observation, given.action):
        if not hasattr(space, "null_value"):
            raise TypeError(
                f"space {space!r:.80} is none of rlpyt's; for spaces of Gymnasium pass the "
                "environment, or rlpyt.spaces.gym_wrapper.GymSpaceWrapper(space)."
            )
    return EnvSpaces(given.observation, given.action)
