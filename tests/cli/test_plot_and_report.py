"""``rlpyt plot`` and ``rlpyt report``: every kind of picture, and refusals in one line."""

import io
import json
import os

import pytest

from rlpyt.cli.main import main


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two settings in two environments, two seeds each, evaluated, as `rlpyt train` leaves them."""
    root = tmp_path_factory.mktemp("runs")
    for env, scale in (("CartPole-v1", 10), ("toy/memory", 0.1)):
        for rate in (0.1, 0.2):
            for seed in (0, 1):
                run = root / f"{env.replace('/', '-')}-{rate}-{seed}"
                run.mkdir()
                head = "Diagnostics/CumSteps,Diagnostics/CumTime (s),ReturnAverage,lossAverage"
                rows = [f"{i}00,{i}.5,{scale * (i + rate + seed)},{1 / i}" for i in range(1, 6)]
                (run / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
                algo = {"learning_rate": rate, "discount": 0.9}
                config = {"env": env, "algo_name": "ppo", "seed": seed, "steps": 500, "algo": algo}
                (run / "config.json").write_text(json.dumps(config))
                evaluation = {"return_mean": scale * (rate + seed)}
                (run / "evaluation.json").write_text(json.dumps(evaluation))
    return root


def rlpyt_command(*argv):
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, argv)))
    return stop.value.code


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--x", "time", "--y", "lossAverage", "--smooth", "3", "--title", "losses"],
        ["--group-by", "learning_rate", "seed"],
        ["--kind", "profile"],
        ["--kind", "improvement", "--score", "last", "--confidence", "0.5"],
        ["--kind", "intervals", "--normalize", "range"],
        ["--kind", "profile", "--normalize", '{"CartPole-v1": [0, 20], "toy/memory": [0, 1]}'],
    ],
    ids=" ".join,
)
def test_every_kind_of_plot(flags, runs, tmp_path, capsys):
    output = tmp_path / "new" / "picture.svg"
    assert rlpyt_command("plot", runs, "-o", output, *flags) == 0
    assert "<svg" in output.read_text(encoding="utf-8")
    said = capsys.readouterr()
    assert said.err == "" and said.out == f"Saved to {output}\n"


def test_a_path_that_the_output_cannot_show_is_escaped(runs, tmp_path, monkeypatch):
    output = tmp_path / os.fsdecode(b"r\xe4.svg")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", stream)
    assert rlpyt_command("plot", runs, "-o", output) == 0 and output.exists()
    stream.flush()
    assert stream.buffer.getvalue().endswith(b"r\\udce4.svg\n")


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--y", "ReturnAverag"], ["no run has the column 'ReturnAverag'", "'ReturnAverage'?"]),
        (["--x", "stesp"], ["no run has the column 'stesp'", "did you mean 'steps'?"]),
        (["--group-by", "rate"], ["no run has the setting 'rate'", "algo.learning_rate"]),
        (["--smooth", "0"], ["smooth must be"]),
        (["--confidence", "95"], ["--confidence must be between 0 and 1, got 95"]),
        (["--kind", "profile", "--normalize", "{"], ["must be valid JSON, got {"]),
        (["--kind", "profile", "--normalize", '{"CartPole-v1": [0, 9]}'], ["range of toy/memory"]),
        (["--kind", "profile", "--normalize", '{"CartPole-v1": ["0", "9"]}'], ["must be numbers"]),
        (["--normalize", "range"], ["--normalize is for --kind profile, improvement or inter"]),
        (["--kind", "intervals", "--x", "time"], ["--x is for --kind curves"]),
        (["--kind", "improvement", "--group-by", "discount"], ["two variants"]),
        (["-o", "picture.doc"], [".png, .svg, .pdf"]),
    ],
    ids=" ".join,
)
def test_bad_requests_are_one_line(flags, words, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert rlpyt_command("plot", runs, *flags) == 2
    err = capsys.readouterr().err
    assert err.startswith("rlpyt: error: ") and err.count("\n") == 1
    assert all(word in err for word in words), err
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_is_refused_with_the_known_ones(runs, capsys):
    assert rlpyt_command("plot", runs, "--kind", "curvs") == 2
    err = capsys.readouterr().err
    assert "'curvs'" in err and "'curves'" in err


@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_directory_without_runs_is_one_line(command, tmp_path, capsys):
    assert rlpyt_command(command, tmp_path) == 2
    err = capsys.readouterr().err
    assert "no runs found" in err and err.count("\n") == 1
    assert rlpyt_command(command, tmp_path / "absent") == 2
    assert "absent" in capsys.readouterr().err


def test_damaged_runs_are_left_out_with_a_warning(runs, tmp_path):
    good, torn, empty = (tmp_path / "v" / f"run_{i}" for i in range(3))
    for run in (good, torn, empty):
        run.mkdir(parents=True)
    text = (runs / "CartPole-v1-0.1-0" / "progress.csv").read_text()
    (good / "progress.csv").write_text(text)
    (torn / "progress.csv").write_text(text + "600,6.")
    (empty / "progress.csv").touch()
    with pytest.warns(UserWarning) as caught:
        assert rlpyt_command("plot", tmp_path, "-o", tmp_path / "p.png") == 0
    err = " ".join(str(warning.message) for warning in caught)
    assert f"{torn / 'progress.csv'}: skipped the last line, which is cut off" in err
    assert (
        f"left out, without a value of 'Diagnostics/CumSteps' and 'ReturnAverage': {empty}" in err
    )


def test_a_report_is_saved_in_the_directory_or_at_the_given_path(runs, tmp_path, capsys):
    output = tmp_path / "page.html"
    assert rlpyt_command("report", runs, "-o", output, "--group-by", "learning_rate") == 0
    assert capsys.readouterr().out == f"Saved to {output}\n"
    page = output.read_text(encoding="utf-8")
    assert "learning_rate=0.2" in page and "toy/memory" in page
    assert rlpyt_command("report", output) == 2
    assert "is not a directory" in capsys.readouterr().err
    single = runs / "CartPole-v1-0.1-0"
    assert rlpyt_command("report", single) == 0 and (single / "report.html").exists()
