"""One policy-gradient agent for any action distribution, with or without recurrent memory."""

from typing import Any

import torch

from rlpyt.agents.base import AgentStep, BaseAgent, RecurrentAgentMixin
from rlpyt.agents.fast import FastPolicy, has_twin, numpy_forward
from rlpyt.agents.pg.base import AgentInfo, AgentInfoRnn
from rlpyt.models.utils import bare
from rlpyt.utils.buffer import buffer_func, buffer_method, buffer_to


class PgAgent(BaseAgent):
    """Actor-critic agent: the model returns the distribution's parameters, then the value.

    Subclasses say which distribution belongs to an action space (``make_distribution``), which
    record holds its parameters (``DistInfo``) and how the previous action enters the model
    (``action_input``). A recurrent model takes ``init_rnn_state`` last and returns its next
    state last.

    Args:
        fast_acting: act through numpy where the model offers it (plain MLPs on the CPU): the
            same actions from the same noise, several times faster for small batches.
    """

    DistInfo: Any = None

    def __init__(self, *args: Any, fast_acting: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fast_acting = fast_acting

    def make_distribution(self, action_space: Any) -> Any:
        """The action distribution for this space."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_distribution.")

    def make_dist_info(self, *parameters: Any) -> Any:
        """The record of the distribution's parameters, from what the model returned."""
        return self.DistInfo(*parameters)

    make_dist_info.speaks_numpy = True  # type: ignore[attr-defined]

    def action_input(self, prev_action: torch.Tensor) -> torch.Tensor:
        """The previous action as the model reads it."""
        return prev_action

    def initialize(
        self,
        env_spaces: Any,
        share_memory: bool = False,
        global_B: int = 1,
        env_ranks: Any = None,
        **kwargs: Any,
    ) -> None:
        """Build model and distribution."""
        super().initialize(env_spaces, share_memory, global_B=global_B, env_ranks=env_ranks)
        self.distribution = self.make_distribution(env_spaces.action)
        self._observation_only = getattr(self.model, "observation_only", False)

    def _inputs(self, observation: Any, prev_action: Any, prev_reward: Any) -> tuple[Any, ...]:
        if not self._observation_only:
            prev_action = self.action_input(prev_action)
        inputs = (observation, prev_action, prev_reward)
        return inputs if self.device.type == "cpu" else buffer_to(inputs, self.device)

    def _rnn_state(self) -> Any:
        """The recurrent state, on the model's device (one restored from a checkpoint is not)."""
        return buffer_to(self.prev_rnn_state, self.device)  # type: ignore[attr-defined]

    def __call__(
        self, observation: Any, prev_action: Any, prev_reward: Any, init_rnn_state: Any = None
    ) -> tuple[Any, ...]:
        """Distribution and value for training data.

        Args:
            observation: tree of [T, B, ...] or [B, ...].
            prev_action: [T, B, ...]; null where an episode starts.
            prev_reward: [T, B].
            init_rnn_state: leaves [N, B, H], of recurrent agents.

        Returns:
            dist_info, value [T, B], and for recurrent agents the next recurrent state.
        """
        inputs = self._inputs(observation, prev_action, prev_reward)
        if not self.recurrent:
            *parameters, value = self.model(*inputs)
            return self.make_dist_info(*parameters), value
        init_rnn_state = buffer_to(init_rnn_state, self.device)
        *parameters, value, rnn_state = self.model(*inputs, init_rnn_state)
        return self.make_dist_info(*parameters), value, rnn_state

    @torch.no_grad()
    def step(self, observation: Any, prev_action: Any, prev_reward: Any) -> Any:
        """Sample actions [B, ...]; record distribution, value and (recurrent) the state before."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        if not self.recurrent:
            *parameters, value = self.model(*inputs)
            dist_info = self.make_dist_info(*parameters)
            agent_info = AgentInfo(dist_info, value)
        else:
            before = self._rnn_state()
            *parameters, value, rnn_state = self.model(*inputs, before)
            dist_info = self.make_dist_info(*parameters)
            if before is None:
                before = buffer_func(rnn_state, torch.zeros_like)
            self.advance_rnn_state(rnn_state)  # type: ignore[attr-defined]
            # [N, B, H] -> [B, N, H], to be recorded row by row
            before = buffer_method(before, "transpose", 0, 1) if value.dim() else before
            agent_info = AgentInfoRnn(dist_info, value, before)
        likeliest = self.deterministic and self._mode == "eval"
        choose = self.distribution.mode if likeliest else self.distribution.sample
        action = choose(dist_info)
        if self.device.type != "cpu":
            action, agent_info = buffer_to((action, agent_info), "cpu")
        return AgentStep(action, agent_info)

    @torch.no_grad()
    def value(self, observation: Any, prev_action: Any, prev_reward: Any) -> torch.Tensor:
        """V of these observations [B], without moving the recurrent state."""
        inputs = self._inputs(observation, prev_action, prev_reward)
        if self.recurrent:
            value = self.model(*inputs, self._rnn_state())[-2]
        else:
            value = self.model(*inputs)[-1]
        return torch.as_tensor(value.to("cpu"))

    def fast_policy(self) -> FastPolicy | None:
        """Acting through numpy, where ``fast_acting`` is on and model and distribution offer it."""
        if not self.fast_acting or self.recurrent or self.device.type != "cpu":
            return None
        if self.deterministic and self._mode == "eval":
            return None
        ours = type(self).step is PgAgent.step and _speaks_numpy(type(self).make_dist_info)
        forward = numpy_forward(self.model) if ours and has_twin(self.distribution) else None
        if forward is None:
            return None
        sample = self.distribution.sample_numpy
        make_dist_info = self.make_dist_info

        def policy(observation: Any, noise: Any) -> tuple[Any, tuple[Any, ...], Any]:
            *parameters, value = forward(observation)
            dist_info = make_dist_info(*parameters)
            return sample(dist_info, noise), tuple(dist_info), value

        return policy

    def update_obs_rms(self, observation: Any) -> None:
        """Let the model's observation statistics take in a batch, if it keeps any."""
        model = bare(self.model)
        if hasattr(model, "update_obs_rms"):
            model.update_obs_rms(observation)


def _speaks_numpy(make_dist_info: Any) -> bool:
    """Whether a subclass's way to make the record works on numpy arrays too; ours say so."""
    return getattr(make_dist_info, "speaks_numpy", False)


class RecurrentPgAgent(RecurrentAgentMixin, PgAgent):
    """``PgAgent`` with recurrent memory."""


def one_hot_size(action_space: Any) -> int:
    """Number of actions of a discrete space.

    Raises:
        TypeError: the space is not discrete; the message says what fits.
    """
    n = getattr(action_space, "n", None)
    if n is None or getattr(action_space, "shape", ()) not in ((), None):
        raise TypeError(
            f"a categorical agent needs a Discrete action space, got {action_space}; for "
            "continuous actions use a Gaussian agent, for several discrete ones "
            "MultiCategoricalMlpAgent."
        )
    return int(n)
