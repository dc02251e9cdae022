"""The gallery shows videos that exist, and the numbers of the kept runs."""

from benchmarks.gallery import PAGE, TASKS, render


def test_the_page_is_that_of_the_data():
    text = PAGE.read_text()
    assert render(text) == text


def test_every_task_has_a_small_video():
    assert [task.title for task in TASKS if not task.video.exists()] == []
    assert max(task.video.stat().st_size for task in TASKS) < 1_000_000
