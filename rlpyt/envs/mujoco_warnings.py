"""Show each MuJoCo warning once instead of once per compiled model."""

import multiprocessing
import warnings

_shown: set[str] = set()


def redirect_warnings() -> None:
    """Issue MuJoCo's warnings as Python warnings, in the main process only.

    Workers compile the same models and would repeat them. A handler set by the user is kept.
    """
    import mujoco

    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_warn)


def _warn(text: str) -> None:
    # Python shows a repeated warning again after any change of its filters.
    if multiprocessing.parent_process() is None and text not in _shown:
        _shown.add(text)
        warnings.warn(f"MuJoCo: {text}")
