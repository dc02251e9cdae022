"""Compatibility names of rlpyt for picklable space wrappers; all space wrappers are picklable."""

from typing import Any

from rlpyt.spaces import gym_wrapper

nt_to_dict = gym_wrapper.nt_to_dict


class GymSpaceWrapper(gym_wrapper.GymSpaceWrapper):
    """`rlpyt.spaces.gym_wrapper.GymSpaceWrapper` with the unused argument ``schemas``."""

    def __init__(self, *args: Any, schemas: object = None, **kwargs: Any) -> None:
        """Wrap a gymnasium space; ``schemas`` is ignored, for compatibility."""
        super().__init__(*args[:4], **kwargs)


def dict_to_nt(value: object, name: str, schemas: object = None) -> Any:
    """Convert a dictionary to a named tuple; ``schemas`` is ignored, for compatibility."""
    return gym_wrapper.dict_to_nt(value, name)
