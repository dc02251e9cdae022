"""Evolution strategies as algorithms: samplers evaluate candidates, one per environment."""

import warnings
from collections import namedtuple
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlpyt.algos.base import RlAlgorithm
from rlpyt.algos.returns import valid_from_done
from rlpyt.es.base import Array, BaseES
from rlpyt.es.cem import CEM
from rlpyt.es.cmaes import CMAES
from rlpyt.es.openai_es import OpenAIES
from rlpyt.utils.buffer import buffer_func
from rlpyt.utils.checks import Scheduled, check_settings, fixed, scheduled, setting
from rlpyt.utils.seed import env_seed, get_seed, make_seed

# candidateReturn: mean return of each candidate over its episodes. searchStd: mean standard
# deviation of the search distribution. generationSteps: environment steps taken in a batch, of the
# T * B recorded ones.
OptInfo = namedtuple("OptInfo", ["candidateReturn", "searchStd", "generationSteps"])


@dataclass(eq=False)
class EvolutionAlgo(RlAlgorithm):
    """Base of algorithms that search the parameters of an `EsAgent` for the highest return.

    A batch [T, B] contains one complete episode of each environment (`PopulationCollector`), so T
    is the maximum length of an episode. A generation of ``popsize`` candidates with ``episodes``
    each takes popsize * episodes / B batches, usually one. Returns are undiscounted.

    Attributes:
        steps_taken: environment steps of all episodes so far. The budget of runners counts T * B
            per batch instead, including idle steps of environments whose episode is over.

    Raises:
        TypeError, ValueError: a setting has the wrong type or is out of range.
    """

    sigma0: float = fixed(0.5, gt=0, doc="initial std of parameters; 0.05 to 1")
    popsize: int | None = fixed(None, ge=2, doc="candidates per generation; None: one batch")
    episodes: int = fixed(1, ge=1, doc="episodes per candidate; more for noisy returns")
    common_random_numbers: bool = setting(True, doc="same episode starts for all candidates")

    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields
    discount = 1.0

    def __post_init__(self) -> None:
        check_settings(self, self.schedules)
        self.make_strategy(np.zeros(2), 4, 0)  # raises for invalid settings of the strategy

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """Build the strategy from the settings of this algorithm."""
        raise NotImplementedError(f"{type(self).__name__} must implement make_strategy.")

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
        """Start the search at the parameters of the agent's policy, and assign candidates.

        Raises:
            ValueError: the batch size, the collector or the number of processes is invalid.
            TypeError: the agent has no population.
        """
        if not hasattr(agent, "population"):
            raise TypeError(f"{type(self).__name__} needs an EsAgent, got {type(agent).__name__}.")
        if mid_batch_reset:
            raise ValueError(
                "A batch must contain one complete episode of each environment. Give the sampler "
                "CollectorCls=PopulationCollector (rlpyt.es.collector)."
            )
        if world_size > 1:
            raise ValueError(
                f"world_size must be 1, got {world_size}: the search runs in one process. Evaluate "
                "more candidates in parallel with more workers or Ray actors (n_workers, "
                "RaySampler)."
            )
        self.agent, self._B, self.n_itr = agent, batch_spec.B, n_itr
        popsize = self.checked_popsize(batch_spec.B)
        seed = get_seed()
        seed = make_seed() if seed is None else seed
        x0 = agent.population.favorite().double().numpy()
        try:
            self.strategy = self.make_strategy(x0, popsize, env_seed(seed, 0, "evolution"))
        except ValueError as error:
            if self.popsize is not None:
                raise
            derived = f"popsize is batch_B={batch_spec.B} / episodes={self.episodes}"
            raise ValueError(f"{error} ({derived}: choose another batch_B.)") from None
        self._episode_rng = np.random.default_rng(env_seed(seed, 0, "evolution episodes"))
        self._batch_size = 0  # nothing is replayed
        self.steps_taken, self._has_cut = 0, False
        self._start_generation()
        self._started = True

    def checked_popsize(self, B: int) -> int:
        """Return the number of candidates per generation, given B environments.

        Raises:
            ValueError: the episodes of a generation do not fill complete batches.
        """
        if self.popsize is None:
            if B % self.episodes:
                nearest = -(-B // self.episodes) * self.episodes
                raise ValueError(
                    f"batch_B must be a multiple of episodes={self.episodes}, the number of "
                    f"environments per candidate, got {B}. Try batch_B={nearest}."
                )
            return B // self.episodes
        if self.popsize * self.episodes % B:
            raise ValueError(
                f"popsize={self.popsize} with episodes={self.episodes} makes "
                f"{self.popsize * self.episodes} episodes, which do not fill complete batches of "
                f"batch_B={B}. Try batch_B={self.popsize}."
            )
        return self.popsize

    def _start_generation(self) -> None:
        n_episodes = self.strategy.popsize * self.episodes
        self._solutions = self.strategy.ask()
        self._returns = np.zeros(n_episodes)  # candidate by candidate, episode by episode
        self._seeds: NDArray[np.int64] = np.full(n_episodes, -1, np.int64)
        if self.common_random_numbers:
            seeds = self._episode_rng.integers(2**31, size=self.episodes)
            self._seeds = np.tile(seeds, self.strategy.popsize)
        self._n_done = 0
        self._assign_candidates()

    def _assign_candidates(self) -> None:
        """Assign candidates and seeds to the environments of the next batch."""
        batch = slice(self._n_done, self._n_done + self._B)
        candidates = np.arange(len(self._returns))[batch] // self.episodes
        population = self.agent.population
        population.rows.numpy()[:] = self._solutions[candidates]
        self.agent.settings["seeds"][:] = self._seeds[batch]
        population.set_favorite(self.strategy.mean)

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Record the returns of a batch; update the strategy if it completes a generation.

        Raises:
            ValueError: a return is NaN.
        """
        self.apply_schedule(itr)
        done = samples.env.done
        valid = valid_from_done(done)
        if not self._has_cut and bool((valid[-1] > done[-1]).any()):
            self._has_cut = True
            warnings.warn(
                f"episodes end after sampler.batch_T={len(done)} steps, and some were not over. "
                "Set it to their longest, unless the first steps are all that counts."
            )
        returns = (samples.env.reward * valid).sum(0).double().numpy()
        self._returns[self._n_done : self._n_done + self._B] = returns
        self._n_done += self._B
        if hasattr(self.agent, "update_obs_rms"):
            observation = samples.env.observation
            self.agent.update_obs_rms(buffer_func(observation, lambda leaf: leaf[valid > 0]))
        candidate_return: list[float] = []
        if self._n_done == len(self._returns):
            means = self._returns.reshape(-1, self.episodes).mean(1)
            candidate_return = means.tolist()
            self.strategy.tell(self._solutions, -means)
            self.update_counter += 1
            self._start_generation()
        else:
            self._assign_candidates()
        std = float(self.strategy.stds.mean())
        steps = int(valid.sum())
        self.steps_taken += steps
        return OptInfo(candidate_return, [std], [steps])

    def statistics(self) -> dict[str, float]:
        """Return the environment steps actually taken, as opposed to those of the budget."""
        return super().statistics() | {"CumStepsTaken": self.steps_taken}

    def optim_state_dict(self) -> dict[str, Any]:
        """Return an empty dictionary: the strategy's state, often large, is only in checkpoints."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the strategy and of the current generation."""
        return {
            "strategy": self.strategy.state_dict(),
            "episode_rng": self._episode_rng.bit_generator.state,
            "solutions": self._solutions.copy(),
            "returns": self._returns.copy(),
            "seeds": self._seeds.copy(),
            "n_done": self._n_done,
            "update_counter": self.update_counter,
            "steps_taken": self.steps_taken,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a saved state, possibly from the middle of a generation.

        Raises:
            ValueError: the state has another generation size or belongs to another strategy.
        """
        saved = len(state["solutions"]), len(state["returns"]) // len(state["solutions"])
        if saved != (self.strategy.popsize, self.episodes):
            raise ValueError(
                f"The saved state must have popsize={self.strategy.popsize} and "
                f"episodes={self.episodes}, got popsize={saved[0]} and episodes={saved[1]}. If "
                "popsize is None, it is batch_B / episodes."
            )
        self.strategy.load_state_dict(state["strategy"])
        self._episode_rng.bit_generator.state = state["episode_rng"]
        self._solutions, self._returns = state["solutions"].copy(), state["returns"].copy()
        self._seeds, self._n_done = state["seeds"].copy(), state["n_done"]
        self.update_counter = state["update_counter"]
        self.steps_taken = state["steps_taken"]
        self._assign_candidates()


@dataclass(eq=False)
class CmaesAlgo(EvolutionAlgo):
    """CMA-ES: `rlpyt.es.CMAES`."""

    diagonal: bool = fixed(False, doc="diagonal covariance; for more than 300 parameters")

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """Build the strategy; see `EvolutionAlgo`."""
        return CMAES(x0, self.sigma0, popsize=popsize, seed=seed, diagonal=self.diagonal)


@dataclass(eq=False)
class CemAlgo(EvolutionAlgo):
    """The cross-entropy method: `rlpyt.es.CEM`."""

    elite_frac: float = fixed(0.2, gt=0, le=1, doc="fraction of candidates to fit; 0.1 to 0.5")
    extra_std: float = fixed(0.25, ge=0, finite=True, doc="initial added noise, in sigma0")
    extra_itrs: int = fixed(50, ge=1, doc="generations until the added noise is zero")

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """Build the strategy; see `EvolutionAlgo`."""
        settings: dict[str, Any] = {
            "elite_frac": self.elite_frac,
            "extra_std": self.extra_std,
            "extra_itrs": self.extra_itrs,
        }
        return CEM(x0, self.sigma0, popsize=popsize, seed=seed, **settings)


@dataclass(eq=False)
class OpenaiEsAlgo(EvolutionAlgo):
    """The strategy of Salimans et al. 2017: `rlpyt.es.OpenAIES`."""

    sigma0: float = fixed(0.1, gt=0, doc="std of parameters; 0.02 to 0.2")
    learning_rate: Scheduled[float] = scheduled(
        0.02, gt=0, finite=True, doc="Adam step size; 0.005 to 0.1"
    )
    weight_decay: float = fixed(0.0, ge=0, finite=True, doc="weight decay; 0 to 0.01")
    learning_rate_decay: float = fixed(1.0, gt=0, le=1, doc="factor per generation")
    sigma_decay: float = fixed(1.0, gt=0, le=1, doc="factor per generation")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning_rate_decay < 1 and "learning_rate" in self.schedules:
            raise ValueError(
                f"learning_rate_decay={self.learning_rate_decay} must be 1 if learning_rate follows"
                " a schedule. Set one of them."
            )

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Start the search; see `EvolutionAlgo`."""
        super().initialize(*args, **kwargs)
        self.follow("learning_rate", partial(setattr, self.strategy, "learning_rate"))

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """Build the strategy; see `EvolutionAlgo`."""
        settings: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "learning_rate_decay": self.learning_rate_decay,
            "sigma_decay": self.sigma_decay,
        }
        return OpenAIES(x0, self.sigma0, popsize=popsize, seed=seed, **settings)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of `EvolutionAlgo`, and the learning rate before its decay."""
        return super().state_dict() | {"learning_rate": self.learning_rate}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a saved state; another learning rate than the saved one is in force from here on."""
        super().load_state_dict(state)
        before: Any = state.get("learning_rate", self.learning_rate)
        strategy: Any = self.strategy
        if "learning_rate" not in self.schedules and before != self.learning_rate:
            strategy.learning_rate *= self.learning_rate / before
