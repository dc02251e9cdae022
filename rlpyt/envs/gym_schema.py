"""Compatibility names for the schema form of ``rlpyt.envs.gym``, whose types can all be pickled.

Only ``info_to_nt`` differs: it takes the types from a dict of schemas, by name.
"""

from collections.abc import Mapping
from typing import Any

from rlpyt.envs.gym import EnvInfoWrapper, GymEnvWrapper, infill_info, make
from rlpyt.utils.names import field_names

__all__ = ["EnvInfoWrapper", "GymEnvWrapper", "infill_info", "info_to_nt", "make"]


def info_to_nt(value: object, schemas: Mapping[str, Any], name: str = "info") -> Any:
    """Return an info dict as the named tuple ``schemas[name]``, nested dicts as ``name_key``.

    Entries that the schema lacks are dropped; entries that ``value`` lacks become zero.
    """
    if not isinstance(value, Mapping):
        return value
    by_field = dict(zip(field_names(value), value.values(), strict=True))
    entries = []
    for field in schemas[name]._fields:
        nested = f"{name}_{field}"
        absent: Any = {} if nested in schemas else 0
        entries.append(info_to_nt(by_field.get(field, absent), schemas, nested))
    return schemas[name](*entries)
