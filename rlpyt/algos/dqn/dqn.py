"""Deep Q-learning (Mnih et al. 2015): double, n-step, prioritised; dueling by the agent's model."""

from collections import namedtuple
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from rlpyt.agents.exploration import annealed
from rlpyt.algos.dqn.losses import greedy_value, huber
from rlpyt.algos.off_policy import OffPolicyAlgo, thinned, with_fields
from rlpyt.errors import NonFiniteError
from rlpyt.replays.non_sequence.frame import (
    AsyncPrioritizedReplayFrameBuffer,
    AsyncUniformReplayFrameBuffer,
    PrioritizedReplayFrameBuffer,
    UniformReplayFrameBuffer,
)
from rlpyt.replays.non_sequence.prioritized import (
    AsyncPrioritizedReplayBuffer,
    PrioritizedReplayBuffer,
)
from rlpyt.replays.non_sequence.uniform import AsyncUniformReplayBuffer, UniformReplayBuffer
from rlpyt.utils.buffer import buffer_method
from rlpyt.utils.checks import check_range, whole_number
from rlpyt.utils.collections import namedarraytuple
from rlpyt.utils.tensor import select_at_indexes

OptInfo = namedtuple("OptInfo", ["loss", "gradNorm", "tdAbsErr"])
SamplesToBuffer = namedarraytuple("SamplesToBuffer", ["observation", "action", "reward", "done"])

PRIORITY_EPS = 1e-6  # so that nothing is out of reach for ever (Schaul et al. 2016, section 3.3)


@dataclass(eq=False)
class DQN(OffPolicyAlgo):
    """Q-learning from replay, towards a target network that follows at intervals."""

    discount: float = 0.99  # gamma, per environment step
    batch_size: int = 32  # transitions per update; 32-256
    min_steps_learn: int = int(5e4)  # environment steps before learning begins
    delta_clip: float | None = 1.0  # TD errors beyond it count linearly (Huber); None: squared
    replay_size: int = int(1e6)  # transitions kept
    replay_ratio: float = 8  # samples trained on per sample collected; Mnih et al.: 8
    target_update_tau: float = 1  # share of the model in the target at each update; 1 copies
    target_update_interval: int = 312  # updates between those of the target network
    n_step_return: int = 1  # rewards in a target before it bootstraps; Rainbow: 3
    learning_rate: float = 2.5e-4  # of the optimizer; 5e-5 to 1e-3
    OptimCls: type[torch.optim.Optimizer] = torch.optim.Adam  # of torch.optim: RMSprop, SGD, ...
    optim_kwargs: dict[str, Any] | None = None  # the optimizer's further arguments: {"eps": 1e-5}
    initial_optim_state_dict: Any = None  # state of the optimizer to start from
    clip_grad_norm: float | None = 10.0  # largest gradient norm, None: no limit
    eps_steps: int | None = int(1e6)  # environment steps until epsilon is final; None: the agent's
    double_dqn: bool = False  # the online network selects the target's action
    prioritized_replay: bool = False  # draw transitions by their TD error
    pri_alpha: float = 0.6  # how much priorities matter; 0 is uniform
    pri_beta_init: float = 0.4  # how much importance weights correct, at first
    pri_beta_final: float = 1.0  # and in the end
    pri_beta_steps: int | None = int(50e6)  # environment steps until then; None: the whole run
    default_priority: float | None = None  # of new samples; None: the greatest so far, at first 1
    ReplayBufferCls: Any = None  # to use in place of the one these settings ask for
    updates_per_sync: int = 1  # updates between hand-overs of parameters, in asynchronous runs
    save_replay: bool | None = None  # keep the replay in checkpoints; None: if below 200 MB
    mixed_precision: bool = False  # forward passes of training in bfloat16

    learns: ClassVar[str] = "action values"  # what the agent must give
    ready_agents: ClassVar[str] = "DqnMlpAgent or AtariDqnAgent"  # that give it
    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields

    def __post_init__(self) -> None:
        self._batch_size = self.batch_size = whole_number("batch_size", self.batch_size, 1)
        super().__post_init__()
        whole_number("target_update_interval", self.target_update_interval, 1)
        check_range("target_update_tau", self.target_update_tau, 0, 1, open_low=True)
        check_range("pri_alpha", self.pri_alpha, 0)
        check_range("pri_beta_init", self.pri_beta_init, 0, 1)
        check_range("pri_beta_final", self.pri_beta_final, 0, 1)
        for name in ("pri_beta_steps", "eps_steps"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        for name in ("delta_clip", "default_priority"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0, open_low=True)
        self.new_priority = float(self.default_priority or self.delta_clip or 1)

    # Life cycle.

    def initialize(
        self,
        agent: Any,
        n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
        rank: int = 0,
    ) -> None:
        """Build replay and optimizer; give the agent its schedule of epsilon.

        Raises:
            ValueError: agent, sampler or replay does not suit the algorithm, or it would never
                learn.
        """
        self.check_parts(agent, batch_spec, mid_batch_reset)
        self.plan(agent, n_itr, batch_spec, mid_batch_reset, world_size)
        self.initialize_replay_buffer(examples, batch_spec)
        self._check_replay_and_plan()
        self.optim_initialize(rank)

    def async_initialize(
        self,
        agent: Any,
        sampler_n_itr: int,
        batch_spec: Any,
        mid_batch_reset: bool,
        examples: Any,
        world_size: int = 1,
    ) -> Any:
        """For asynchronous runners: without optimizer; returns the replay, in shared memory."""
        self.check_parts(agent, batch_spec, mid_batch_reset)
        updates = self.updates_per_sync
        self.plan(agent, sampler_n_itr, batch_spec, mid_batch_reset, world_size, updates)
        self.initialize_replay_buffer(examples, batch_spec, async_=True)
        self._check_replay_and_plan()
        return self.replay_buffer

    def check_parts(self, agent: Any, batch_spec: Any, mid_batch_reset: bool) -> None:
        """Raise ValueError if the agent or the sampler's batches do not suit the algorithm."""
        self.check_agent(agent)
        if agent.recurrent:
            raise ValueError(
                f"{type(self).__name__} learns from single transitions, and "
                f"{type(agent).__name__} has a memory; use R2D1, or an agent without."
            )
        if not mid_batch_reset:
            raise ValueError(
                f"{type(self).__name__} learns from every step that is sampled; collectors that "
                "wait with resets until a batch ends record void ones. Use a CollectorCls with "
                "mid_batch_reset, such as CpuResetCollector."
            )

    def check_agent(self, agent: Any) -> None:
        """Raise ValueError if the agent gives something else than the algorithm learns.

        Of an agent that does not say what it gives, only a target network is asked.
        """
        gives = getattr(agent, "gives", None)
        if gives != self.learns and (gives is not None or not hasattr(agent, "target")):
            raise ValueError(
                f"{type(self).__name__} learns {self.learns}, and {type(agent).__name__} gives "
                f"{gives or 'no such thing'}; use {self.ready_agents}. (An agent of "
                "your own says by its class attribute `gives` what its model gives.)"
            )

    def _check_replay_and_plan(self) -> None:
        self.check_replay()
        self.plan_beginning()
        self._set_schedules()

    def _set_schedules(self) -> None:
        last_itr = self.n_itr - 1
        if self.pri_beta_steps is not None:
            last_itr = max(1, self.pri_beta_steps // self.itr_steps)
        self.pri_beta_itr = last_itr
        if self.eps_steps is not None:
            last = max(self.min_itr_learn, self.eps_steps // self.itr_steps)
            self.agent.set_epsilon_itr_min_max(self.min_itr_learn, last)

    def initialize_replay_buffer(
        self, examples: Any, batch_spec: Any, async_: bool = False
    ) -> None:
        """Allocate the replay: of frames if observations are stacks of them (uint8 [C, H, W])."""
        example = self.examples_to_buffer(examples)
        kwargs = dict(
            example=example,
            size=self.replay_size,
            B=batch_spec.B,
            discount=self.discount,
            n_step_return=self.n_step_return,
            **self.null_action(),
        )
        if self.prioritized_replay:
            kwargs.update(
                alpha=self.pri_alpha,
                beta=self.pri_beta_init,
                default_priority=self.new_priority,
            )
        cls = self.choose_replay(REPLAYS[self.prioritized_replay, async_], example)
        self.replay_buffer = cls(**kwargs)

    def examples_to_buffer(self, examples: Any) -> Any:
        """One step as the replay keeps it.

        Raises:
            ValueError: the replay needs to know of time limits, and the environment does not tell.
        """
        example = SamplesToBuffer(
            observation=examples["observation"],
            action=examples["action"],
            reward=examples["reward"],
            done=examples["done"],
        )
        if not self.needs_timeout():
            return example
        env_info = examples["env_info"]
        if not hasattr(env_info, "timeout"):
            raise ValueError(
                f"{self.ReplayBufferCls.__name__} needs `timeout` in env_info, true where a time "
                f"limit ended the episode; the environment gives {env_info._fields}."
            )
        return with_fields(example, timeout=env_info.timeout)

    def samples_to_buffer(self, samples: Any) -> Any:
        """A batch [T, B] as the replay takes it, with final observations if there are any."""
        to_buffer = SamplesToBuffer(
            observation=samples.env.observation,
            action=samples.agent.action,
            reward=samples.env.reward,
            done=samples.env.done,
        )
        if self.needs_timeout():
            to_buffer = with_fields(to_buffer, timeout=samples.env.env_info.timeout)
        return self.with_finals(to_buffer, samples)

    # Training.

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Store new samples, then train on batches from replay.

        Args:
            itr: iteration of the run, or of the optimizer where it runs asynchronously.
            samples: the sampler's batch; ``None``: it is in the replay already.
            sampler_itr: iteration of an asynchronous sampler.
        """
        progress = itr if sampler_itr is None else sampler_itr
        if samples is not None:
            self.store(samples)
        columns: tuple[list[Any], ...] = tuple([] for _ in self.opt_info_fields)
        if self.may_learn(progress, sampler_itr):
            self.update_itr_hyperparams(progress)
            for _ in range(self.updates_per_optimize):
                for column, values in zip(columns, self.update(itr)):
                    column.extend(values)
        return self._opt_info(columns)

    def _opt_info(self, columns: tuple[list[Any], ...]) -> Any:
        return OptInfo(*columns)

    def update(self, itr: int) -> tuple[Any, ...]:
        """Take one gradient step on a batch; returns values for each field of ``OptInfo``."""
        batch = self.replay_buffer.sample_batch(self.batch_size)
        loss, td_abs_errors = self.loss(batch)
        grad_norm = self._descend(loss, itr)
        self._prioritize(batch, td_abs_errors)
        return [loss.item()], [grad_norm.item()], thinned(td_abs_errors)

    def forward(self, network: Any, *inputs: Any) -> Any:
        """What ``self.agent`` or ``self.agent.target`` gives for these inputs.

        With ``mixed_precision`` the network runs in bfloat16, and all that is made of it is in
        float32 again.
        """
        if not self.mixed_precision:
            return network(*inputs)
        with torch.autocast(self.agent.device.type, torch.bfloat16):
            output = network(*inputs)
        return buffer_method(output, "float")

    def _descend(self, loss: torch.Tensor, itr: int) -> torch.Tensor:
        """Step, count, and let the target network follow when it is due."""
        try:
            grad_norm = self.gradient_step(loss)
        except NonFiniteError as error:
            raise self.stop_if_not_finite(itr, error) from None
        self.update_counter += 1
        if self.update_counter % self.target_update_interval == 0:
            self.agent.update_target(self.target_update_tau)
        return grad_norm

    def _prioritize(self, batch: Any, priorities: torch.Tensor) -> None:
        if not self.prioritized_replay:
            return
        priorities = priorities.cpu() + PRIORITY_EPS
        ticket = getattr(batch, "ticket", None)
        rows = () if ticket is None else (ticket,)
        self.replay_buffer.update_batch_priorities(priorities, *rows)
        greatest = priorities.max().item()
        if self.default_priority is None and greatest > self.new_priority:
            self._give_new_samples(greatest)

    def _give_new_samples(self, priority: float) -> None:
        """Let samples to come rank first, until they have been tried (Schaul et al. 2016)."""
        self.new_priority = priority
        if hasattr(self.replay_buffer, "set_default_priority"):
            self.replay_buffer.set_default_priority(priority)

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, counters, the priority of new samples, and the replay if it is to be kept."""
        return {**super().state_dict(), "new_priority": self.new_priority}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; without a replay in it, fill one before learning goes on."""
        super().load_state_dict(state)
        self._give_new_samples(state.get("new_priority", self.new_priority))

    def loss(self, samples: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Squared or Huber loss of the TD errors of a batch [B].

            d = R + g Q'(s', a*) - Q(s, a),    L = E[w huber(d)]

        with the best action a* by the target network, or by the online one ("double"), and
        importance weights w where replay is prioritised.

        Args:
            samples: from the replay.

        Returns:
            loss, a scalar; absolute TD errors [B], at most ``delta_clip``, without gradient.
        """
        samples = self.on_device(samples)
        q = select_at_indexes(samples.action, self.forward(self.agent, *samples.agent_inputs))
        with torch.no_grad():
            inputs = samples.target_inputs
            target_q = self.forward(self.agent.target, *inputs)
            selecting_q = self.forward(self.agent, *inputs) if self.double_dqn else None
            next_value = greedy_value(target_q, selecting_q)
            target = samples.return_ + self.bootstrap_discount(samples) * next_value
        delta = target - q
        loss = self.weighted_mean(huber(delta, self.delta_clip), samples)
        td_abs_errors = delta.detach().abs()
        if self.delta_clip is not None:
            td_abs_errors = td_abs_errors.clamp(max=self.delta_clip)
        return loss, td_abs_errors

    def weighted_mean(self, losses: torch.Tensor, samples: Any) -> torch.Tensor:
        """Mean of losses [B], weighted by importance where replay is prioritised."""
        if self.prioritized_replay:
            losses = losses * samples.is_weights
        return losses.mean()

    def update_itr_hyperparams(self, itr: int) -> None:
        """Set what changes with the iteration: beta of prioritised replay."""
        if self.prioritized_replay:
            ends = (self.pri_beta_init, self.pri_beta_final)
            self.replay_buffer.set_beta(annealed(itr, self.min_itr_learn, self.pri_beta_itr, *ends))


# (prioritised, in shared memory) -> (for stacks of frames, for anything else)
REPLAYS: dict[tuple[bool, bool], tuple[Any, Any]] = {
    (False, False): (UniformReplayFrameBuffer, UniformReplayBuffer),
    (True, False): (PrioritizedReplayFrameBuffer, PrioritizedReplayBuffer),
    (False, True): (AsyncUniformReplayFrameBuffer, AsyncUniformReplayBuffer),
    (True, True): (AsyncPrioritizedReplayFrameBuffer, AsyncPrioritizedReplayBuffer),
}
