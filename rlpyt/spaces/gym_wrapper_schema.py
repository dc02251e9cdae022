"""rlpyt's name for space wrappers whose types cross to spawned processes; all of them do here."""

from typing import Any

from rlpyt.spaces import gym_wrapper

nt_to_dict = gym_wrapper.nt_to_dict


class GymSpaceWrapper(gym_wrapper.GymSpaceWrapper):
    """`rlpyt.spaces.gym_wrapper.GymSpaceWrapper`, with an argument that is no longer needed."""

    def __init__(
        self,
        space: Any,
        null_value: Any = 0,
        name: str = "obs",
        force_float32: bool = True,
        schemas: Any = None,
    ) -> None:
        """Wrap a gymnasium space; ``schemas`` is accepted for rlpyt's sake."""
        super().__init__(space, null_value, name, force_float32)


def dict_to_nt(value: Any, name: str, schemas: Any = None) -> Any:
    """Turn a dictionary into a named tuple; ``schemas`` is accepted for rlpyt's sake."""
    return gym_wrapper.dict_to_nt(value, name)
