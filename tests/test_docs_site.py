"""The documentation site builds without warnings."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w[\w-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def build(*arguments):
    """Build the site with warnings as errors; return the exit status and what was written."""
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


@pytest.mark.timeout(600)  # the API reference takes most of a minute on a core of its own
def test_the_pages_are_read_and_their_references_found_without_warnings(tmp_path):
    """Write no page: layout, search index and highlighting take a quarter of the time."""
    folders = ["-d", tmp_path / "trees", ROOT / "docs", tmp_path / "site"]
    assert build("-b", "dummy", *folders) == (0, "")


def test_blocks_of_code_are_of_the_language_that_they_name():
    found = 0
    for page in [path for path in ROOT.glob("docs/**/*.md") if "_build" not in path.parts]:
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            lexer = get_lexer_by_name(language)
            lexer.add_filter("raiseonerror", excclass=SyntaxError)
            assert [*lexer.get_tokens(text)], page
            found += 1
    assert found > 100


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_without_warnings(tmp_path):
    folders = ["-d", tmp_path / "trees", ROOT / "docs", tmp_path / "site"]
    assert build(*folders) == (0, "")
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
