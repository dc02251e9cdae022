"""Parallelized Q-network (Gallici et al. 2024): Q(lambda) from new samples, without replay."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Optimizer, RAdam

from rlpyt.algos.diagnostics import only_valid
from rlpyt.algos.pg.epochs import EpochAlgo
from rlpyt.algos.returns import lambda_return
from rlpyt.utils.checks import Scheduled, fixed, rate, setting
from rlpyt.utils.collections import NamedArrayTuple, namedarraytuple
from rlpyt.utils.tensor import select_at_indexes, valid_mean

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm"])
PqnBatch = namedarraytuple(  # leaves [T, B, ...] or [N, ...]; ``valid`` is a mask or None
    "PqnBatch", ["agent_inputs", "action", "return_", "valid", "done", "init_rnn_state"]
)


@dataclass(eq=False)
class PQN(EpochAlgo):
    """Deep Q-learning from new samples of many environments, without replay and target network.

    Normalized layers (``layer_norm`` of the model) take the place of both. The targets are lambda
    returns of the greatest action values, as recorded while acting.
    """

    discount: float = fixed(0.99, ge=0, le=1, doc="gamma, per environment step")
    learning_rate: Scheduled[float] = rate(2.5e-4, doc="usually 1e-4 to 5e-4")
    q_lambda: float = setting(0.65, ge=0, le=1, doc="lambda of the returns; 0: one step; 0.65-0.95")
    OptimCls: type[Optimizer] = fixed(RAdam, doc="optimizer, a class of torch.optim")
    optim_kwargs: dict[str, Any] | None = fixed(None, doc="optimizer arguments")
    initial_optim_state_dict: Any = fixed(None, doc="initial state of the optimizer")
    clip_grad_norm: float | None = setting(10.0, gt=0, doc="largest gradient norm; None: no limit")
    minibatches: int = fixed(32, ge=1, doc="minibatches per epoch; whole environments if recurrent")
    epochs: int = setting(2, ge=1, doc="passes over each batch; 1-4")
    eps_steps: int | None = fixed(
        int(1e6), ge=1, doc="environment steps until epsilon is final; None: the agent decides"
    )
    reward_scale: float = setting(1.0, gt=0, finite=True, doc="factor on rewards in targets")
    bootstrap_timelimit: bool = setting(
        True, doc="bootstrap at time limits; False: they are ends, as in the paper's code"
    )
    mixed_precision: bool = setting(False, doc="forward passes of training in bfloat16")
    compile_loss: bool = fixed(False, doc='old name of compile="loss"')
    compile: Literal["loss"] | None = fixed(
        None, doc="part compiled by torch.compile, if there is a C++ compiler"
    )

    requires: ClassVar[str | None] = "action values"
    ready_agents: ClassVar[str] = "DqnMlpAgent or AtariDqnAgent"
    recorded_fields: ClassVar[tuple[str, ...]] = ("q",)
    opt_info_fields: ClassVar[tuple[str, ...]] = (*OptInfo._fields, *recorded_fields)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Build the optimizer and set the schedule of epsilon; see `EpochAlgo`."""
        super().initialize(*args, **kwargs)
        if self.eps_steps is not None:
            steps = self.batch_spec.size * self.world_size
            self.agent.set_epsilon_itr_min_max(0, self.eps_steps // steps)

    def make_batch(self, samples: NamedArrayTuple) -> Any:
        """Return all inputs of the loss, [T, B], on the agent's device."""
        env = samples.env
        batch = PqnBatch(
            agent_inputs=self.agent_inputs(samples),
            action=samples.agent.action,
            return_=self.targets_of(samples),
            valid=self.valid_steps(env),
            done=env.done,
            init_rnn_state=None,
        )
        return self.to_device(batch)

    def targets_of(self, samples: NamedArrayTuple) -> torch.Tensor:
        """Return the lambda returns [T, B] of the greatest recorded action values.

            G_t = r_t + gamma [(1 - lambda) max_a Q(s_{t+1}, a) + lambda G_{t+1}]

        without the second term after a termination, and with max_a Q of the true final observation
        in its place after a time limit; G_T = max_a Q(s_T, a).

        Args:
            samples: batch [T, B] of the sampler.
        """
        env, own = samples.env, samples.agent
        value = self.agent.recorded_value(own.agent_info, env.observation)
        next_value = torch.cat([value[1:], own.bootstrap_value.reshape(1, *value.shape[1:])])
        timeout_value = getattr(own, "timeout_value", None) if self.bootstrap_timelimit else None
        reward = env.reward * self.reward_scale
        arguments = (reward, env.done, next_value, self.discount, self.q_lambda, timeout_value)
        return torch.as_tensor(lambda_return(*arguments))

    def update(self, batch: NamedArrayTuple) -> tuple[torch.Tensor, ...]:
        """Take one gradient step on a minibatch; return loss and gradient norm."""
        device = self.agent.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.mixed_precision):
            loss = self.compiled(self.loss)(batch)
        return loss.detach(), self.gradient_step(loss)

    def loss(self, batch: NamedArrayTuple) -> torch.Tensor:
        """Return half the mean squared error of the values of the actions, E[(Q(s, a) - G)^2] / 2.

        Args:
            batch: ``PqnBatch``, leaves [N, ...], or [T, B, ...] for recurrent agents.
        """
        if self.agent.recurrent:
            values, _ = self.agent(*batch.agent_inputs, batch.init_rnn_state)
        else:
            values = self.agent(*batch.agent_inputs)
        q = select_at_indexes(batch.action, values.float())
        self.record(q=only_valid(q, batch.valid))
        return valid_mean(0.5 * (q - batch.return_) ** 2, batch.valid)
