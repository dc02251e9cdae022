"""The README with absolute links, for index pages; all other settings are in pyproject.toml.

pyproject.toml can name a README but not change it, and on an index page relative links are dead.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent
PAGES = "blob/main"  # of a repository
FILES = "raw/main"
LINK = re.compile(r'(\]\(|src=")(?![a-z]+:|#)([^)"]+)')


def absolute(readme: str, repository: str) -> str:
    """Return the README with links into the repository in place of relative ones."""

    def replace(match: "re.Match[str]") -> str:
        kind = FILES if match[2].endswith((".png", ".gif", ".svg")) else PAGES
        return f"{match[1]}{repository}/{kind}/{match[2]}"

    return LINK.sub(replace, readme)


if __name__ == "__main__":
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (HERE / "README.md").read_text(encoding="utf-8")
    setup(
        long_description=absolute(text, project["urls"]["Repository"]),
        long_description_content_type="text/markdown",
    )
