"""Settings of the documentation site: ``make docs`` builds it into ``docs/_build``."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/astooke/rlpyt"

project = "rlpyt"
release = runpy.run_path(str(ROOT / "rlpyt" / "version.py"))["VERSION"]
extensions = ["myst_parser", "sphinxcontrib.mermaid"]
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"rlpyt {release}"
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]


def setup(app):
    """Point links to files beside ``docs`` at the repository."""

    def link(app, name, source):
        source[0] = source[0].replace("](../", f"]({REPOSITORY}/blob/main/")

    app.connect("source-read", link)
