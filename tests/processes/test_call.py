"""Single calls in a child process."""

import os
import signal
import sys
import time

import pytest
import torch

from rlpyt.errors import WorkerError, WorkerTimeout
from rlpyt.models.utils import matmul_precision
from rlpyt.processes.call import run_in_child


def test_a_result_comes_back_from_another_process():
    assert run_in_child(os.getpid) != os.getpid()
    assert run_in_child(lambda a, b: a + b, 1, 2) == 3


def test_a_generator_gives_its_first_value_and_cleans_up(tmp_path):
    def first_of(path):
        try:
            yield "first"
        finally:
            path.write_text("cleaned up")

    assert run_in_child(first_of, tmp_path / "file") == "first"
    assert (tmp_path / "file").read_text() == "cleaned up"


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_matrices_are_multiplied_with_the_precision_of_the_parent(precision):
    with matmul_precision(precision):
        assert run_in_child(torch.get_float32_matmul_precision) == precision
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_child_starts_whatever_attributes_of_torch_set_the_precision(monkeypatch):
    def refuse():
        raise RuntimeError("mixed with the attributes")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    with matmul_precision(None):
        assert run_in_child(os.getpid) != os.getpid()


def fail():
    raise KeyError("told to fail")


@pytest.mark.parametrize(
    "function, args, how",
    [
        (fail, (), r".*KeyError: 'told to fail'\.\n\n.*:\nTraceback"),
        (sys.exit, (3,), ".*SystemExit: 3"),
        (os._exit, (3,), r".*code 3\."),
        (signal.raise_signal, (signal.SIGKILL,), ".*SIGKILL"),
    ],
)
def test_failures_are_named_by_what_is_done(function, args, how):
    with pytest.raises(WorkerError, match=rf"^counting stars \(pid \d+ on .*\) {how}") as caught:
        run_in_child(function, *args, what="counting stars")
    assert caught.value.worker == -1 and caught.value.pid > 0


@pytest.mark.filterwarnings("ignore:counting stars .* has made no progress")
def test_a_call_has_a_time_limit():
    expected = r"^counting stars .* 1 s \(timeout_s\).*\n\nPy"
    with pytest.raises(WorkerTimeout, match=expected) as caught:
        run_in_child(time.sleep, 60, timeout_s=1.0, what="counting stars")
    assert "call.py" in caught.value.stacks
