"""The documentation site builds without warnings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


# The theme copies the lists of contents of all pages for each page: with those of objects in the
# API reference, which are on the right of its pages, for a third of the time.
PLAIN = ["-D", "toc_object_entries=0"]


@pytest.mark.timeout(600)  # the API reference takes a minute on a core of its own
@pytest.mark.parametrize(
    "settings",
    [PLAIN, pytest.param([], marks=pytest.mark.slow)],
    ids=["without contents of objects", "as published"],
)
def test_the_site_builds_without_warnings(settings, tmp_path):
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", tmp_path / "trees"]
    done = subprocess.run(
        [*build, *settings, ROOT / "docs", tmp_path / "site"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    index = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert 'href="sampling.html"' in index and "/blob/main/SECURITY.md" in index
    first_run = (tmp_path / "site" / "first_run.html").read_text(encoding="utf-8")
    assert 'href="checkpoints.html"' in first_run and ">checkpoints.md<" not in first_run
    api = tmp_path / "site" / "api"
    environments = (api / "environments" / "environments.html").read_text(encoding="utf-8")
    assert "EnvStep" in environments and "Alias for field" not in environments
    models = (api / "models" / "bases.html").read_text(encoding="utf-8")
    assert "Return the memory, a module with" in models and ">Type<" not in models
    assert '<div class="highlight-bash' in first_run  # long commands are wrapped
    for page, shown in {
        "concepts": 'src="_images/concepts.svg"',
        "architecture": 'src="_images/architecture.svg"',
        "algorithms/vtrace": '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">',
    }.items():
        text = (tmp_path / "site" / f"{page}.html").read_text(encoding="utf-8")
        assert shown in text and r"\frac" not in text and "<mi>&</mi>" not in text
        loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', text)
        assert loaded and not [url for url in loaded if "//" in url]  # shown without network
