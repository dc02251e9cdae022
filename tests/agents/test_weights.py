"""Parameters and settings on their way to another machine."""

import numpy as np
import pytest
import torch

from rlpyt.agents.weights import SharedWeights


def weights(sizes, fill):
    model = torch.nn.Sequential(torch.nn.Linear(*sizes), torch.nn.BatchNorm1d(sizes[1]))
    for tensor in model.state_dict().values():
        tensor.fill_(fill)
    shared = SharedWeights(model, {"epsilon": np.full(2, float(fill))})
    shared.bind(model)
    return shared, model


def test_what_one_gives_another_takes_in_parameters_buffers_and_settings():
    ours, _ = weights((3, 2), 5)
    theirs, model = weights((3, 2), 1)
    values = ours.values()
    assert {type(value) for value in values.values()} == {np.ndarray}  # shared memory stays here
    ours.settings["epsilon"][:] = 7  # after they were sent
    theirs.load(values)
    assert all((tensor == 5).all() for tensor in model.state_dict().values())
    assert theirs.settings["epsilon"].tolist() == [5, 5]


def test_weights_of_another_model_are_refused():
    ours, _ = weights((3, 2), 5)
    theirs, _ = weights((4, 2), 1)
    with pytest.raises(ValueError, match=r"\['0.weight'\]"):
        theirs.load(ours.values())
