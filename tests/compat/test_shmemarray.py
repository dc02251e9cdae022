import ctypes
import gc
import multiprocessing as mp
import os

import numpy as np
import pytest

from rlpyt.compat import shmemarray as M


def double(tag):
    array = M.NpShmemArray((5, 3), np.float32, tag, create=False)
    array *= 2


def test_array_is_shared_by_name_and_removed_with_its_owner():
    tag = M.get_random_tag()
    array = M.NpShmemArray((5, 3), np.float32, tag)
    assert (array.shape, array.dtype, array.any()) == ((5, 3), np.float32, False)
    array[:] = np.arange(15).reshape(5, 3)
    child = mp.get_context("forkserver").Process(target=double, args=(tag,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    np.testing.assert_array_equal(array, 2 * np.arange(15).reshape(5, 3))

    view = array[1:]
    del array
    gc.collect()
    assert view[0, 0] == 6  # a view keeps memory and name alive
    again = M.NpShmemArray(15, np.float32, tag, create=False)
    assert again[3] == 6
    del view
    gc.collect()
    with pytest.raises(FileNotFoundError):
        M.NpShmemArray(15, np.float32, tag, create=False)
    assert again[3] == 6


def test_shapes_are_numbers_of_any_kind_and_may_be_empty():
    assert M.NpShmemArray(np.int64(3), np.float32, M.get_random_tag()).shape == (3,)
    assert M.NpShmemArray((0, 3), np.float32, M.get_random_tag()).shape == (0, 3)


def test_raw_array_takes_codes_and_types_sizes_and_contents():
    tag = M.get_random_tag()
    raw = M.ShmemRawArray("i", [3, 4, 5], tag)
    same = M.ShmemRawArray(ctypes.c_int, 3, tag, create=False)
    same[1] = 9
    assert list(raw) == [3, 9, 5]
    assert ctypes.addressof(raw) == raw._wrapper.get_address()


def test_tags_are_different_and_checked():
    assert M.get_random_tag() != M.get_random_tag()
    with pytest.raises(ValueError, match="tag="):
        M.NpShmemArray(3, np.int8, "../escape")


def test_taken_names_and_small_memory_are_refused():
    tag = M.get_random_tag()
    owner = M.NpShmemArray(4, np.int8, tag)
    with pytest.raises(FileExistsError):
        M.NpShmemArray(4, np.int8, tag)
    with pytest.raises(ValueError, match="at least 8 bytes"):
        M.NpShmemArray(8, np.int8, tag, create=False)
    assert owner.nbytes == 4
    assert os.path.exists(os.path.join(M.SHM_DIR, tag)) == os.path.isdir(M.SHM_DIR)
