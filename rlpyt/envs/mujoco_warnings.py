"""MuJoCo's warnings, once each: it prints one for every model that it compiles."""

import multiprocessing
import warnings


def say_once() -> None:
    """Let what MuJoCo warns of be a Python warning, in the main process alone.

    Workers compile the same models, and would say the same. A handler of the user's is kept.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_say)


def _say(text: str) -> None:
    if multiprocessing.parent_process() is None:
        warnings.warn(f"MuJoCo: {text}")
