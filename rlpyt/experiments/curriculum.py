"""Curricula, and environments with tasks, built from options."""

import dataclasses
from pkgutil import resolve_name
from typing import Any

from rlpyt.experiments.options import RunOptions
from rlpyt.utils.checks import whole_number

CURRICULA = {
    "uniform": "rlpyt.curricula.domain_randomization:DomainRandomization",
    "learning-progress": "rlpyt.curricula.learning_progress:LearningProgress",
    "level-replay": "rlpyt.curricula.prioritized:PrioritizedLevelReplay",
}


def build_curriculum(options: RunOptions) -> Any:
    """Build the curriculum, which chooses the task of each episode, or return ``None``.

    Raises:
        ValueError: only one of curriculum and number of tasks is given.
    """
    name, n_tasks = options.sampler.curriculum, options.sampler.n_tasks
    if name == "none":
        if n_tasks:
            raise ValueError(f"sampler.n_tasks={n_tasks} needs a sampler.curriculum.")
        return None
    if not n_tasks:
        raise ValueError(f"sampler.curriculum={name!r} needs sampler.n_tasks, got 0.")
    whole_number("sampler.n_tasks", n_tasks, 1)
    return resolve_name(CURRICULA[name])(n_tasks)


def with_tasks(recipe: Any, options: RunOptions) -> Any:
    """Return an ``EnvRecipe`` whose environments take tasks if the options have a curriculum.

    Evaluations and videos then use all tasks equally, as evaluation in training does.
    """
    curriculum = build_curriculum(options)
    if curriculum is None:
        return recipe
    from rlpyt.curricula.env import TaskEnvs

    return dataclasses.replace(recipe, EnvCls=TaskEnvs(recipe.EnvCls, curriculum.space))
