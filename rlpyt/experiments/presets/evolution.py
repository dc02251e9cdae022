"""Presets of evolution strategies.

A batch is a generation: ``batch_T`` is the maximum episode length, ``batch_B`` the number of
candidates times episodes.
"""

from typing import Any

from rlpyt.experiments.presets.compose import Parts, with_parts

_ALGOS: dict[str, dict[str, Any]] = {
    "cmaes": {"sigma0": 1.0},
    "cem": {"sigma0": 1.0, "elite_frac": 0.25, "extra_std": 0.5, "extra_itrs": 100},
    "openai_es": {"sigma0": 0.5, "learning_rate": 0.15, "sigma_decay": 0.99},
}


def _presets(base: Parts, **populations: int) -> dict[str, Parts]:
    """Return presets of all strategies, with the number of candidates of each."""
    return {
        name: with_parts(base, algo={**_ALGOS[name], "episodes": 1}, sampler={"batch_B": n})
        for name, n in populations.items()
    }


CLASSIC = _presets(
    {
        "steps": 2_000_000,
        "sampler": {"batch_T": 500},
        "agent": {"hidden_sizes": [8]},
    },
    cmaes=32,
    cem=32,
    openai_es=32,
)
MUJOCO = _presets(
    {
        "steps": 3_000_000,
        "sampler": {"batch_T": 1000},
        # Linear policies of normalized observations are a strong baseline (Mania et al. 2018).
        "agent": {"hidden_sizes": [], "normalize_observation": True},
    },
    cmaes=16,
    cem=32,
    openai_es=32,
)
_PENDULUM: Parts = {"steps": 1_500_000, "sampler": {"batch_T": 200}}
TUNED: dict[str, dict[str, Parts]] = {
    "CartPole-v1": {name: {"steps": 500_000} for name in CLASSIC},
    # Returns vary more between initial states than between candidates, hence several episodes.
    "Pendulum-v1": {
        "cmaes": with_parts(_PENDULUM, sampler={"batch_B": 48}, algo={"episodes": 3}),
        # Many candidates, since the elite's covariance is estimated from them.
        "cem": with_parts(
            _PENDULUM,
            steps=2_000_000,
            sampler={"batch_B": 128},
            algo={"episodes": 2, "elite_frac": 0.2, "extra_itrs": 60},
        ),
        "openai_es": with_parts(
            _PENDULUM, steps=2_300_000, sampler={"batch_B": 128}, algo={"episodes": 2}
        ),
    },
}
