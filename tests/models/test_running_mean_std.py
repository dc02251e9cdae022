import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from rlpyt.models.running_mean_std import RunningMeanStdModel
from rlpyt.utils.processes import start_context
from rlpyt.utils.synchronize import find_port

SHAPES = [(4, 3, 2), (1, 5, 2), (2,), (0, 3, 2), (40, 2)]  # leading dimensions differ


def make_batches(offset=1e5):
    """Far from zero, where sums of squares in float32 would be lost."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 0.01])
    return [
        offset + i + scale.double() * torch.randn(*s, generator=generator, dtype=torch.float64)
        for i, s in enumerate(SHAPES)
    ]


def check(model, data):
    data = np.asarray(data)
    assert model.count == len(data)
    kept = model.state_dict()
    np.testing.assert_allclose(kept["mean"], data.mean(0), rtol=1e-12)
    np.testing.assert_allclose(kept["var"], data.var(0), rtol=1e-6)
    assert torch.equal(model.mean, kept["mean"].float())
    assert torch.equal(model.var, kept["var"].float())


def test_batches_add_up_to_one_pass_over_all_data():
    model, batches = RunningMeanStdModel((2,)), make_batches()
    for batch in batches:
        model.update(batch)
    check(model, torch.cat([b.reshape(-1, 2) for b in batches]))


def test_before_any_data_it_changes_nothing():
    model = RunningMeanStdModel((2,))
    x = torch.randn(3, 2)
    assert torch.equal(model.normalize(x, 10, 1e-6), x)


def test_normalize_by_hand():
    model = RunningMeanStdModel(())
    model.update(torch.tensor([1, 3], dtype=torch.uint8))  # mean 2, variance 1
    result = model.normalize(torch.tensor([2.0, 3.5, 100.0, -100.0]), 5, 1e-6)
    assert result.tolist() == [0.0, 1.5, 5.0, -5.0]
    assert result.dtype == torch.float32
    assert model.normalize(torch.tensor(6.0), 5, 4.0).item() == 2.0  # the least variance is 4


def test_state_dict_keeps_everything():
    model, other = RunningMeanStdModel((2,)), RunningMeanStdModel((2,))
    model.update(torch.randn(5, 2))
    other.load_state_dict(model.state_dict())
    more = torch.randn(7, 2)
    model.update(more)
    other.update(more)
    assert torch.equal(model.var, other.var)
    assert list(model.state_dict()) == ["mean", "var", "count"]
    assert not list(model.parameters())


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\(5, 3\)"):
        RunningMeanStdModel((2,)).update(torch.zeros(5, 3))


def _rank(rank, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", world_size=2, rank=rank)
    try:
        model, batches = RunningMeanStdModel((2,)), make_batches()
        for i in range(0, 4, 2):
            model.update(batches[i + rank])
        check(model, torch.cat([b.reshape(-1, 2) for b in batches[:4]]))
    finally:
        dist.destroy_process_group()


def test_ranks_agree_on_all_their_data():
    """Batches of different sizes, and none at all in one rank."""
    start_context("forkserver")  # which imports torch once for both
    mp.start_processes(_rank, (find_port(0),), 2, start_method="forkserver")
