"""Checkpoints keep the state of a run between two rows as it is."""

import numpy as np

from rlpyt.runners.run_state import RunState


def test_statistics_of_updates_are_saved_as_arrays_and_loaded_as_they_were():
    state, loaded = RunState(), RunState()
    state.opt_infos = {"loss": [0.5, float("nan"), 1e-300], "count": [1, 2], "none": []}
    saved = state.to_dict()
    assert isinstance(saved["opt_infos"]["loss"], np.ndarray)  # 8 bytes for each of many updates
    loaded.load(saved)
    np.testing.assert_array_equal(loaded.opt_infos.pop("loss"), state.opt_infos.pop("loss"))
    assert loaded.opt_infos == state.opt_infos
    assert [type(x) for x in loaded.opt_infos["count"]] == [int, int]


def test_checkpoints_with_lists_are_loaded_too():
    state, loaded = RunState(), RunState()
    loaded.load({**state.to_dict(), "opt_infos": {"loss": [0.5, 2]}})
    assert loaded.opt_infos == {"loss": [0.5, 2.0]}
