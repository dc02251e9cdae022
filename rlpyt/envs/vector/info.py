"""Convert info dicts of gymnasium's vector environments to ``env_info``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlpyt.envs.vector.base import vector_info
from rlpyt.utils.names import field_names

InfoKeys = Sequence[str] | Mapping[str, Any]


class InfoReader:
    """Reader of selected entries of vector info dicts, with fixed shapes and dtypes.

    Args:
        n: number of rows.
        info_keys: keys to keep, each a float32 number per row; or a dict of examples, whose
            shapes and dtypes are used: ``{"lives": 0, "ram": np.zeros(128, np.uint8)}``.

    Attributes:
        cls: type of ``env_info``.
        keys: keys to keep.
    """

    def __init__(self, n: int, info_keys: InfoKeys = ()) -> None:
        if isinstance(info_keys, str):
            raise TypeError(f"info_keys={info_keys!r} must be a list of keys, or a dict.")
        if not isinstance(info_keys, Mapping):
            info_keys = dict.fromkeys(info_keys, np.float32(0))
        examples = dict(info_keys)
        self.keys = tuple(examples)
        self.cls = vector_info(field_names(examples))
        self._n = n
        self._zeros = {k: np.zeros((n, *np.shape(v)), _dtype_of(v)) for k, v in examples.items()}

    def read(self, info: Mapping[str, Any], ended: NDArray[np.bool_] | None = None) -> list[Any]:
        """Return one array [n, ...] per key; zero if the info does not have it.

        Args:
            info: info dict returned by the source.
            ended: [n] bool, rows whose entries are read from "final_info" if present.

        Raises:
            ValueError: an entry does not have the example's shape, is not numeric, or is a number
                that the example's dtype cannot hold.
        """
        values = [self._entry(key, info.get(key)) for key in self.keys]
        final = None if ended is None else info.get("final_info")
        if isinstance(final, Mapping):
            for i, key in enumerate(self.keys):
                values[i] = values[i].copy()
                values[i][ended] = self._entry(key, final.get(key))[ended]
        return values

    def _entry(self, key: str, value: object) -> Any:
        zeros = self._zeros[key]
        if value is None:
            return zeros
        array = np.asarray(value)
        if array.dtype == object and array.shape == zeros.shape:  # None in some rows
            known = [0 if x is None else x for x in array.flat]
            if all(isinstance(x, bool | int | float | np.generic) for x in known):
                array = np.array(known).reshape(array.shape)
        if array.shape != zeros.shape or array.dtype.kind not in "biuf":
            raise ValueError(
                f"info entry {key!r} has shape {array.shape} and dtype {array.dtype}, expected "
                f"{zeros.shape} numbers. Pass an example of one row: info_keys={{{key!r}: ...}}."
            )
        if array.dtype == zeros.dtype:
            return array
        converted = array.astype(zeros.dtype)
        if zeros.dtype.kind in "biu" and not np.array_equal(converted, array):
            wrong = array[converted != array].flat[0]
            raise ValueError(
                f"info entry {key!r} must be {zeros.dtype} numbers like its example, got {wrong}. "
                f"Pass an example of a type that holds it, e.g. info_keys={{{key!r}: 0.0}}."
            )
        return converted


def _dtype_of(example: object) -> Any:
    return np.dtype(np.float32) if isinstance(example, float) else np.asarray(example).dtype
