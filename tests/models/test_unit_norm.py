"""Weights of constant length are learned on, however long they have grown."""

import pytest
import torch

from rlpyt.algos.optim import GradientStep, ParameterGroup
from rlpyt.models.ensemble import EnsembleMlp
from rlpyt.models.unit_norm import unit_vectors


@pytest.mark.parametrize("unit_weights", [True, False])
def test_only_a_network_whose_weights_are_projected_learns_on_when_they_are_long(unit_weights):
    """Batch normalization hides their length, but Adam turns them the less the longer they are."""
    torch.manual_seed(0)
    network = EnsembleMlp(
        4, [32, 32], 1, normalization=dict(kind="batch", unit_weights=unit_weights)
    )
    with torch.no_grad():
        for hidden in network.model[1], network.model[4]:
            hidden.weight.mul_(1000.0)
    vectors = unit_vectors(network)
    step = GradientStep(
        [ParameterGroup("network", [*network.parameters()], vectors=vectors)],
        torch.optim.Adam,
        3e-3,
    )
    x = 2 * torch.rand(256, 4) - 1
    y = torch.sin(3 * x.sum(-1, keepdim=True))
    for _ in range(200):
        loss = (network(x) - y).square().mean()
        step(loss)
    assert (loss < 0.05) == unit_weights  # 0.003 and 0.2
