"""Logged values arrive once in every output, in a stable form."""

import csv
import errno
import inspect
import json
import math
import os
import subprocess
import sys
from argparse import Namespace
from collections import OrderedDict, namedtuple
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch

from rlpyt.utils.logging import logger
from rlpyt.utils.logging.console import colorize
from rlpyt.utils.logging.logger import Logger
from rlpyt.utils.logging.sinks import CallbackSink
from rlpyt.utils.logging.tabulate import tabulate


@pytest.fixture(autouse=True)
def fresh_logger():
    with logger.use(Logger()) as fresh, fresh.session():
        yield fresh


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def dump(**values):
    for key, value in values.items():
        logger.record_tabular(key, value)
    logger.dump_tabular()


# Text


def test_lines_carry_time_and_prefixes_to_terminal_and_file(tmp_path, capsys):
    logger.add_text_output(tmp_path / "sub" / "debug.log")
    logger.push_prefix("rank 0 ")
    with logger.prefix("itr #3 "):
        logger.log("hello", color="green")
        logger.push_prefix("forgotten ")
    logger.log("outside", with_timestamp=False)
    logger.pop_prefix()
    logger.log("bare", with_timestamp=False, with_prefix=False)
    lines = (tmp_path / "sub" / "debug.log").read_text().splitlines()
    stamp, text = lines[0].split(" | ")
    assert text == "rank 0 itr #3 hello" and len(stamp) == len("2026-01-01 00:00:00.000")
    assert lines[1:] == ["rank 0 outside", "bare"]
    assert capsys.readouterr().out.splitlines() == [colorize(lines[0], "green"), *lines[1:]]


def test_prefixes_end_with_their_block_even_after_an_error(capsys):
    rows = []
    logger.add_sink(CallbackSink(lambda row, step: rows.append(row)))
    with pytest.raises(KeyError), logger.prefix("a "), logger.tabular_prefix("b/"):
        logger.push_tabular_prefix("c/")
        raise KeyError
    logger.log("text", with_timestamp=False)
    assert capsys.readouterr().out == "text\n"
    dump(x=1)
    assert rows == [{"x": 1}]


def test_prefixes_can_be_switched_off(capsys):
    logger.set_disable_prefix(True)
    assert logger.get_disable_prefix()
    with logger.prefix("a "):
        logger.log("text", with_timestamp=False)
    assert capsys.readouterr().out == "text\n"


def test_console_output_can_be_disabled_while_files_get_all_lines(tmp_path, capsys):
    logger.add_text_output(tmp_path / "debug.log")
    logger.set_console(False)
    logger.log("quiet")
    dump(Loss=0.5)
    assert capsys.readouterr().out == ""
    text = (tmp_path / "debug.log").read_text()
    assert "quiet" in text and "Loss  0.5" in text
    logger.set_console(True)
    logger.log("loud")
    assert "loud" in capsys.readouterr().out


def test_tabular_only_redraws_the_table_alone(tmp_path, capsys):
    logger.add_text_output(tmp_path / "debug.log")
    logger.set_log_tabular_only(True)
    assert logger.get_log_tabular_only()
    logger.log("hidden")
    dump(Loss=0.5)
    dump(Loss=0.25, New=3)
    out = capsys.readouterr().out
    assert "hidden" not in out and "hidden" in (tmp_path / "debug.log").read_text()
    last = out.split("\x1b[2J\x1b[H")[-1].splitlines()
    assert [line.split() for line in last] == [
        ["Loss", "New"],
        ["----", "---"],
        ["0.5"],
        ["0.25", "3"],
    ]


def test_disabled_writes_nothing_and_enabled_again_does(tmp_path, capsys):
    logger.add_text_output(tmp_path / "debug.log")
    logger.add_tabular_output(tmp_path / "progress.csv")
    logger.set_snapshot_dir(tmp_path)
    logger.set_snapshot_mode("last")
    logger.disable()
    logger.log("nothing")
    logger.record_tabular_misc_stat("Return", [1, 2])
    dump(x=1)
    logger.save_itr_params(0, {})
    assert capsys.readouterr().out == "" and not (tmp_path / "params.pkl").exists()
    assert (tmp_path / "debug.log").read_text() == (tmp_path / "progress.csv").read_text() == ""
    logger.enable()
    logger.disable_tabular()
    dump(x=2)
    logger.enable_tabular()
    dump(x=3)
    assert rows_of(tmp_path / "progress.csv") == [["x"], ["3"]]


# Rows


def test_rows_of_numbers_of_all_kinds(tmp_path):
    logger.add_tabular_output(tmp_path / "progress.csv")
    with logger.tabular_prefix("Diagnostics/"):
        logger.record_tabular("Iteration", 3)
    logger.push_tabular_prefix("A/")
    logger.record_tabular("np", np.float32(0.25))
    logger.record_tabular("array", np.array([[7]]))
    logger.pop_tabular_prefix()
    logger.record_tabular("torch", torch.tensor(1.5, requires_grad=True))
    logger.record_tabular("flag", True)
    logger.record_tabular("none", None)
    logger.record_tabular("inf", -math.inf)
    logger.record_tabular("text", 'a,"b"\nc')
    logger.record_tabular("twice", 1)
    logger.record_tabular("twice", 2)
    logger.dump_tabular(with_prefix=False, with_timestamp=False)
    names, values = rows_of(tmp_path / "progress.csv")
    assert dict(zip(names, values)) == {
        "Diagnostics/Iteration": "3",
        "A/np": "0.25",
        "A/array": "7",
        "torch": "1.5",
        "flag": "1",
        "none": "nan",
        "inf": "-inf",
        "text": 'a,"b" c',
        "twice": "2",
    }
    with pytest.raises(TypeError, match=r"record_tabular\('x'\) .*\(2, 3\)"):
        logger.record_tabular("x", np.zeros((2, 3)))


def test_columns_keep_their_order_and_late_ones_come_last(tmp_path):
    logger.add_tabular_output(tmp_path / "progress.csv")
    dump(b=1, a=2)
    dump(a=3, d=4, c=5, b=6)
    dump(a=7)
    assert rows_of(tmp_path / "progress.csv") == [
        ["b", "a", "d", "c"],
        ["1", "2", "", ""],
        ["6", "3", "4", "5"],
        ["", "7", "", ""],
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["progress.csv"]


def test_statistics_by_hand(tmp_path):
    logger.add_tabular_output(tmp_path / "progress.csv")
    logger.record_tabular_misc_stat("Return", [1.0, 2.0, 6.0])
    logger.record_tabular_misc_stat("Len", np.array([[4], [8]]), placement="front")
    logger.record_tabular_misc_stat("none", [])
    logger.record_tabular_misc_stat("bf", [torch.tensor(2.0).bfloat16(), 4])
    logger.dump_tabular()
    row = dict(zip(*rows_of(tmp_path / "progress.csv")))
    assert list(row)[:6] == [
        *("ReturnAverage", "ReturnStd", "ReturnMedian", "ReturnMin", "ReturnMax"),
        "AverageLen",
    ]
    assert [float(row[f"Return{s}"]) for s in ("Average", "Median", "Min", "Max")] == [3, 2, 1, 6]
    assert float(row["ReturnStd"]) == pytest.approx(math.sqrt(14 / 3))  # (4 + 1 + 9) / 3
    assert float(row["AverageLen"]) == 6 and float(row["StdLen"]) == 2
    assert {row[f"none{s}"] for s in ("Average", "Std", "Median", "Min", "Max")} == {"nan"}
    assert float(row["bfAverage"]) == 3
    with pytest.raises(ValueError, match="placement .*'top'"):
        logger.record_tabular_misc_stat("x", [1], placement="top")
    with pytest.raises(TypeError, match=r"record_tabular_misc_stat\('x'\)"):
        logger.record_tabular_misc_stat("x", ["word"])


def test_tensorboard_has_the_names_of_the_columns(tmp_path):
    event_accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    logger.add_tabular_output(tmp_path / "progress.csv")
    logger.set_tf_summary_dir(tmp_path / "tb")
    assert logger.get_tf_summary_dir() == str(tmp_path / "tb")
    logger.set_iteration(7)
    with logger.tabular_prefix("Eval/"):
        logger.record_tabular_misc_stat("Return", [1, 3])
        logger.record_tabular_misc_stat("Empty", [])
    logger.record_tabular("text", "word")
    logger.dump_tabular()
    writer = logger.get_tf_summary_writer()
    logger.set_tf_summary_writer(None)
    assert logger.get_tf_summary_writer() is None and writer.all_writers is None  # closed
    events = event_accumulator.EventAccumulator(str(tmp_path / "tb")).Reload()
    assert sorted(events.Tags()["scalars"]) == [
        f"Eval/Return{name}" for name in ("Average", "Max", "Median", "Min", "Std")
    ]
    (scalar,) = events.Scalars("Eval/ReturnAverage")
    assert (scalar.step, scalar.value) == (7, 2.0)
    assert rows_of(tmp_path / "progress.csv")[0][0] == "Eval/ReturnAverage"


def test_a_held_table_continues_and_a_removed_one_starts_again(tmp_path):
    path = tmp_path / "progress.csv"
    logger.add_tabular_output(path)
    dump(x=1)
    logger.hold_tabular_output(path)
    dump(x=2)
    logger.add_tabular_output(path)
    dump(x=3)
    assert rows_of(path) == [["x"], ["1"], ["3"]]
    logger.remove_tabular_output(path)
    logger.remove_tabular_output(path)
    dump(x=4)
    logger.add_tabular_output(path)
    dump(y=5)
    assert rows_of(path) == [["y"], ["5"]]


def test_rewind_deletes_rows_that_a_resumed_run_writes_again(tmp_path):
    path = tmp_path / "progress.csv"
    path.write_text("Itr,x\n0,a\n1,b\n2,c\n3,torn of")
    logger.add_tabular_output(path, append=True)
    logger.rewind("Itr", 1)
    dump(x="d", Itr=2, new=5)
    assert rows_of(path) == [
        ["Itr", "x", "new"],
        ["0", "a", ""],
        ["1", "b", ""],
        ["2", "d", "5"],
    ]


def test_rows_before_a_checkpoint_stay_whatever_their_iteration(tmp_path):
    """Iterations have other numbers after a resume with other ranks."""
    path = tmp_path / "progress.csv"
    path.write_text("Itr,x\n9,a\n19,b\n")
    logger.add_tabular_output(path, append=True)
    mark = logger.table_marks()
    dump(x="c", Itr=10)
    logger.rewind("Itr", 9, mark)
    assert rows_of(path) == [["Itr", "x"], ["9", "a"], ["19", "b"]]


@pytest.mark.parametrize("rows", [0, 1], ids=["no rows", "rows after the checkpoint"])
def test_a_checkpoint_before_the_first_row_keeps_none_and_the_header(rows, tmp_path):
    path = tmp_path / "progress.csv"
    logger.add_tabular_output(path)
    mark = logger.table_marks()
    for _ in range(rows):
        dump(x="a", Itr=0)
    logger.rewind("Itr", -1, mark)
    dump(x="b", Itr=0)
    assert sorted(rows_of(path)[0]) == ["Itr", "x"]
    assert [sorted(row) for row in rows_of(path)[1:]] == [["0", "b"]]


def test_tensorboard_shows_rows_that_a_resumed_run_writes_again_once(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for first, last in ((0, 4), (2, 5)):  # stopped at 4, resumed after 1
        logger.set_tf_summary_dir(tmp_path)
        if first:
            logger.rewind("Itr", first - 1, step=10 * first - 10)
        for itr in range(first, last):
            logger.set_iteration(10 * itr)
            dump(x=100 * first + itr)
        logger.set_tf_summary_dir(None)
    found = accumulators.EventAccumulator(str(tmp_path)).Reload().Scalars("x")
    assert [(e.step, e.value) for e in found] == [(0, 0), (10, 1), (20, 202), (30, 203), (40, 204)]


def test_a_session_restores_the_logger(tmp_path):
    kept, own = [], []
    logger.add_sink(CallbackSink(lambda row, step: kept.append((row, step))))
    logger.set_snapshot_gap(5)
    with pytest.raises(KeyError), logger.session():
        logger.add_sink(CallbackSink(lambda row, step: own.append(row)))
        logger.add_tabular_output(tmp_path / "progress.csv")
        logger.add_text_output(tmp_path / "debug.log")
        logger.push_prefix("p")
        logger.set_iteration(9)
        logger.set_console(False)
        logger.set_snapshot_mode("all")
        logger.set_snapshot_gap(7)
        dump(x=1)
        logger.record_tabular("pending", 1)
        raise KeyError
    dump(y=2)
    assert kept == [({"x": 1}, 9), ({"y": 2}, 0)] and own == [{"x": 1}]
    assert rows_of(tmp_path / "progress.csv") == [["x"], ["1"]]
    assert (logger.get_snapshot_mode(), logger.get_snapshot_gap()) == ("none", 5)


def test_module_functions_act_on_the_current_logger_and_show_their_arguments():
    other, rows = Logger(), []
    other.add_sink(CallbackSink(lambda row, step: rows.append(row)))
    with logger.use(other):
        assert logger.current() is other
        dump(x=1)
    dump(x=2)
    assert rows == [{"x": 1}]
    assert list(inspect.signature(logger.save_itr_params).parameters) == ["itr", "params"]


def test_importing_the_logger_does_not_import_torch():
    code = "import sys, rlpyt.utils.logging.context; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Snapshots


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("none", []),
        ("last", ["params.pkl"]),
        ("all", [f"itr_{i}.pkl" for i in range(7)]),
        ("gap", ["itr_0.pkl", "itr_2.pkl", "itr_5.pkl"]),
        ("last+gap", ["itr_0.pkl", "itr_2.pkl", "itr_5.pkl", "params.pkl"]),
    ],
)
def test_snapshot_modes(tmp_path, mode, wanted):
    logger.set_snapshot_dir(tmp_path / "new")
    logger.set_snapshot_mode(mode)
    logger.set_snapshot_gap(3)
    for itr in range(7):
        logger.save_itr_params(itr, {"itr": itr})
    found = sorted(path.name for path in (tmp_path / "new").glob("*"))
    assert found == wanted
    if "params.pkl" in wanted:
        assert torch.load(tmp_path / "new" / "params.pkl") == {"itr": 6}


def test_snapshots_load_with_safe_defaults(tmp_path):
    Pair = namedtuple("Pair", "left right")
    block = torch.arange(1000.0)
    logger.set_snapshot_dir(tmp_path)
    logger.set_snapshot_mode("last")
    params = {
        "itr": np.int64(3),
        "cum_steps": 2**70,
        "agent_state_dict": OrderedDict(w=torch.nn.Parameter(block[:2]), b=block[2:3]),
        "optimizer_state_dict": {"state": {0: {"step": torch.tensor(1.0)}}, "betas": (0.9, 0.999)},
        "mean": np.float32(0.5),
        "counts": np.arange(3, dtype=">i8")[::-1],
        "pair": Pair(np.bool_(True), None),
        "tied": [block, block[:], block[::2], block.view(torch.int32)],
    }
    logger.save_itr_params(0, params)
    loaded = torch.load(tmp_path / "params.pkl", weights_only=True)
    assert loaded["itr"] == 3 and type(loaded["itr"]) is int and loaded["cum_steps"] == 2**70
    assert loaded["agent_state_dict"]["w"].tolist() == [0, 1]
    assert loaded["agent_state_dict"]["w"].untyped_storage().nbytes() == 8  # not all of the block
    assert loaded["optimizer_state_dict"]["betas"] == (0.9, 0.999)
    assert 0 in loaded["optimizer_state_dict"]["state"] and loaded["mean"] == 0.5
    assert torch.equal(loaded["counts"], torch.tensor([2, 1, 0]))
    assert loaded["pair"] == {"left": True, "right": None}
    memory = [x.untyped_storage().data_ptr() for x in loaded["tied"]]
    assert memory[0] == memory[1] and len(set(memory)) == 3  # the same numbers are saved once
    assert all(torch.equal(*pair) for pair in zip(loaded["tied"], params["tied"], strict=True))


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"a": [1, {"b": object()}]}, r"params\['a'\]\[1\]\['b'\] .*builtins.object"),
        ({"a": np.array(["text"])}, r"params\['a'\] .*numpy.ndarray"),
        ({"a": {1.5: 2}}, r"keys of params\['a'\] .*1\.5"),
        ({"cls": Path}, r"params\['cls'\]"),
    ],
)
def test_unsupported_objects_in_a_snapshot_are_named(tmp_path, params, where):
    logger.set_snapshot_dir(tmp_path)
    logger.set_snapshot_mode("last")
    with pytest.raises(TypeError, match=where):
        logger.save_itr_params(0, params)
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_cannot_be_written_leaves_the_old_one_and_the_run(tmp_path, monkeypatch):
    logger.set_snapshot_dir(tmp_path)
    logger.set_snapshot_mode("last")
    logger.save_itr_params(0, {"itr": 0})

    def full(*args):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.warns(RuntimeWarning, match=r"params\.pkl .*full") as w:
            logger.save_itr_params(1, {"itr": 1})
            logger.save_itr_params(2, {"itr": 2})
    assert len(w) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["params.pkl"]
    assert torch.load(tmp_path / "params.pkl") == {"itr": 0}


def test_snapshot_settings_are_checked():
    with pytest.raises(ValueError, match="snapshot_mode='often'"):
        logger.set_snapshot_mode("often")
    with pytest.raises(ValueError, match="gap .*got 0"):
        logger.set_snapshot_gap(0)
    logger.set_snapshot_dir("somewhere")
    assert logger.get_snapshot_dir() == os.path.abspath("somewhere")


# Settings as JSON, tables as text


class Colour(Enum):
    RED = 1


def test_settings_of_any_kind_become_json(tmp_path):
    class Dumped:
        def dump(self):
            return {"cls": Colour, "enum": Colour.RED, 3: (np.float32(0.5), np.arange(2))}

    logger.log_variant(str(tmp_path / "new" / "variant.json"), Dumped())
    assert json.loads((tmp_path / "new" / "variant.json").read_text()) == {
        "cls": {"$class": f"{__name__}.Colour"},
        "enum": {"$enum": f"{__name__}.Colour.RED"},
        "3": [0.5, [0, 1]],
    }
    args = Namespace(seed=1, algo="ppo", algo_lr=0.1, path=Path("a/b"))
    logger.log_parameters_lite(str(tmp_path / "a.json"), args)
    assert json.loads((tmp_path / "a.json").read_text())["path"] == "a/b"
    logger.log_parameters(str(tmp_path / "b.json"), args, {"algo": Colour})
    assert json.loads((tmp_path / "b.json").read_text()) == {
        "algo": {"_name": {"$class": f"{__name__}.Colour"}, "lr": 0.1},
        "seed": 1,
        "path": "a/b",
    }
    assert json.dumps({"o": test_snapshot_modes}, cls=logger.MyEncoder).count("$function") == 1
    assert "object at" in json.dumps(object(), cls=logger.MyEncoder)


def test_tables_are_aligned():
    rows = [("Loss", 0.123456789), ("Steps", 1000), ("Name", "x", "extra")]
    assert tabulate(rows[:2]).splitlines() == [
        "-----  --------",
        "Loss   0.123457",
        "Steps      1000",
        "-----  --------",
    ]
    assert tabulate(rows, headers=["key", "value"], tablefmt="plain").splitlines() == [
        "key    value",
        "Loss   0.123457",
        "Steps  1000",
        "Name   x         extra",
    ]
    assert tabulate([[1], [None]], ["n"]) == "n\n-\n1\n"
    columns = tabulate([["a", "1"], ["bc", "23"]], tablefmt="plain", colalign=["right", "left"])
    assert columns.splitlines() == [" a  1", "bc  23"]
    assert tabulate([["a\nb"]], tablefmt="plain") == r"a\nb"  # one row
    assert tabulate([]) == ""
    with pytest.raises(ValueError, match="tablefmt .*'html'"):
        tabulate([], tablefmt="html")


def test_the_table_on_the_terminal_is_that_of_the_current_logger(fresh_logger, capsys):
    assert logger.table_printer is fresh_logger.table_printer
    logger.set_log_tabular_only(True)
    dump(Loss=0.5)
    assert logger.table_printer.headers == ["Loss"] and "0.5" in capsys.readouterr().out
    with pytest.raises(AttributeError, match="'table_printers'"):
        _ = logger.table_printers


def test_a_function_in_the_place_of_record_tabular_gets_every_column(monkeypatch):
    """Projects send columns to a tracker in this way."""
    original, seen = logger.record_tabular, {}

    def record(key, value, *args, **kwargs):
        original(key, value, *args, **kwargs)
        seen[logger._tabular_prefix_str + key] = value

    monkeypatch.setattr(logger, "record_tabular", record)
    with logger.use(Logger()), logger.tabular_prefix("Training/"):
        logger.record_tabular("Loss", 1.0)
        logger.record_tabular_misc_stat("Return", [2.0, 4.0])
        row = logger.dump_tabular()
    assert seen == row and len(row) == 6 and row["Training/ReturnMax"] == 4.0
