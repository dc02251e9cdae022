"""The agent of deep Q-learning: epsilon-greedy on action values, with a target network."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rlpyt.agents.base import FastPolicy, Sample
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.agents.spaces import discrete_size
from rlpyt.distributions.base import NoiseSpec
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy, valid_values
from rlpyt.envs.base import EnvSpaces
from rlpyt.models.dqn.noisy import noisy_layers, set_row_noise
from rlpyt.models.utils import strip_ddp_state_dict, unwrap_ddp, update_state_dict
from rlpyt.spaces.action_mask import action_mask_of
from rlpyt.utils.buffer import Arrays, Tensors
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["q"])  # [*lead, A] float32
AgentInfoRnn = namedarraytuple("AgentInfoRnn", ["q", "prev_rnn_state"])


class DqnAgent(EpsilonGreedyAgentMixin):
    """Acts epsilon-greedily on the model's values of discrete actions, among valid ones if masked.

    With an argument ``memory`` of the model the agent is recurrent, for example
    ``model_kwargs=dict(memory="gru", lstm_size=128)``. It then also records ``prev_rnn_state``, the
    recurrent state before the step, leaves [B, N, H].

    A model with noisy layers explores by their noise and by epsilon, or by noise alone with
    ``eps_init=0, eps_final=0``: each environment draws its own noise at every step. Evaluation
    uses the mean weights.

    Args:
        *args: optionally ``ModelCls``, then the arguments of `EpsilonGreedyAgentMixin`.
        **kwargs: see `EpsilonGreedyAgentMixin` and `BaseAgent`. ``initial_model_state_dict`` may
            also be the result of ``state_dict``.

    Attributes:
        target_model: target network; equal to ``model`` at first. It is in evaluation mode (no
            dropout, no batch statistics), except for its noisy layers, which draw their own noise.
    """

    family = "rlpyt.agents.dqn"
    provides = "action values"
    masks_choices = True
    takes_memory = True
    AgentInfo, AgentInfoRnn = AgentInfo, AgentInfoRnn

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and callable(args[0]):  # as in rlpyt's agents with a default model
            kwargs["ModelCls"], *args = args  # type: ignore[assignment]
        super().__init__(*args, **kwargs)
        self.target_model: Any = None
        self._noisy_of: tuple[Any, list[Any]] = (None, [])  # (the model, its noisy layers)
        self._noise_seeds: torch.Tensor | None = None  # [B], for the noisy layers

    # Hooks of subclasses.

    def make_distribution(self, n_actions: int) -> Any:
        """Return the distribution that chooses actions, given the result of ``summarize``."""
        return EpsilonGreedy(dim=n_actions)

    def summarize(self, output: Any) -> Any:
        """Convert the model's output to the distribution's input; tensors or numpy arrays."""
        return output

    def action_values(self, summary: Any) -> Any:
        """Return action values, given the result of ``summarize``."""
        return summary

    # Life cycle.

    def initialize(
        self,
        env_spaces: EnvSpaces,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build model, target and distribution.

        Raises:
            TypeError: the action space is not Discrete.
        """
        A = discrete_size(env_spaces.action, type(self).__name__)
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)
        self._build_target()
        self.distribution = self.make_distribution(A)
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def _build_target(self) -> None:
        self.target_model = self._build_model().requires_grad_(False)
        initial = self.initial_model_state_dict or {}
        self.target_model.load_state_dict(initial.get("target", self.model.state_dict()))
        self._share_statistics()
        self.target_model.eval()
        for layer in noisy_layers(self.target_model):
            layer.train()

    def _share_statistics(self) -> None:
        """Let the target normalize observations by the statistics of the model."""
        model = unwrap_ddp(self.model)
        if hasattr(model, "obs_rms"):
            self.target_model.obs_rms = model.obs_rms

    def target_networks(self) -> list[Any]:
        """Return the target network, in a list."""
        return [self.target_model]

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move model and target to a CUDA device."""
        super().to_device(cuda_idx)
        self._share_statistics()
        self.target_model.to(self.device)

    # Values.

    def action_input(self, prev_action: Tensors) -> Any:
        """Return one-hot vectors, [..] -> [.., A]."""
        return self.distribution.to_onehot(prev_action)

    def _evaluate(
        self,
        model: torch.nn.Module,
        inputs: tuple[Any, ...],
        init_rnn_state: Tensors | None,
        *args: Any,
    ) -> Any:
        (values,), rnn_state = self._run(model, self._inputs(*inputs), init_rnn_state, *args)
        return (values, rnn_state) if self.recurrent else values

    def __call__(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Return action values for training data, with gradient.

        Args:
            observation: tree of [T, B, ...] or [B, ...].
            prev_action: [T, B] or [B] integers; null where an episode starts.
            prev_reward: [T, B] or [B].
            init_rnn_state: of recurrent agents, the state before the first row, leaves [N, B, H];
                ``None``: zeros.

        Returns:
            The model's output, Q [.., A], on the agent's device; from recurrent agents also the
            state after the last row.
        """
        inputs = (observation, prev_action, prev_reward)
        return self._evaluate(self.model, inputs, init_rnn_state)

    @torch.no_grad()
    def target(
        self,
        observation: Tensors,
        prev_action: Tensors,
        prev_reward: Tensor,
        init_rnn_state: Tensors | None = None,
    ) -> Any:
        """Evaluate the target network, with arguments and results of ``__call__``."""
        inputs = (observation, prev_action, prev_reward)
        return self._evaluate(self.target_model, inputs, init_rnn_state)

    @torch.no_grad()
    def value(self, observation: Tensors, prev_action: Tensors, prev_reward: Tensor) -> Tensor:
        """Return max_a Q(s, a) over valid actions [B], without advancing the recurrent state.

        Noisy layers use their mean weights.
        """
        set_row_noise(self._noisy, None)
        inputs = self._inputs(observation, prev_action, prev_reward)
        outputs, _ = self._run(self.model, inputs, self.prev_rnn_state)
        q = self.action_values(self.summarize(*outputs))
        return greatest(q, observation).to(self.acting_device)

    def recorded_value(self, agent_info: Any, observation: Tensors) -> Tensor:
        """Return max_a Q(s, a) over valid actions [*lead], of what was recorded while acting."""
        summary, *_ = agent_info
        return greatest(self.action_values(summary), observation)

    def update_target(self, tau: float = 1) -> None:
        """Move the target's parameters towards the model's: ``tau`` 1 copies them."""
        for target, model in self.targets:
            update_state_dict(target, model.state_dict(), tau)

    @property
    def targets(self) -> list[tuple[torch.nn.Module, torch.nn.Module]]:
        """Return the target network, with the network that it follows."""
        return [(self.target_model, self.model)]

    # Acting.

    def choose(self, outputs: tuple[Arrays, ...], sample: Sample) -> tuple[Any, Any]:
        """Choose actions [B] by their values; record the values."""
        values = self.summarize(*outputs)
        return sample(values), (values,)

    def _begin_step(self, B: int | None) -> None:
        """Set the noise and epsilons of B environments."""
        if self._noisy:
            self._perturb(B or 1)
        if B is not None and not self._takes_mode():
            self.fit_epsilon(B)

    @property
    def _noisy(self) -> list[Any]:
        """Return the model's noisy layers."""
        model = unwrap_ddp(self.model)
        if self._noisy_of[0] is not model:
            self._noisy_of = (model, noisy_layers(model))
        return self._noisy_of[1]

    def _perturb(self, B: int) -> None:
        """Set the noise of the noisy layers for one step of B environments."""
        seeds, self._noise_seeds = self._noise_seeds, None
        if self._mode == "eval":
            seeds = None
        elif seeds is None:
            seeds = torch.rand(B, dtype=torch.float32)
        set_row_noise(self._noisy, seeds)

    @property
    def noise_spec(self) -> Any:
        """Return the spec of two uniform numbers for epsilon-greedy, three with noisy layers."""
        return NoiseSpec("uniform", (3,)) if self._noisy else self.distribution.noise_spec

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Set the noise of the next ``step``, [B, *noise_spec.shape]."""
        if self._noisy and noise is not None:
            self._noise_seeds = noise[:, 2]
            noise = noise[:, :2]
        super().set_noise(noise)

    def fast_policy(self) -> FastPolicy | None:
        """Return a numpy function that acts as ``step`` does; ``None`` if there is none."""
        return None if self._noisy else super().fast_policy()

    def _numpy_draw(self) -> Callable[[Any, Any], Any]:
        draw, greedy = self.distribution.draw, self._takes_mode()
        group, rows = self.group, self.rows
        epsilons: dict[int, Any] = {}  # by number of environments

        def draw_with_epsilon(values: Any, noise: Any, *mask: Any) -> Any:
            n = len(noise)
            if n not in epsilons:
                epsilons[n] = np.float32(0) if greedy else self.epsilon_of(n, group, rows)
            return draw(values, noise, epsilons[n], *mask)

        return draw_with_epsilon

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters of ``model`` and ``target``."""
        model = dict(strip_ddp_state_dict(self.model.state_dict()))
        return {"model": model, "target": self.target_model.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict``.

        Raises:
            ValueError: the state has other networks than this agent.
        """
        if {"model", "target"} - state_dict.keys():
            raise ValueError(
                "the state must have the networks of this agent, ['model', 'target'], got "
                f"{sorted(state_dict)}."
            )
        self.target_model.load_state_dict(state_dict["target"])
        unwrap_ddp(self.model).load_state_dict(state_dict["model"])  # its statistics are the newest


def greatest(q: Tensor, observation: Tensors) -> Tensor:
    """Return the greatest of the values [*lead, A] of valid actions, [*lead]."""
    return valid_values(q, action_mask_of(observation)).amax(-1)
