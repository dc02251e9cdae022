"""Evolution strategies as algorithms: a runner's loop asks, the sampler tries out, this tells."""

from collections import namedtuple
from dataclasses import dataclass
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
from rlpyt.utils.checks import check_settings, setting
from rlpyt.utils.seed import env_seed, get_seed, make_seed

# candidateReturn: mean return of each candidate, over its episodes. searchStd: mean deviation of
# the search distribution. generationSteps: environment steps taken for a batch, of T * B.
OptInfo = namedtuple("OptInfo", ["candidateReturn", "searchStd", "generationSteps"])


@dataclass(eq=False)
class EvolutionAlgo(RlAlgorithm):
    """Searches the parameters of an `EsAgent` for those with the highest return.

    A batch [T, B] holds one whole episode of each environment (`PopulationCollector`), so T is
    the longest that an episode may be. A generation of ``popsize`` candidates with ``episodes``
    each takes popsize * episodes / B batches, usually one. Return counts undiscounted.

    Attributes:
        steps_taken: environment steps of all episodes so far; runners count T * B for each batch,
            as their budget, with the rests of environments whose episode is over.

    Raises:
        TypeError, ValueError: a setting is of the wrong kind or out of range.
    """

    sigma0: float = setting(0.5, gt=0, doc="initial std of parameters; 0.05 to 1")
    popsize: int | None = setting(None, ge=2, doc="candidates per generation; None: one batch")
    episodes: int = setting(1, ge=1, doc="episodes per candidate; more for noisy returns")
    common_random_numbers: bool = setting(True, doc="same episode starts for all candidates")

    opt_info_fields: ClassVar[tuple[str, ...]] = OptInfo._fields
    discount = 1.0

    def __post_init__(self) -> None:
        check_settings(self)
        self.make_strategy(np.zeros(2), 4, 0)  # refuses settings that no strategy has

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """The strategy, from its settings here."""
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
        """Begin the search where the agent's policy is, and hand out the first candidates.

        Raises:
            ValueError: the batch, the collector or the runner does not fit.
            TypeError: the agent has no population.
        """
        if not hasattr(agent, "population"):
            raise TypeError(f"{type(self).__name__} needs an EsAgent, not {type(agent).__name__}.")
        if mid_batch_reset:
            raise ValueError(
                "a batch must hold one whole episode of each environment: give the sampler "
                "CollectorCls=PopulationCollector (rlpyt.es.collector)."
            )
        if world_size > 1:
            raise ValueError(
                f"world_size={world_size}: one process searches; more workers or Ray actors "
                "(n_workers, RaySampler) try out more candidates at a time."
            )
        self.agent, self._B = agent, batch_spec.B
        popsize = self.checked_popsize(batch_spec.B)
        seed = get_seed()
        seed = make_seed() if seed is None else seed
        x0 = agent.population.favourite().double().numpy()
        try:
            self.strategy = self.make_strategy(x0, popsize, env_seed(seed, 0, "evolution"))
        except ValueError as error:
            if self.popsize is not None:
                raise
            own = f"popsize is batch_B={batch_spec.B} / episodes={self.episodes}"
            raise ValueError(f"{error} ({own}: choose another batch_B.)") from None
        self._episode_rng = np.random.default_rng(env_seed(seed, 0, "evolution episodes"))
        self._batch_size = 0  # nothing is replayed
        self.steps_taken = 0
        self._begin_generation()

    def checked_popsize(self, B: int) -> int:
        """Candidates per generation, with B environments.

        Raises:
            ValueError: their episodes do not fill whole batches.
        """
        if self.popsize is None:
            if B % self.episodes:
                nearest = -(-B // self.episodes) * self.episodes
                raise ValueError(
                    f"batch_B={B} must be a multiple of episodes={self.episodes}: candidates have "
                    f"so many environments each; try batch_B={nearest}."
                )
            return B // self.episodes
        if self.popsize * self.episodes % B:
            raise ValueError(
                f"popsize={self.popsize} with episodes={self.episodes} makes "
                f"{self.popsize * self.episodes} episodes, which do not fill whole batches of "
                f"batch_B={B}; try batch_B={self.popsize}."
            )
        return self.popsize

    def _begin_generation(self) -> None:
        n_episodes = self.strategy.popsize * self.episodes
        self._solutions = self.strategy.ask()
        self._returns = np.zeros(n_episodes)  # candidate by candidate, episode by episode
        self._seeds: NDArray[np.int64] = np.full(n_episodes, -1, np.int64)
        if self.common_random_numbers:
            own = self._episode_rng.integers(2**31, size=self.episodes)
            self._seeds = np.tile(own, self.strategy.popsize)
        self._n_done = 0
        self._hand_out()

    def _hand_out(self) -> None:
        """Give the next batch's environments their candidates and seeds."""
        due = slice(self._n_done, self._n_done + self._B)
        candidates = np.arange(len(self._returns))[due] // self.episodes
        population = self.agent.population
        population.rows.numpy()[:] = self._solutions[candidates]
        self.agent.settings["seeds"][:] = self._seeds[due]
        population.set_favourite(self.strategy.mean)

    def optimize_agent(self, itr: int, samples: Any = None, sampler_itr: int | None = None) -> Any:
        """Take in the returns of a batch; with the last one of a generation, learn from it.

        Raises:
            ValueError: a return is NaN.
        """
        valid = valid_from_done(samples.env.done)
        returns = (samples.env.reward * valid).sum(0).double().numpy()
        self._returns[self._n_done : self._n_done + self._B] = returns
        self._n_done += self._B
        if hasattr(self.agent, "update_obs_rms"):
            seen = samples.env.observation
            self.agent.update_obs_rms(buffer_func(seen, lambda leaf: leaf[valid > 0]))
        candidate_return: list[float] = []
        if self._n_done == len(self._returns):
            means = self._returns.reshape(-1, self.episodes).mean(1)
            candidate_return = means.tolist()
            self.strategy.tell(self._solutions, -means)
            self.update_counter += 1
            self._begin_generation()
        else:
            self._hand_out()
        std = float(self.strategy.stds.mean())
        steps = int(valid.sum())
        self.steps_taken += steps
        return OptInfo(candidate_return, [std], [steps])

    def statistics(self) -> dict[str, float]:
        """The steps really taken, beside those of the budget."""
        return {"CumStepsTaken": self.steps_taken}

    def optim_state_dict(self) -> dict[str, Any]:
        """Nothing: a strategy's state, often large, is in checkpoints only."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The strategy, and the generation in progress."""
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
        """Go on from a saved state, in the middle of a generation, too.

        Raises:
            ValueError: its generations are of another size, or its search is another.
        """
        saved = len(state["solutions"]), len(state["returns"]) // len(state["solutions"])
        if saved != (self.strategy.popsize, self.episodes):
            raise ValueError(
                f"the saved search has popsize={saved[0]} and episodes={saved[1]}, this one "
                f"popsize={self.strategy.popsize} and episodes={self.episodes}; where popsize is "
                "not given, it is batch_B / episodes."
            )
        self.strategy.load_state_dict(state["strategy"])
        self._episode_rng.bit_generator.state = state["episode_rng"]
        self._solutions, self._returns = state["solutions"].copy(), state["returns"].copy()
        self._seeds, self._n_done = state["seeds"].copy(), state["n_done"]
        self.update_counter = state["update_counter"]
        self.steps_taken = state["steps_taken"]
        self._hand_out()


@dataclass(eq=False)
class CmaesAlgo(EvolutionAlgo):
    """CMA-ES: `rlpyt.es.CMAES`."""

    diagonal: bool = setting(False, doc="diagonal covariance; for more than 300 parameters")

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """See `EvolutionAlgo`."""
        return CMAES(x0, self.sigma0, popsize=popsize, seed=seed, diagonal=self.diagonal)


@dataclass(eq=False)
class CemAlgo(EvolutionAlgo):
    """The cross-entropy method: `rlpyt.es.CEM`."""

    elite_frac: float = setting(0.2, gt=0, le=1, doc="fraction of candidates to fit; 0.1 to 0.5")
    extra_std: float = setting(0.25, ge=0, finite=True, doc="initial added noise, in sigma0")
    extra_itrs: int = setting(50, ge=1, doc="generations until the added noise is zero")

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """See `EvolutionAlgo`."""
        settings: dict[str, Any] = {
            "elite_frac": self.elite_frac,
            "extra_std": self.extra_std,
            "extra_itrs": self.extra_itrs,
        }
        return CEM(x0, self.sigma0, popsize=popsize, seed=seed, **settings)


@dataclass(eq=False)
class OpenaiEsAlgo(EvolutionAlgo):
    """The strategy of Salimans et al. 2017: `rlpyt.es.OpenAIES`."""

    sigma0: float = setting(0.1, gt=0, doc="std of parameters; 0.02 to 0.2")
    learning_rate: float = setting(0.02, gt=0, finite=True, doc="of Adam; 0.005 to 0.1")
    weight_decay: float = setting(0.0, ge=0, finite=True, doc="0 to 0.01")
    learning_rate_decay: float = setting(1.0, gt=0, le=1, doc="factor per generation")
    sigma_decay: float = setting(1.0, gt=0, le=1, doc="factor per generation")

    def make_strategy(self, x0: Array, popsize: int, seed: int) -> BaseES:
        """See `EvolutionAlgo`."""
        settings: dict[str, Any] = {
            "learning_rate": self.learning_rate,
            "weight_decay": self.weight_decay,
            "learning_rate_decay": self.learning_rate_decay,
            "sigma_decay": self.sigma_decay,
        }
        return OpenAIES(x0, self.sigma0, popsize=popsize, seed=seed, **settings)
