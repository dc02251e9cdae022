import multiprocessing as mp
import pickle

import numpy as np
import pytest
import torch

from rlpyt.utils import buffer as bf
from rlpyt.utils import collections as co
from rlpyt.utils.shared import Arena

Pair = co.namedarraytuple("Pair", ["x", "y"])


def test_same_structure_is_same_class_and_pickles_as_it():
    assert co.namedarraytuple("Pair", "x y") is Pair
    assert pickle.loads(pickle.dumps(Pair)) is Pair
    p = Pair(np.arange(3), Pair(None, np.ones((3, 2))))
    q = pickle.loads(pickle.dumps(p))
    assert type(q) is Pair and type(q.y) is Pair and q.y.x is None
    assert np.array_equal(q.x, p.x)
    Plain = co.namedtuple_class("Plain", ["a"])
    assert pickle.loads(pickle.dumps(Plain)) is Plain
    assert pickle.loads(pickle.dumps(Plain(3))).a == 3


def test_indexing_reads_and_writes_every_field():
    p = Pair(np.zeros((5, 3)), Pair(torch.zeros(5, 3), None))
    p[1, 2] = 7
    assert p.x[1, 2] == 7 and p.y.x[1, 2] == 7 and p.x.sum() == 7
    p[0] = Pair(np.full(3, 2.0), Pair(torch.full((3,), 4.0), None))
    assert p[0].x.tolist() == [2, 2, 2] and p[0].y.x.tolist() == [4, 4, 4]
    assert "x" in p and "z" not in p
    assert p.get(1) is p.y and [n for n, _ in p.items()] == ["x", "y"]
    assert p._replace(x=None)[0].x is None


def test_plain_namedtuple_of_same_fields_is_written_by_field():
    info = co.namedtuple_class("Info", ["x", "y"])
    p = Pair(np.zeros(4), np.zeros(4))
    p[2] = info(1.0, 2.0)
    assert p.x[2] == 1 and p.y[2] == 2


def test_errors_name_the_field():
    with pytest.raises(IndexError, match="field 'y'"):
        Pair(np.zeros(5), np.zeros(3))[4]
    with pytest.raises(TypeError, match="'y' must be None"):
        Pair(np.zeros(5), None)[0] = Pair(1, 2)
    with pytest.raises(ValueError, match="reserved"):
        co.namedarraytuple("Bad", ["get"])


def test_tuple_types_are_distinguished():
    plain = co.namedtuple_class("Pair", ["x", "y"])
    assert co.is_namedtuple(plain(1, 2)) and not co.is_namedarraytuple(plain(1, 2))
    assert co.is_namedarraytuple(Pair(1, 2)) and not co.is_namedtuple(Pair(1, 2))
    assert co.is_namedtuple_class(plain) and co.is_namedarraytuple_class(Pair)
    assert co.namedarraytuple_like(plain(1, 2)) is Pair
    schema = co.NamedArrayTupleSchema("Pair", ["x", "y"])
    assert type(schema(1, 2)) is Pair and pickle.loads(pickle.dumps(schema)) == schema
    assert co.NamedArrayTupleSchema_like(plain) == schema
    assert co.NamedArrayTuple("Pair", ["x", "y"], (1, 2)) == Pair(1, 2)


def test_attrdict_copies_chains_of_itself():
    d = co.AttrDict(a=co.AttrDict(b=[1]), c=2)
    e = d.copy()
    e.a.b.append(2)
    e.a.z = 1
    e["c"] = 5
    assert d.a.b == [1, 2] and "z" not in d.a and d.c == 2
    f = pickle.loads(pickle.dumps(e))
    f.new = 3
    assert f["new"] == 3 and f.a.z == 1 and "new" not in e


def test_buffer_from_example_keeps_structure_dtype_and_none():
    example = Pair(np.zeros(2, np.uint8), co.namedtuple_class("I", ["t", "n"])(True, None))
    buf = bf.buffer_from_example(example, (5, 3))
    assert buf.x.shape == (5, 3, 2) and buf.x.dtype == np.uint8
    assert buf.y.t.dtype == bool and buf.y.n is None and co.is_namedarraytuple(buf.y)
    assert bf.get_leading_dims(buf, 2) == (5, 3)
    with pytest.raises(TypeError, match="cannot allocate"):
        bf.buffer_from_example("text", 2)


def test_torchify_shares_memory_both_ways():
    p = Pair(np.zeros(3), None)
    t = bf.torchify_buffer(p)
    t.x[1] = 4
    assert p.x[1] == 4 and bf.numpify_buffer(t).x[1] == 4 and t.y is None
    assert bf.buffer_method(p, "sum").x == 4
    assert bf.buffer_func((p, [1][0]), lambda leaf: leaf * 2)[0].x[1] == 8


def test_leading_dims_error_names_fields():
    with pytest.raises(ValueError, match=r"'x' has \[5\], 'y.x' has \[4\]"):
        bf.get_leading_dims(Pair(np.zeros(5), Pair(np.zeros(4), None)))


def _write_from_child(arrays):
    arrays.x[1] = 11
    arrays.y[...] = 22


@pytest.mark.parametrize("method", ["forkserver", pytest.param("spawn", marks=pytest.mark.slow)])
def test_shared_arrays_and_views_are_sent_to_children(method):
    arena = Arena()
    p = bf.buffer_from_example(Pair(np.float32(0), np.zeros(2, np.int64)), (4, 3), arena)
    child = mp.get_context(method).Process(target=_write_from_child, args=(p[:, 1:2],))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert p.x[1].tolist() == [0, 11, 0] and p.x.sum() == 11
    assert (p.y[:, 1] == 22).all() and p.y.sum() == 22 * 8
    assert p.x.__array_interface__["data"][0] % 64 == 0


def test_computed_shared_array_pickles_as_values():
    a = bf.np_mp_array((3,), np.float64) + 1
    assert pickle.loads(pickle.dumps(a)).tolist() == [1, 1, 1]


def test_buffers_have_the_byte_order_of_this_machine():
    example = np.array([1, 2], np.dtype("f4").newbyteorder("S"))
    buffer = bf.build_array(example, 3)
    assert buffer.dtype == np.float32 and buffer.dtype.isnative
    buffer[1] = example
    assert torch.from_numpy(buffer)[1].tolist() == [1, 2]
