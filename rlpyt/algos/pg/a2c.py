"""Advantage actor-critic, synchronous (Mnih et al. 2016, without the asynchrony)."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Adam, Optimizer

from rlpyt.algos.pg.base import OptInfo, PolicyGradientAlgo  # noqa: F401 (rlpyt's place for it)
from rlpyt.algos.pg.losses import policy_gradient_loss, value_loss
from rlpyt.utils.checks import Scheduled, fixed, rate, scheduled, setting
from rlpyt.utils.collections import NamedArrayTuple
from rlpyt.utils.tensor import valid_mean


@dataclass(eq=False)
class A2C(PolicyGradientAlgo):
    """Advantage actor-critic: one gradient step per batch of samples."""

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: Scheduled[float] = rate(0.001, doc="usually 1e-4 to 1e-2")
    value_loss_coeff: float = setting(0.5, ge=0, finite=True, doc="weight of the value loss")
    entropy_loss_coeff: Scheduled[float] = scheduled(
        0.01, finite=True, doc="weight of the entropy; 0 to 0.05"
    )
    OptimCls: type[Optimizer] = fixed(Adam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc='optimizer arguments: {"eps": 1e-5}')
    clip_grad_norm: float | None = setting(1.0, gt=0, doc="largest gradient norm; None: no limit")
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    gae_lambda: float = setting(1, ge=0, le=1, doc="lambda of GAE, 0.9-1; 1: discounted returns")
    normalize_advantage: bool = setting(False, doc="normalize advantages in each batch")
    normalize_reward: bool = fixed(
        False, doc="divide rewards by the running standard deviation of discounted returns"
    )

    def loss(self, samples: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the sum of policy gradient, value and entropy losses of a batch [T, B].

            L = - E[log pi(a|s) A] + c_v E[(V(s) - R)^2] / 2 - c_e E[H(pi(.|s))]

        Returns:
            Loss, mean entropy and mean perplexity, scalars.
        """
        batch = self.make_batch(samples)
        if self.agent.recurrent:
            batch, state = self.cut_into_episodes(batch, self.initial_rnn_state(samples))
            batch = batch._replace(init_rnn_state=state)
        return self.compiled(self.batch_loss)(batch)  # type: ignore[no-any-return]

    def batch_loss(self, batch: NamedArrayTuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return ``loss`` of a batch with returns and advantages, a ``PgBatch``."""
        state = (batch.init_rnn_state,) if self.agent.recurrent else ()
        dist_info, value, *_ = self.agent(*batch.agent_inputs, *state)
        dist, valid = self.agent.distribution, batch.valid
        log_likelihood = dist.log_likelihood(batch.action, dist_info)
        pi_loss = policy_gradient_loss(log_likelihood, batch.advantage, valid)
        v_loss = value_loss(value, batch.return_, valid)
        self.record(piLoss=pi_loss, vLoss=v_loss)
        entropy = dist.entropy(dist_info)
        perplexity = valid_mean(entropy.detach().exp(), valid)
        entropy = valid_mean(entropy, valid)
        loss = pi_loss + self.value_loss_coeff * v_loss - self.entropy_loss_coeff * entropy
        return loss, entropy, perplexity
