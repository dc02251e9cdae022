"""From options to a curriculum, and to environments that take its tasks."""

import dataclasses
import importlib
from typing import Any

from rlpyt.experiments.options import RunOptions
from rlpyt.utils.checks import whole_number
from rlpyt.utils.names import UnknownName

CURRICULA = {
    "uniform": "rlpyt.curricula.domain_randomization:DomainRandomization",
    "learning-progress": "rlpyt.curricula.learning_progress:LearningProgress",
    "level-replay": "rlpyt.curricula.prioritized:PrioritizedLevelReplay",
}


def build_curriculum(options: RunOptions) -> Any:
    """What chooses the tasks of the run's episodes; ``None`` without.

    Raises:
        UnknownName: there is no curriculum of this name.
        ValueError: it is not said how many tasks there are, or what they are for.
    """
    name, n_tasks = options.sampler.curriculum, options.sampler.n_tasks
    if name == "none":
        if n_tasks:
            raise ValueError(f"sampler.n_tasks={n_tasks} needs a sampler.curriculum.")
        return None
    if name not in CURRICULA:
        raise UnknownName("curriculum", name, CURRICULA)
    if not n_tasks:
        raise ValueError(f"sampler.curriculum={name!r} chooses among tasks: give sampler.n_tasks.")
    whole_number("sampler.n_tasks", n_tasks, 1)
    module, cls = CURRICULA[name].split(":")
    return getattr(importlib.import_module(module), cls)(n_tasks)


def with_tasks(recipe: Any, options: RunOptions) -> Any:
    """An ``EnvRecipe`` whose environments take tasks, where the options have a curriculum.

    Evaluations and films then play all tasks alike, as evaluation in training does.
    """
    curriculum = build_curriculum(options)
    if curriculum is None:
        return recipe
    from rlpyt.curricula.env import TaskEnvs

    return dataclasses.replace(recipe, EnvCls=TaskEnvs(recipe.EnvCls, curriculum.space))
