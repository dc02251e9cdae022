import pytest
import torch

from rlpyt.algos.episodes import EpisodePacking, null_after_done, state_after
from rlpyt.models.gtrxl import Gtrxl
from rlpyt.models.mingru import MinGru
from rlpyt.models.recurrent import run_layer
from rlpyt.utils.buffer import leaves_of

T, B, N, H = 5, 3, 1, 2


def _done():
    done = torch.zeros(T, B, dtype=torch.bool)
    done[1, 0] = done[2, 0] = True  # environment 0: rows 0-1, 2, 3-4
    done[4, 1] = True  # environment 1: an end at the last row cuts nothing
    return done


def test_sequences_are_cut_behind_dones_and_padded():
    packing = EpisodePacking(_done())
    x = torch.arange(T * B).reshape(T, B)
    packed = packing.pack(x)
    rows = [packed[:, s][packing.valid[:, s]].tolist() for s in range(packed.shape[1])]
    assert rows == [[0, 3], [6], [9, 12], [1, 4, 7, 10, 13], [2, 5, 8, 11, 14]]
    assert torch.equal(packing.unpack(packed), x)


def test_states_begin_from_zero_only_within_the_batch():
    packing = EpisodePacking(_done())
    state = torch.arange(1.0, N * B * H + 1).reshape(N, B, H)
    packed = packing.pack_state(state)
    assert packed[0].tolist() == [[1, 2], [0, 0], [0, 0], [3, 4], [5, 6]]


def test_packed_recurrence_equals_stepping_with_resets():
    torch.manual_seed(0)
    done = torch.rand(9, 4) < 0.3
    x, state = torch.randn(9, 4, 3), torch.randn(1, 4, 2)
    rnn = torch.nn.GRU(3, 2)
    expected, h = [], state
    for t in range(9):
        out, h = rnn(x[t : t + 1], h)
        expected.append(out)
        h = h * (~done[t]).float()[None, :, None]
    packing = EpisodePacking(done)
    out, _ = rnn(packing.pack(x), packing.pack_state(state))
    assert torch.allclose(packing.unpack(out), torch.cat(expected), atol=1e-6)


def test_previous_values_are_null_after_done():
    done = _done()
    prev = torch.ones(T, B, 2)
    nulled = null_after_done(prev, done, null=7)
    assert nulled[2, 0].tolist() == [7, 7] and nulled[3, 0].tolist() == [7, 7]
    assert (nulled != 1).sum() == 4
    assert prev.eq(1).all()
    assert null_after_done(prev, torch.zeros(T, B), null=7) is prev


def test_a_batch_without_ends_is_left_as_it_is():
    packing = EpisodePacking(torch.zeros(T, B))
    x = torch.arange(T * B).reshape(T, B)
    assert packing.trivial and packing.pack(x) is x and packing.unpack(x) is x
    assert not EpisodePacking(_done()).trivial


def test_tails_follow_the_sequences_that_end_there():
    done = _done()
    packing = EpisodePacking(done, (torch.tensor([2, 4, 1]), torch.tensor([0, 1, 0])))
    x = torch.arange(T * B).reshape(T, B)
    packed = packing.pack(x, torch.tensor([-1, -2, -3]))
    assert packed.shape == (T + 1, 5)
    assert packed[packing.tails].tolist() == [-1, -2, -3]
    assert packed[2, 0] == -3 and packed[1, 1] == -1 and packed[5, 3] == -2
    assert packing.valid.sum() == T * B and torch.equal(packing.unpack(packed), x)


def test_state_after_a_batch_is_that_of_stepping_with_resets():
    torch.manual_seed(0)
    rnn = torch.nn.GRU(3, 2)
    for length in (1, 2, 9):
        for share in (0.0, 0.3, 1.0):
            done = torch.rand(length, 4) < share
            x, state = torch.randn(length, 4, 3), torch.randn(1, 4, 2)
            h = state
            for t in range(length):
                _, h = rnn(x[t : t + 1], h)
                h = h * (~done[t]).float()[None, :, None]
            own = state_after(lambda piece, s: rnn(piece, s)[1], x, done, state)
            assert torch.allclose(own, h, atol=1e-6)
            # A state of more dimensions, [N, B, H, 3].
            run = lambda piece, s: rnn(piece, s[..., 0].contiguous())[1][..., None].expand(
                1, 4, 2, 3
            )
            wide = state_after(run, x, done, state[..., None].expand(1, 4, 2, 3))
            assert torch.allclose(wide[..., 2], h, atol=1e-6)
    from_zeros = state_after(lambda piece, s: rnn(piece, s)[1], x, done * False, None)
    assert torch.allclose(from_zeros, rnn(x)[1])


@pytest.mark.parametrize("Layer", [MinGru, Gtrxl])
def test_layers_that_take_starts_need_no_cutting(Layer):
    torch.manual_seed(0)
    layer, x = Layer(3, 8), torch.randn(9, 4, 3)
    done = torch.rand(9, 4) < 0.3
    _, state = run_layer(layer, torch.randn(5, 4, 3), None)
    outputs, states = [], []
    for takes_starts in (False, True):
        packing = EpisodePacking(done, takes_starts=takes_starts)
        assert packing.trivial == takes_starts
        out, _ = run_layer(layer, packing.pack(x), packing.pack_state(state))
        outputs.append(packing.unpack(out))

        def run(piece, s):
            return run_layer(layer, piece, s)[1]

        states.append(leaves_of(state_after(run, x, done, state, takes_starts)))
    torch.testing.assert_close(*outputs)
    torch.testing.assert_close(*states)


def test_with_tails_the_batch_is_cut_in_any_case():
    done = _done()
    packing = EpisodePacking(done, (torch.tensor([2]), torch.tensor([0])), takes_starts=True)
    assert not packing.trivial and packing.starts is None
