"""Reports: one self-contained, escaped HTML file."""

import json
from html.parser import HTMLParser

import pytest

from rlpyt.sweeps import report
from rlpyt.sweeps.directory import About, SweepDirectory
from rlpyt.sweeps.jobs import Attempt, Job
from rlpyt.sweeps.report import write_report
from rlpyt.sweeps.report_data import read_data
from rlpyt.sweeps.report_page import number, render
from rlpyt.vis.grouping import read_runs
from tests.sweeps.launching import RESOURCES

EVIL = "<script>alert('x')</script> & \"more\""
VOID = {"meta", "link"}


class Reader(HTMLParser):
    """Checks that elements close as they opened, and keeps what tests ask for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tables, self.ids = [], [], [], []
        self.pictures, self.references, self.attributes = [], [], set()
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.attributes |= given.keys()
        self.ids += [given["id"]] if "id" in given else []
        self.references += [v for k, v in attrs if k in ("href", "src", "xlink:href", "srcset")]
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag == "svg":
            self.pictures.append(given["aria-label"])
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def table(self, first):
        """The rows of the first table whose head begins so."""
        (rows, *_) = [rows for rows in self.tables if rows[0][0] == first]
        return [dict(zip(rows[0], row)) for row in rows[1:]]

    def text(self, tag=None):
        return "\n".join(data for within, data in self.texts if tag in (None, within))


def make_run(path, returns, evaluation=None, **config):
    path.mkdir(parents=True)
    head = "Diagnostics/CumSteps,Diagnostics/CumTime (s),ReturnAverage"
    rows = [f"{100 * (i + 1)},{i + 1},{value}" for i, value in enumerate(returns)]
    (path / "progress.csv").write_text("\n".join([head, *rows]) + "\n")
    (path / "config.json").write_text(json.dumps({"rlpyt": "1.0", **config}, indent=2))
    if evaluation is not None:
        (path / "evaluation.json").write_text(json.dumps({"return_mean": evaluation}))
    return path


def make_sweep(path):
    """Two settings with two seeds each; one run failed for good, one at first, one waits."""
    settings = [(rate, seed) for rate in (0.1, 0.01) for seed in (0, 1)]
    jobs = [
        Job(
            number=i,
            name=f"learning_rate_{rate}/run_{seed}",
            command=("rlpyt", "train", "ppo", "Cart Pole"),
            run_dir=f"learning_rate_{rate}/run_{seed}",
            settings={"algo.learning_rate": rate, "seed": seed},
            total_steps=200,
            retries=0,
            cwd="/somewhere",
        )
        for i, (rate, seed) in enumerate(settings)
    ]
    about = About(f"rates {EVIL}", RESOURCES, made_by="rlpyt sweep file.yaml")
    sweep = SweepDirectory.create(path, about, jobs)
    ends = [[0], [1], [-9, 0], []]
    for job, codes in zip(sweep.jobs(), ends):
        for attempt, code in enumerate(codes, start=1):
            job.prepare(
                Attempt(
                    attempt,
                    job.job.command,
                    cwd=job.job.cwd,
                    begun=100.0,
                    ended=190.0,
                    exit_code=code,
                    host="h1",
                )
            )
        if codes:
            rate, seed = settings[job.job.number]
            config = {"env": "CartPole-v1", "seed": seed, "algo": {"learning_rate": rate}}
            make_run(path / job.job.run_dir, [1, 10 * (seed + 1)], **config)
    job = sweep.jobs()[1]
    job.output.write_text(f"first line\nValueError: {EVIL}\n")
    return path


@pytest.fixture(scope="module")
def of_sweep(tmp_path_factory):
    path = make_sweep(tmp_path_factory.mktemp("sweep") / "rates")
    return Reader(write_report(path).read_text(encoding="utf-8"))


def test_a_sweeps_report_counts_and_lists_its_runs(of_sweep):
    assert [of_sweep.texts[i + 1][1] for i, (tag, n) in enumerate(of_sweep.texts)
            if tag == "b" and n in "12"][:3] == ["done", "failed", "queued"]  # fmt: skip
    runs = of_sweep.table("run")
    assert [run["state"] for run in runs] == ["done", "failed", "done", "queued"]
    assert [run["attempts"] for run in runs] == ["1", "1", "2", "0"]
    assert [run["steps"] for run in runs] == ["200", "200", "200", "-"]
    assert runs[0]["of"] == "200" and runs[0]["time"] == "01:30"
    assert "Slots" in of_sweep.text("dt") and "local (h1)" in of_sweep.text("dd")
    assert "2 (1 core each)" in of_sweep.text("dd")


def test_settings_are_columns_and_scores_match_hand_computed_values(of_sweep):
    small, large = sorted(of_sweep.table("learning_rate"), key=lambda row: row["learning_rate"])
    assert (small["learning_rate"], small["IQM"], small["runs"]) == ("0.01", "10", "1")
    assert (large["learning_rate"], large["mean"], large["seeds"]) == ("0.1", "10", "0")
    assert small["interval"] == "-"  # of a single run
    assert "finished runs (2), not of the others that have started (1)" in of_sweep.text("li")


def test_failures_show_their_outcome_and_last_output(of_sweep):
    (rows,) = [t for t in of_sweep.tables if "outcome" in t[0]]
    assert [row[:3] for row in rows[1:]] == [
        ["learning_rate_0.1/run_1", "1", "exit code 1"],
        ["learning_rate_0.01/run_0", "1", "killed by signal 9"],
    ]
    assert [row[-1] for row in rows[1:]] == ["failed", "done"]
    assert f"ValueError: {EVIL}" in of_sweep.text("pre")


def test_foreign_text_is_escaped(of_sweep, tmp_path):
    assert f"rates {EVIL}" in of_sweep.text("h1")
    assert len([tag for tag, _ in of_sweep.texts if tag == "script"]) == 1
    assert "alert" not in of_sweep.text("script")
    make_run(tmp_path / "<i>a" / "run_0", [1], env="<b>env", algo_name=EVIL)
    make_run(tmp_path / "</pre>b" / "run_0", [1], env="<b>env", algo_name='"')
    page = Reader(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "<b>env" in page.text("figcaption")
    assert {row["variant"] for row in page.table("variant")} == {"<i>a", "</pre>b"}
    assert not any(tag in ("i", "b") and "env" in data for tag, data in page.texts)


def test_the_report_names_the_command_that_created_the_sweep(of_sweep):
    assert ("dd", "rlpyt sweep file.yaml") in of_sweep.texts


def test_the_report_needs_no_other_files(of_sweep):
    assert of_sweep.tables and all(len(rows) > 1 for rows in of_sweep.tables)
    for rows in of_sweep.tables:
        assert {len(row) for row in rows} == {len(rows[0])}
    assert "CartPole-v1" in of_sweep.pictures and "Performance profiles" in of_sweep.pictures
    assert len(of_sweep.ids) == len(set(of_sweep.ids))
    for reference in of_sweep.references:
        assert reference == "data:," or reference[1:] in of_sweep.ids


def test_names_of_plots_may_have_characters_outside_html(tmp_path):
    make_run(tmp_path / "run_0", [1, 2], env="Cart\ud800\x1b[31mPole", algo_name="ppo")
    page = Reader(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "CartPole" in page.text("figcaption")


def test_a_report_of_any_directory_of_runs(tmp_path):
    config = {"env": "CartPole-v1", "algo_name": "ppo", "steps": 200}
    for seed in (0, 1):
        make_run(tmp_path / f"good{seed}", [1, 2], evaluation=5 + seed, seed=seed, **config)
    make_run(tmp_path / "short", [1], seed=2, **config)
    make_run(tmp_path / "empty", [], seed=3, env="pong", algo_name="ppo")
    output = write_report(tmp_path, tmp_path / "pages" / "new.html")
    page = Reader(output.read_text(encoding="utf-8"))
    states = {row["run"]: row["state"] for row in page.table("run")}
    assert states == {"good0": "done", "good1": "done", "short": "unfinished", "empty": "ended"}
    (row,) = page.table("variant")
    assert (row["variant"], row["IQM"], row["interval"]) == ("ppo", "5.5", "5 to 6")
    assert "finished runs (3), not of the others that have started (1)" in page.text("li")


def test_linked_runs_are_named_by_their_links(tmp_path):
    far = make_run(tmp_path / "far" / "run_0", [4, 6])
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen" / "best").symlink_to(far)
    page = Reader(write_report(tmp_path / "chosen").read_text(encoding="utf-8"))
    (row,) = page.table("run")
    assert row["run"] == "best"


def test_another_column_can_be_the_return(tmp_path):
    make_sweep(tmp_path / "sweep")
    make_run(tmp_path / "alone" / "run_0", [4, 6])
    for directory in (tmp_path / "sweep", tmp_path / "alone"):
        page = Reader(write_report(directory, y="Diagnostics/CumSteps").read_text(encoding="utf-8"))
        begun = [row for row in page.table("run") if row["steps"] != "-"]
        assert begun
        for row in begun:
            assert row["return"] == row["steps"].replace(",", "")


def test_runs_without_values_still_have_a_report(tmp_path):
    make_run(tmp_path / "r", [], env="pong")
    page = Reader(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "No run has logged its returns yet." in page.text("p")
    assert "no run has a final score" in page.text("li")
    assert page.pictures == []


def test_of_many_variants_the_best_are_drawn_and_all_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "MAX_DRAWN", 2)
    for i in range(4):
        make_run(tmp_path / f"v{i}" / "run_0", [i, i], env="pong", steps=200)
    study = read_data(tmp_path, "ReturnAverage", "auto")
    assert study.ranked("pong") == ["v3", "v2", "v1", "v0"]
    page = Reader(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "pong (the 2 best of 4 variants)" in page.pictures
    assert [row["variant"] for row in page.table("variant")] == ["v3", "v2", "v1", "v0"]


def test_no_runs_and_a_damaged_sweep_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no runs found"):
        write_report(tmp_path)
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "sweep.json").write_text("{")
    with pytest.raises(ValueError, match="sweep.json"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def page_with(title="t", **section):
    return render(title=title, sections=[{"title": "Part one", **section}])


def test_all_text_is_escaped():
    hostile = "</title><script>alert(1)</script>"
    states = {"head": ["state", hostile], "rows": [['" onclick="x', hostile]], "caption": hostile}
    details = [{"title": hostile, "pre": hostile}]
    page = Reader(page_with(hostile, text=hostile, tables=[states], details=details))
    assert page.text("title") == f"{hostile}: report"
    assert [page.text(tag) for tag in ("p", "caption", "summary", "pre", "td")] == [hostile] * 5
    assert "onclick" not in page.attributes and page.tables[0][0] == ["state", hostile]


def test_cells_are_sorted_by_their_numbers():
    rows = [[number(2.5, "2 1/2"), "a"], [number(None), "b"], [number(float("nan")), "c"]]
    content = page_with(tables=[{"head": ["n", "s"], "rows": rows}])
    assert '<th scope="col" class="number">n</th><th scope="col">s</th>' in content
    assert 'data-order="2.5">2 1/2</td>' in content and content.count('data-order="">-</td>') == 2
    assert Reader(content).ids == ["part-one"] and Reader(content).references[-1] == "#part-one"


def test_numbers_are_readable():
    values = [1200, 0.00123456, 123.456, 123456.7, -1e6]
    assert [number(value)[1] for value in values] == [
        "1,200", "0.001235", "123.5", "123457", "-1000000",
    ]  # fmt: skip


def test_terminal_colors_and_characters_outside_html_are_removed():
    content = page_with(text="a\x1b[31mred\x1b[0m\x00\n\tb \udc80\u00fc\U0001f600")
    assert "<p>ared\n\tb \u00fc\U0001f600</p>" in content
    content.encode("utf-8")


@pytest.mark.filterwarnings("ignore:.*lacks seed")
def test_variants_have_the_same_names_as_in_plots(tmp_path):
    path = make_sweep(tmp_path / "rates")
    with pytest.warns(UserWarning, match="finished runs"):
        study = read_data(path, "ReturnAverage", "auto")
    told = {entry.run.path: entry.run.label for entry in study.entries}
    assert set(told.values()) == {"learning_rate_0.1", "learning_rate_0.01"}
    for run in read_runs(path):
        assert run.label == told[run.path]
