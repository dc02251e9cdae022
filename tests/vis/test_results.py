"""Results of publications and of runs, and their comparison."""

import itertools
import json
import os
import re
import warnings

import numpy as np
import pytest

from rlpyt.cli.main import main
from rlpyt.errors import DamagedFile
from rlpyt.utils.names import UnknownName
from rlpyt.vis import statistics
from rlpyt.vis.results import (
    Results,
    compare,
    differences,
    merged,
    over_tasks,
    published,
    read_results,
    read_sides,
    write_results,
)

TASKS = ["Ant-v4", "HalfCheetah-v4", "Hopper-v4", "Humanoid-v4", "Walker2d-v4"]


def at_100_000(name):
    (curves,) = published(name).curves.values()
    return [np.array([curve.at(100_000)[1] for curve in curves[task]]) for task in TASKS]


def test_statistics_are_those_of_rliable():
    """Computed by rliable 1.2.0 for 10 seeds of 5 tasks; intervals of 5,000 resamples."""
    sac, crossq = at_100_000("SAC"), at_100_000("CrossQ")
    assert statistics.pooled_iqm(sac) == pytest.approx(926.15)
    assert statistics.pooled_iqm(crossq) == pytest.approx(3530.7)
    assert statistics.mean_of_tasks(sac) == pytest.approx(1865.806)
    assert statistics.median_of_tasks(sac) == pytest.approx(747.25)
    assert statistics.probability_of_improvement(sac, crossq) == pytest.approx(0.122)
    of_tasks = [statistics.probability_of_improvement([x], [y]) for x, y in zip(sac, crossq)]
    assert of_tasks == pytest.approx([0.12, 0.08, 0.04, 0.27, 0.1])
    assert statistics.performance_profile(sac, [500, 2000]) == pytest.approx([0.76, 0.2])
    low, high = statistics.stratified_bootstrap(sac, statistics.pooled_iqm)
    assert (low, high) == (pytest.approx(800.2, abs=8), pytest.approx(1047.0, abs=12))


def test_published_results_are_found_by_name():
    assert {*published("BRO").curves} == {"BRO (UTD 2)", "BRO (UTD 10)"}
    assert len(published().curves) == 14
    assert len(published("xqc").curves["XQC (UTD 2)"]["Hopper-v4"]) == 10
    with pytest.raises(UnknownName, match="'XQCC'.*XQC"):
        published("XQCC")


SIMBA = """,exp_name,env_name,seed,metric,env_step,value
0,A,HalfCheetah_v4,0,avg_return,1000.0,10.0
1,A,HalfCheetah_v4,0,avg_success,1000.0,0.0
2,A,HalfCheetah_v4,0,avg_return,2000.0,20.0
3,A,HalfCheetah_v4,1,avg_return,2000.0,40.0
4,A,HalfCheetah_v4,1,avg_return,1000.0,30.0
"""


def test_tables_are_read_by_metric_and_with_underscores(tmp_path):
    (tmp_path / "simba.csv").write_text(SIMBA)
    curves = read_results(tmp_path / "simba.csv").curves["A"]["HalfCheetah-v4"]
    assert [curve.at(2000)[1] for curve in curves] == [20.0, 40.0]
    (tmp_path / "plain.csv").write_text("algo,task,run,steps,return\nB,Hopper-v5,7,50,1.5\n")
    assert read_results(tmp_path / "plain.csv").curves["B"]["Hopper-v5"][0].at(50) == (50.0, 1.5)


def test_results_of_dopamine_have_a_seed_after_each_restart(tmp_path):
    records = [
        {"Iteration": i, "Value": value, "Agent": agent}
        for agent, seeds in (("DQN", [[1, 2], [3, 4]]), ("Rainbow", [[5, 6]]))
        for values in seeds
        for i, value in enumerate(values)
    ]
    (tmp_path / "pong.json").write_text(json.dumps(records))
    results = read_results(tmp_path / "pong.json")
    assert [c.at(500_000)[1] for c in results.curves["DQN"]["pong"]] == [2, 4]
    assert [c.at(250_000)[1] for c in results.curves["Rainbow"]["pong"]] == [5]
    assert results.returns == dict.fromkeys(("DQN", "Rainbow"), "training episodes")


@pytest.mark.parametrize(
    "name, text",
    [
        ("a.csv", "x,y\n1,2\n"),
        ("a.csv", "algo,task,run,steps,return\nB,Hopper-v5,7,many,1.5\n"),
        ("a.csv", "algo,task,run,steps,return\n"),
        ("a.json", "{}"),
        ("a.json", '[{"Agent": "DQN"}]'),
        ("a.json", "["),
        ("a.json", "[" * 100_000),
        ("a.json", '[{"Agent": "DQN", "Iteration": 1e999, "Value": 1}]'),
        ("a.json", f'[{{"Agent": "DQN", "Iteration": "{"9" * 400}", "Value": 1}}]'),
        ("a.csv", "\udcff\udcfe"),
        ("a.csv", "algo,task,run,steps,return\n" + "x" * 200_000),
        *(("a.csv", "pipe"), ("a.json", "pipe"), ("a.csv", "endless"), ("a.json", "endless")),
    ],
    ids=range(15),
)
def test_files_that_are_no_results_are_named(tmp_path, name, text):
    if text == "pipe":
        os.mkfifo(tmp_path / name)
    elif text == "endless":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        (tmp_path / name).write_text(text, errors="surrogateescape")
    with pytest.raises(DamagedFile, match=name.replace(".", r"\.")):
        read_results(tmp_path / name)


def test_names_of_others_do_not_control_the_terminal(tmp_path, capsys):
    name = "B\x1b]0;title\x07\x1b[8m"
    (tmp_path / "a.csv").write_text(f"algo,task,run,steps,return\n{name},Hopper-v5,7,10,1.5\n")
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "a.csv"), "--against", str(tmp_path / "a.csv")])
    output = capsys.readouterr().out
    assert r"B\x1b]0;title\x07\x1b[8m" in output and output.replace("\n", "").isprintable()


def test_written_results_are_read_again(tmp_path):
    results = published("SimBa")
    write_results(results, tmp_path / "own.csv")
    again = read_results(tmp_path / "own.csv")
    assert again.curves.keys() == results.curves.keys()
    for algorithm, tasks in results.curves.items():
        for task, curves in tasks.items():
            for one, other in zip(curves, again.curves[algorithm][task], strict=True):
                assert (one.steps == other.steps).all() and (one.returns == other.returns).all()


def results_of(label, task, values, steps=(1000,)):
    results = Results()
    for value in values:
        results.add(label, task, steps, [value] * len(steps))
    return results


def test_a_comparison_is_at_the_last_step_of_both():
    ours = results_of("ours", "HalfCheetah-v5", [1, 2, 3], (500, 1000))
    theirs = results_of("theirs", "HalfCheetah-v4", [0, 1, 2], (980, 2000))
    (pair,) = compare(ours, theirs)
    assert pair.step == 1000 and pair.better[0] == pytest.approx(7 / 9)
    assert pair.one.mean[0] == 2 and pair.one.mean[1] <= pair.one.iqm[0] <= pair.one.mean[2]
    line, returns, rows = differences([pair], {"ours": "evaluations of 20 episodes"})
    assert line == "HalfCheetah-v5: ours; HalfCheetah-v4: theirs"
    assert returns == "evaluations of 20 episodes: ours; unknown returns: theirs"
    assert rows == "rows at 1,000: ours; rows at 980: theirs"
    assert not differences(compare(ours, ours), {"ours": "x"})
    near = results_of("near", "HalfCheetah-v5", [0], (999,))
    assert not differences(compare(near, ours, [1000]), dict.fromkeys(("near", "ours"), "x"))
    with pytest.raises(ValueError, match="theirs in HalfCheetah-v4 .*step 500.*980"):
        compare(ours, theirs, steps=[500])
    with pytest.raises(ValueError, match=r"no task in common: HalfCheetah-v5 against Hopper-v4"):
        compare(ours, results_of("theirs", "Hopper-v4", [1]))


def test_algorithms_without_a_row_near_a_step_are_left_out():
    ours = results_of("ours", "Hopper-v5", [1, 2], (500, 1000))
    late = results_of("late", "Hopper-v4", [1], (1000,))
    with pytest.warns(UserWarning, match=r"left out: late in Hopper-v4 \(.*step 500") as warned:
        found = compare(ours, merged([results_of("a", "Hopper-v4", [0], (500, 1000)), late]), [500])
    assert len(warned) == 1 and [pair.other.label for pair in found] == ["a"]


def test_improvement_over_tasks_is_the_mean_of_theirs():
    tasks = {"Hopper-v5": ([1, 2, 3], [0, 1, 2]), "Ant-v5": ([1, 2], [3, 4, 5])}
    ours = merged([results_of("ours", task, x) for task, (x, _) in tasks.items()])
    theirs = merged([results_of("theirs", task, y) for task, (_, y) in tasks.items()])
    ((step, *labels, n_tasks, (p, low, high)),) = over_tasks(compare(ours, theirs))
    assert (step, labels, n_tasks) == (None, ["ours", "theirs"], 2)
    assert p == pytest.approx((7 / 9 + 0) / 2) and low < p < high
    assert over_tasks(compare(ours, theirs, [1000]), [1000])[0][0] == 1000
    assert over_tasks(compare(ours, results_of("theirs", "Ant-v5", [1]))) == []


def write_run(path, rows, evaluation=None, **settings):
    path.mkdir(parents=True)
    config = {
        "format": 1,
        "algo_name": "sac",
        "env": "Hopper-v5",
        "seed": int(path.name),
        **settings,
    }
    (path / "config.json").write_text(json.dumps(config))
    lines = ["Diagnostics/CumSteps,ReturnAverage", *(f"{step},{value}" for step, value in rows)]
    (path / "progress.csv").write_text("\n".join(lines) + "\n")
    if evaluation is not None:
        (path / "evaluation.json").write_text(json.dumps({"returns": evaluation}))


def test_returns_of_runs_are_those_of_evaluations(tmp_path):
    rows = [(1000, 1.0), (2000, 2.0)]
    for seed in range(2):
        write_run(tmp_path / "at-end" / f"{seed}", rows, [10.0, 20.0])
        write_run(
            tmp_path / "often" / f"{seed}", rows, [9.0], eval_interval_steps=1000, eval_episodes=7
        )
        write_run(tmp_path / "never" / f"{seed}", rows)

    def of(name):
        results = read_results(tmp_path / name)
        ((label, tasks),) = results.curves.items()
        return [[*curve.returns] for curve in tasks["Hopper-v5"]], results.returns[label]

    assert of("at-end") == ([[15.0]] * 2, "evaluations of 2 episodes")
    assert of("often") == ([[1.0, 2.0]] * 2, "evaluations of 7 episodes")
    assert of("never") == ([[1.0, 2.0]] * 2, "training episodes")
    with pytest.raises(ValueError, match="column Missing"):
        read_results(tmp_path / "never", "Missing")


def test_scores_of_games_are_compared_not_clipped_returns(tmp_path):
    write_run(tmp_path / "0", [(1000, 9.0)], env="Pong", eval_interval_steps=1000)
    file = tmp_path / "0" / "progress.csv"
    header, row = file.read_text().split()
    file.write_text(f"{header},GameScoreAverage\n{row},130\n")
    ((curve,),) = [tasks["Pong"] for tasks in read_results(tmp_path).curves.values()]
    assert curve.returns == [130]


def test_small_returns_are_shown_with_their_digits(tmp_path, capsys):
    for i, value in enumerate((0.3, 12.5)):
        write_run(tmp_path / f"{i}" / "0", [(1000, value)])
    against = ["--against", str(tmp_path / "1")]
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "0"), *against, "--csv", str(tmp_path / "own.csv")])
    output = capsys.readouterr().out
    assert "0.300 [0.300, 0.300]" in output and "12.5 [12.5, 12.5]" in output
    with pytest.raises(SystemExit):
        args = ["--y", "Diagnostics/CumSteps", "--csv", str(tmp_path / "steps.csv")]
        main(["compare", str(tmp_path / "0"), *against, *args])
    assert "Diagnostics/CumSteps" in (tmp_path / "steps.csv").read_text()


def test_runs_of_scripts_and_without_a_return_are_compared_as_they_are(tmp_path, capsys):
    header = "Diagnostics/CumSteps,ReturnAverage,Diagnostics/TrajsInEval\n"
    for side, seed in itertools.product("ab", range(2)):
        path = tmp_path / side / f"run_{seed}"
        path.mkdir(parents=True)
        sampler = {"kwargs": {"env_kwargs": {"id": "Hopper-v5"}}}
        parts = {"runner": {"kwargs": {"sampler": sampler}}}
        (path / "parts.json").write_text(json.dumps(parts))
        value = "nan" if side == "a" and seed else seed
        (path / "progress.csv").write_text(f"{header}1000,{value},4\n")
    write_run(tmp_path / "trained" / "0", [(1000, 1.0)])
    with pytest.warns(UserWarning, match="left out, without a number .*run_1"):
        ours = read_results(tmp_path / "a")
    assert [c.at(1000)[1] for c in ours.curves["a"]["Hopper-v5"]] == [0.0]
    words = "evaluations of 4 episodes"
    theirs = read_results(tmp_path / "b")
    assert ours.returns == {"a": words} and theirs.returns == {"b": words}
    assert differences(compare(ours, theirs), ours.returns | theirs.returns) == []
    unnamed = [results_of(name, "", [1.0]) for name in "xy"]
    assert differences(compare(*unnamed), {}) == []
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "b"), "--against", str(tmp_path / "trained")])
    assert f"They differ: {words}: b; training episodes: sac." in capsys.readouterr().out
    for run in (tmp_path / "b").iterdir():
        (run / "progress.csv").write_text(f"{header}0,0,4\n500,nan,0\n1000,1,5\n")
    words = "evaluations of an unknown number of episodes"
    assert read_results(tmp_path / "b").returns == {"b": words}


def test_seeds_of_several_sources_are_put_together():
    parts = [results_of("a", "Hopper-v5", [1.0]), results_of("a", "Hopper-v5", [2.0])]
    assert [c.at(1000)[1] for c in merged(parts).curves["a"]["Hopper-v5"]] == [1.0, 2.0]


def test_runs_with_other_settings_are_not_seeds_of_one_algorithm(tmp_path):
    for name, lr in (("a", 0.1), ("b", 0.2), ("c", 0.1)):
        write_run(tmp_path / name / "0", [(1000, 10 * lr)], **{"algo.learning_rate": lr})
    ours, theirs = read_sides([tmp_path / "a", tmp_path / "b"], [tmp_path / "c"])
    assert {label: len(of["Hopper-v5"]) for label, of in ours.curves.items()} == {
        "learning_rate=0.1": 1,
        "learning_rate=0.2": 1,
    }
    assert list(theirs.curves) == ["learning_rate=0.1 (against)"]
    assert theirs.returns == {"learning_rate=0.1 (against)": "training episodes"}
    tables = [tmp_path / name / "x.csv" for name in "ab"]
    for table in tables:
        write_results(results_of("sac", "Hopper-v5", [1.0]), table)
    assert [list(side.curves) for side in read_sides(tables[:1], tables[1:])] == [
        ["sac"],
        ["sac (against)"],
    ]


def test_differences_between_the_sides_are_told_if_their_settings_are_equal(tmp_path, capsys):
    write_run(tmp_path / "a" / "0", [(1000, 1.0)], [10.0])
    write_run(tmp_path / "b" / "0", [(1000, 1.0)])
    with pytest.raises(SystemExit):
        main(["compare", str(tmp_path / "a"), "--against", str(tmp_path / "b")])
    output = capsys.readouterr().out
    assert "evaluations of 1 episode: sac; training episodes: sac (against)" in output
    write_run(tmp_path / "a" / "1", [(1000, 1.0)])
    with pytest.warns(UserWarning, match="of 1 episode: 0; training episodes: 1"):
        assert read_results(tmp_path / "a").returns == {
            "sac": "evaluations of 1 episode and training episodes"
        }


def test_by_command(tmp_path, capsys):
    for seed in range(3):
        write_run(tmp_path / "sac" / f"{seed}", [(100_000, 0.0)], [3000.0 + seed])
        write_run(tmp_path / "sac" / f"1{seed}", [(100_000, 0.0)], [-99.0], env="Ant-v4")
    plot, table = tmp_path / "plot.png", tmp_path / "own.csv"
    args = [str(tmp_path / "sac"), "--against", "SAC", "XQC", "-o", str(plot), "--csv", str(table)]
    with warnings.catch_warnings(), pytest.raises(SystemExit) as end:
        warnings.simplefilter("error")
        main(["compare", *args])
    output = capsys.readouterr().out
    assert not end.value.code and plot.stat().st_size > 1000 and table.exists()
    assert "100,000" in output and "SAC (UTD 1)" in output and "1.00 [1.00, 1.00]" in output
    assert "They differ: Hopper-v5: " in output and "evaluations of 1 episode: " in output
    assert re.search(r"2 tasks +last +sac > SAC \(UTD 1\) +0.50 \[0.50, 0.50\]", output)
