"""Base class of policy-gradient algorithms: returns, advantages and agent inputs."""

from collections import namedtuple
from typing import Any, ClassVar

import numpy as np
import torch

from rlpyt.agents.base import AgentInputs, BaseAgent
from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.episodes import (
    EpisodePacking,
    check_window,
    null_action_of,
    null_after_done,
)
from rlpyt.algos.pg.losses import explained_variance, normalize
from rlpyt.algos.pg.lr_scheduler import SchedulerAttribute
from rlpyt.algos.returns import (
    discount_return,
    generalized_advantage_estimation,
)
from rlpyt.algos.reward_normalizer import RewardNormalizer
from rlpyt.envs.base import BatchSpec
from rlpyt.utils.buffer import Tensors, buffer_method, buffer_to
from rlpyt.utils.checks import declared
from rlpyt.utils.collections import AttrDict, NamedArrayTuple, namedarraytuple
from rlpyt.utils.schedules import Decay

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "entropy", "perplexity"])
AgentTrain = namedtuple("AgentTrain", ["dist_info", "value"])

# Inputs of the loss on the agent's device, leaves [T, B, ...]. ``valid`` is a mask or None;
# ``init_rnn_state`` [N, B, H] that of recurrent agents; ``old_value`` is needed by ``value_clip``.
PgBatch = namedarraytuple(
    "PgBatch",
    [
        *("agent_inputs", "action", "return_", "advantage", "valid", "old_dist_info", "done"),
        *("init_rnn_state", "old_value"),
    ],
)


class PolicyGradientAlgo(RlAlgorithm):
    """Base class of A2C, PPO and V-trace."""

    bootstrap_value = True
    heeds_void = True
    requires: ClassVar[str | None] = None  # ``provides`` of its agents; ``None``: of actor-critics
    ready_agents: ClassVar[str] = (
        "an agent such as CategoricalMlpAgent (rlpyt.agents.pg.vector.agent_for chooses one)"
    )
    recorded_fields: ClassVar[tuple[str, ...]] = ("piLoss", "vLoss", "explainedVariance")
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)

    # Hyperparameters that every subclass declares.
    discount: float
    gae_lambda: float
    normalize_advantage: Any

    linear_lr_schedule = False  # True if ``linear_settings`` decay linearly to 0
    linear_settings: ClassVar[tuple[str, ...]] = ("learning_rate",)
    lr_scheduler: ClassVar[Any] = SchedulerAttribute()

    def initialize(
        self,
        agent: BaseAgent,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool = False,
        examples: AttrDict | None = None,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Build the optimizer.

        Raises:
            TypeError, ValueError: see ``prepare``; the agent returns more than one value per state,
                and returns are not computed by an override.
        """
        agent_info = None if examples is None else examples.get("agent_info")
        value = getattr(agent_info, "value", 0)
        if np.shape(value) != () and not self._reads_values_itself():
            raise ValueError(
                "the agent's value must be one number per environment, shape [B], got "
                f"{['B', *np.shape(value)]}. Squeeze the last dimension of the model's value head."
            )
        self.prepare(agent, n_itr, batch_spec, mid_batch_reset, world_size)
        self.optim_initialize(rank)

    def _reads_values_itself(self) -> bool:
        """Return True if returns are computed by a user's override, of any values."""
        methods = type(self).optimize_agent, type(self).process_returns
        return not all(method.__module__.startswith("rlpyt.") for method in methods)

    def prepare(
        self,
        agent: BaseAgent,
        n_itr: int,
        batch_spec: BatchSpec,
        mid_batch_reset: bool,
        world_size: int,
    ) -> None:
        """Initialize everything except the optimizer.

        Raises:
            TypeError: the agent has no method ``value``, or provides other outputs.
            ValueError: the agent's window of attention is longer than a batch.
        """
        if agent.provides != self.requires or not callable(getattr(agent, "value", None)):
            raise TypeError(
                f"agent must provide {self.requires or 'a policy'} and have a method "
                f"value(observation, prev_action, prev_reward) for {type(self).__name__}, got "
                f"{type(agent).__name__}. Use {self.ready_agents}, or another algorithm."
            )
        check_window(agent, batch_spec.T, "batch_T")
        self.agent = agent
        self.n_itr = n_itr
        self.batch_spec = batch_spec
        self.mid_batch_reset = mid_batch_reset
        self.world_size = world_size
        self._batch_size = batch_spec.size
        self._follow_linear_schedules()

    def _follow_linear_schedules(self) -> None:
        # Copies of rlpyt's algorithms (2019) declare no settings and have schedules of their own.
        known = [name for name in self.linear_settings if name in declared(type(self))]
        for name in known if self.linear_lr_schedule else ():
            if name not in self.schedules:
                self.follow_schedule(name, Decay("linear", getattr(self, name)))

    def adopt_optimizer(self) -> None:
        """Build ``gradient_step``, and follow the schedules as rlpyt of 2019 did."""
        super().adopt_optimizer()
        self._follow_linear_schedules()

    def optim_initialize(self, rank: int = 0) -> None:
        """Build the optimizer and, if rewards are normalized, their statistics."""
        super().optim_initialize(rank)
        if self.normalize_reward:
            self.reward_normalizer = RewardNormalizer(
                self.batch_spec.B, self.discount, self.agent.device
            )

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Take one gradient step on the samples.

        Args:
            itr: iteration of the run, or of the optimizer in an asynchronous run.
            samples: batch [T, B] of the sampler.
            sampler_itr: iteration of an asynchronous sampler.
        """
        self.apply_schedule(itr if sampler_itr is None else sampler_itr)
        inputs = self.with_normalized_rewards(samples)
        with self.explained(inputs):
            statistics = self.update(inputs)
        self.update_counter += 1
        self.update_obs_rms(samples)
        return self.make_opt_info([x] for x in torch.stack(statistics).tolist())

    def update(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, ...]:
        """Take one gradient step on a batch [T, B]; return a scalar for each statistic."""
        loss, *others = self.loss(samples)
        grad_norm = self.gradient_step(loss)
        return loss.detach(), grad_norm, *(x.detach() for x in others)

    def loss(self, samples: NamedArrayTuple) -> Any:
        """Return the loss of a batch [T, B] and further statistics, all scalars."""
        raise NotImplementedError(f"{type(self).__name__} must implement loss or optimize_agent.")

    def with_normalized_rewards(self, samples: NamedArrayTuple) -> Any:
        """Return a batch [T, B] with normalized rewards, if ``normalize_reward`` is set.

        Returns and values are then in the same units, also those recorded for bootstrapping.
        ``prev_reward``, which recurrent agents read while acting, is unchanged. To be called once
        for every batch, before it is trained on.
        """
        if self.reward_normalizer is None:
            return samples
        env = samples.env
        valid = self.valid_steps(env)
        reward = self.reward_normalizer(env.reward, env.done, valid)
        return samples._replace(env=env._replace(reward=reward))

    def process_returns(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, Any]:
        """Compute returns, advantages and the mask of valid samples.

        An episode truncated by a time limit is bootstrapped from the value of its true final
        observation, recorded by the collector (``timeout_value``).

        Args:
            samples: batch [T, B] of the sampler.

        Returns:
            Return [T, B], advantage [T, B] and mask [T, B], float32. The mask is ``None`` if all
            samples are valid.
        """
        env, agent = samples.env, samples.agent
        value = agent.agent_info.value
        done = env.done
        timeout_value = getattr(agent, "timeout_value", None)
        if self.gae_lambda == 1:
            return_ = discount_return(
                env.reward, done, agent.bootstrap_value, self.discount, timeout_value=timeout_value
            )
            advantage = return_ - value
        else:
            advantage, return_ = generalized_advantage_estimation(
                env.reward,
                value,
                done,
                agent.bootstrap_value,
                self.discount,
                self.gae_lambda,
                timeout_value=timeout_value,
            )
        valid = self.valid_steps(env)
        if self.normalize_advantage is True:
            advantage = normalize(advantage, valid)
        return return_, advantage, valid

    def make_batch(self, samples: NamedArrayTuple) -> Any:
        """Return all inputs of the loss, [T, B], on the agent's device."""
        return_, advantage, valid = self.process_returns(samples)
        value = samples.agent.agent_info.value
        self.record(explainedVariance=explained_variance(value, return_, valid))
        batch = PgBatch(
            agent_inputs=self.agent_inputs(samples),
            action=samples.agent.action,
            return_=return_,
            advantage=advantage,
            valid=valid,
            old_dist_info=samples.agent.agent_info.dist_info,
            done=samples.env.done,
            init_rnn_state=None,
            old_value=None,
        )
        return self.to_device(batch)

    def agent_inputs(self, samples: NamedArrayTuple) -> Any:
        """Return the agent's inputs [T, B], with null actions and rewards after a done."""
        env, prev_action = samples.env, samples.agent.prev_action
        prev_reward = env.prev_reward
        if not self.agent.observation_only:
            prev_action = null_after_done(prev_action, env.done, null_action_of(self.agent))
            prev_reward = null_after_done(prev_reward, env.done)
        return AgentInputs(env.observation, prev_action, prev_reward)

    def initial_rnn_state(self, samples: NamedArrayTuple) -> Any:
        """Return the recurrent state before the first row [N, B, H], or ``None``."""
        if not self.agent.recurrent:
            return None
        first = samples.agent.agent_info.prev_rnn_state[0]  # [B, N, H]
        state = buffer_method(buffer_method(first, "transpose", 0, 1), "contiguous")
        return buffer_to(state, self.agent.device)

    def cut_into_episodes(
        self, batch: NamedArrayTuple, init_rnn_state: Tensors | None
    ) -> tuple[Any, Any]:
        """Cut a recurrent agent's batch into episodes; see ``algos.episodes``."""
        if not self.mid_batch_reset or not batch.done[:-1].any():
            return batch, init_rnn_state
        packing = EpisodePacking(batch.done, takes_starts=self.agent.takes_starts)
        if packing.trivial:
            return batch, packing.pack_state(init_rnn_state)
        packed = packing.pack(batch)
        valid = packing.valid.float() if packed.valid is None else packing.valid * packed.valid
        packed = packed._replace(valid=valid)
        return packed, packing.pack_state(init_rnn_state)
