"""The agent of deep Q-learning: epsilon-greedy on action values, with a target network."""

from typing import Any

import numpy as np
import torch

from rlpyt.agents.base import AgentStep, BaseAgent
from rlpyt.agents.dqn.epsilon_greedy import EpsilonGreedyAgentMixin
from rlpyt.agents.fast import FastPolicy, has_twin, numpy_forward
from rlpyt.distributions.base import NoiseSpec
from rlpyt.distributions.epsilon_greedy import EpsilonGreedy
from rlpyt.models.dqn.noisy import noisy_layers, set_row_noise
from rlpyt.models.utils import bare, keeps_statistics, strip_ddp_state_dict, update_state_dict
from rlpyt.utils.buffer import buffer_to
from rlpyt.utils.collections import namedarraytuple

AgentInfo = namedarraytuple("AgentInfo", ["q"])  # [*lead, A] float32


class DqnAgent(EpsilonGreedyAgentMixin, BaseAgent):
    """Acts on the values that the model gives each of the discrete actions.

    A model with noisy layers explores by them as well as by epsilon, and by them alone with
    ``eps_init=0, eps_final=0``: each environment draws noise of its own at every step. Evaluation
    takes the mean weights.

    Args:
        eps_init, eps_final, eps_final_min, eps_itr_min, eps_itr_max, eps_eval: of
            `EpsilonGreedyAgentMixin`.
        ModelCls, model_kwargs, initial_model_state_dict: of `BaseAgent`; the last may also be
            what ``state_dict`` gave.
        fast_acting: act through numpy where the model offers it (plain MLPs on the CPU): the
            same actions from the same noise, several times faster for small batches.

    Attributes:
        target_model: gives the targets of learning; equal to ``model`` at first. It is in
            evaluation mode (no dropout, no statistics of batches), but for its noisy layers, which
            have noise of their own in training.
    """

    family = "rlpyt.agents.dqn"
    gives = "action values"  # in training; an algorithm says what it learns from, by these words
    AgentInfo: Any = AgentInfo  # the record of what the actions were chosen by

    def __init__(self, *args: Any, fast_acting: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fast_acting = fast_acting
        self.target_model: Any = None
        self._noisy_of: tuple[Any, list[Any]] = (None, [])
        self._noise_seeds: torch.Tensor | None = None  # [B], of noisy layers

    # What subclasses change.

    def make_distribution(self, n_actions: int) -> Any:
        """How actions are chosen by what the model gives."""
        return EpsilonGreedy(dim=n_actions)

    def summarize(self, output: Any) -> Any:
        """What the distribution needs, from the model's output; tensors or numpy arrays."""
        return output

    def _run(self, model: Any, inputs: tuple[Any, ...]) -> Any:
        """The model's output for acting."""
        return model(*inputs)

    # Life cycle.

    def initialize(
        self,
        env_spaces: Any,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build model, target and distribution.

        Raises:
            TypeError: the actions are not discrete.
        """
        A = n_actions(env_spaces.action, type(self).__name__)
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)
        self._build_target()
        self.distribution = self.make_distribution(A)
        self._observation_only = getattr(self.model, "observation_only", False)
        if env_ranks is not None:
            self.make_vec_eps(global_B, env_ranks)

    def _load_initial_state(self, state_dict: dict[str, Any]) -> None:
        self.model.load_state_dict(state_dict.get("model", state_dict))

    def _build_target(self) -> None:
        self.target_model = self._build_model().requires_grad_(False)
        initial = self.initial_model_state_dict or {}
        self.target_model.load_state_dict(initial.get("target", self.model.state_dict()))
        self.target_model.eval()
        for layer in noisy_layers(self.target_model):
            layer.train()

    def target_networks(self) -> list[Any]:
        """The target."""
        return [self.target_model]

    def to_device(self, cuda_idx: int | None = None) -> None:
        """Move model and target to a CUDA device."""
        super().to_device(cuda_idx)
        self.target_model.to(self.device)

    # Values.

    def _inputs(self, observation: Any, prev_action: Any, prev_reward: Any) -> tuple[Any, ...]:
        if not self._observation_only:
            prev_action = self.distribution.to_onehot(prev_action)
        inputs = (observation, prev_action, prev_reward)
        return inputs if self.device.type == "cpu" else buffer_to(inputs, self.device)

    def __call__(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Action values for training data, with gradient.

        Args:
            observation: tree of [T, B, ...] or [B, ...].
            prev_action: [T, B] or [B] integers.
            prev_reward: [T, B] or [B].

        Returns:
            what the model gives: Q [.., A], on the agent's device.
        """
        return self.model(*self._inputs(observation, prev_action, prev_reward))

    @torch.no_grad()
    def target(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """As ``__call__``, from the target network."""
        return self.target_model(*self._inputs(observation, prev_action, prev_reward))

    def update_target(self, tau: float = 1) -> None:
        """Move the target's parameters towards the model's: ``tau`` 1 copies them."""
        update_state_dict(self.target_model, self.model.state_dict(), tau)

    # Acting.

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Choose actions [B], and record what they were chosen by."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        if self._noisy:
            self._perturb(len(prev_reward) if prev_reward.dim() else 1)
        values = self.summarize(self._run(self.model, inputs))
        action = self._choose(values, prev_reward)
        agent_info = self.AgentInfo(values)
        if self.device.type != "cpu":
            action, agent_info = buffer_to((action, agent_info), "cpu")
        return AgentStep(action, agent_info)

    def _choose(self, values: Any, prev_reward: Any) -> Any:
        if self._is_greedy():
            return self.distribution.mode(values)
        if prev_reward.dim():
            self.fit_epsilon(len(prev_reward))
        return self.distribution.sample(values)

    def _is_greedy(self) -> bool:
        return self.deterministic and self._mode == "eval"

    @property
    def _noisy(self) -> list[Any]:
        """The model's noisy layers."""
        model = bare(self.model)
        if self._noisy_of[0] is not model:
            self._noisy_of = (model, noisy_layers(model))
        return self._noisy_of[1]

    def _perturb(self, B: int) -> None:
        """Give the noisy layers their noise for one step of B environments."""
        seeds, self._noise_seeds = self._noise_seeds, None
        if self._mode == "eval":
            seeds = None
        elif seeds is None:
            seeds = torch.rand(B)
        set_row_noise(self._noisy, seeds)

    @property
    def noise_spec(self) -> Any:
        """Two uniform numbers for epsilon-greedy; one more where layers are noisy."""
        return NoiseSpec("uniform", (3,)) if self._noisy else self.distribution.noise_spec

    def set_noise(self, noise: torch.Tensor | None) -> None:
        """Give the randomness of the next ``step``, [B, *noise_spec.shape]."""
        if self._noisy and noise is not None:
            self._noise_seeds = noise[:, 2]
            noise = noise[:, :2]
        super().set_noise(noise)

    def fast_policy(self) -> FastPolicy | None:
        """Acting through numpy, where ``fast_acting`` is on and model and distribution offer it."""
        if not self.fast_acting or self.recurrent or self.device.type != "cpu" or self._noisy:
            return None
        ours = type(self).step is DqnAgent.step and type(self)._run is DqnAgent._run
        forward = numpy_forward(self.model) if ours and has_twin(self.distribution) else None
        if forward is None:
            return None
        sample, summarize = self.distribution.sample_numpy, self.summarize
        greedy, group, rows = self._is_greedy(), self.group, self.rows
        epsilons: dict[int, Any] = {}  # by number of environments

        def policy(observation: Any, noise: Any) -> tuple[Any, tuple[Any, ...], Any]:
            values = summarize(*forward(observation))
            n = len(noise)
            if n not in epsilons:
                epsilons[n] = np.float32(0) if greedy else self.epsilon_of(n, group, rows)
            return sample(values, noise, epsilons[n]), (), values

        return policy

    def update_obs_rms(self, observation: Any) -> None:
        """Let the model's observation statistics take in a batch; the target follows later."""
        model = bare(self.model)
        if hasattr(model, "update_obs_rms"):
            model.update_obs_rms(observation)

    @property
    def keeps_statistics(self) -> bool:
        """Whether ``update_obs_rms`` does anything."""
        return keeps_statistics(bare(self.model))

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Parameters of ``model`` and ``target``."""
        model = dict(strip_ddp_state_dict(self.model.state_dict()))
        return {"model": model, "target": self.target_model.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what ``state_dict`` gave."""
        bare(self.model).load_state_dict(state_dict["model"])
        self.target_model.load_state_dict(state_dict["target"])


def n_actions(action_space: Any, agent: str) -> int:
    """Number of actions of a discrete space.

    Raises:
        TypeError: the space is not discrete; the message says what fits.
    """
    n = getattr(action_space, "n", None)
    if n is None or getattr(action_space, "shape", ()) not in ((), None):
        raise TypeError(
            f"{agent} needs one discrete action, to have a value for each; got {action_space}. For "
            "continuous actions use sac, td3 or ddpg; for these or several at once, ppo or a2c."
        )
    return int(n)
