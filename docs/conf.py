"""Settings of the documentation site: ``make docs`` builds it into ``docs/_build``."""

import dataclasses
import gc
import inspect
import os
import re
import runpy
from pathlib import Path
from pkgutil import resolve_name

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.util.inspect import stringify_signature

gc.disable()  # collections take a fifth of the time of a build, which needs 0.8 GB without them

ROOT = Path(__file__).parents[1]
# The workflow that publishes the site sets the variable.
PACKAGE = runpy.run_path(str(ROOT / "rlpyt" / "version.py"))
FORK = os.environ.get("GITHUB_REPOSITORY")
REPOSITORY = f"https://github.com/{FORK}" if FORK else PACKAGE["REPOSITORY"]

project = "rlpyt"
release = PACKAGE["VERSION"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.napoleon",
    "sphinx_design",
]
root_doc = "index"
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"rlpyt {release}"
html_static_path = [
    *("images/halfcheetah.mp4", "images/halfcheetah-poster.png", "site.css"),
    *(str(path) for path in (ROOT / "docs" / "images" / "gallery").glob("*.mp4")),
]
html_css_files = ["site.css"]
html_search_scorer = str(ROOT / "docs" / "search.js")
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
highlight_language = "text"  # of blocks without a language, which are commands and output
default_role = "code"  # docstrings have `name` for names
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_use_ivar = True
html_show_copyright = False
suppress_warnings = ["ref.python"]  # attributes of one name in several classes
python_maximum_signature_line_length = 88  # longer ones have a line for each argument
python_display_short_literal_types = True
autodoc_preserve_defaults = True

HYPERPARAMETERS = re.compile(r"^<!-- hyperparameters ([\w.:]+) -->$", re.MULTILINE)
MARKS = re.compile(r"(`[^`]*`)|(?<![\\*\w])(\*(?=\w)|\|)")  # of [*lead, A] and |x|, outside of code
FILE_LINK = re.compile(r"\[[\w./]+\.md\](?=\([\w./]+\.md(#[\w-]+)?\))")  # [page.md](page.md)
FILE = re.compile(r"(?<=[:,#] )(\w+)\.md\b")  # of a page, in comments of commands
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
COMMANDS = ("rlpyt ", "python ", "pip ", "make ", "git ", "torchrun ", "export ")
RESULTS = re.compile(r"^<!-- results (.+) -->$", re.MULTILINE)
SHELL = re.compile(r'(?s)<div class="highlight-bash .*?</pre>|<span class="pre">-.*?</span>')
FLAG = re.compile(r"(?<=[\s>])--?[a-z][\w.-]*")


def hyperparameters(name):
    """Return a Markdown table of the fields that a class declares by ``setting(...)``."""
    rows = ["| name | default | range | meaning |", "|---|---|---|---|"]
    for field in sorted(dataclasses.fields(resolve_name(name)), key=lambda field: field.kw_only):
        limits = field.metadata.get("limits")
        if limits is not None and limits.doc:
            default = getattr(field.default, "__name__", repr(field.default))
            allowed = limits.help[len(limits.doc) :].strip(" []")
            meaning = limits.doc.replace("|", "\\|")
            rows.append(f"| `{field.name}` | `{default}` | {allowed} | {meaning} |")
    return "\n".join(rows)


def results(experiments):
    """Return a Markdown table with rows of the pages of results."""
    pages = (ROOT / "docs" / "results").glob("*.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    cells = [line.strip("| ").split(" | ") for line in lines if line[:2] == "| "]
    found = {row[0]: row for row in cells if len(row) == 6}  # rows of experiments
    commands = dict(line.split("  # ")[::-1] for line in lines if "  # " in line)
    rows = ["| command | mean | seeds | evaluation |", "|---|---|---|---|"]
    for experiment in experiments.split():
        _, _, mean, seeds, evaluation, _ = found[experiment]
        rows.append(f"| `{commands[experiment]}` | {mean} | {seeds} | {evaluation} |")
    return "\n".join(rows)


def as_shell(block):
    """Return a block, as one of the shell if it has no language and begins with a command."""
    if not block[2].startswith(COMMANDS):
        return block[0]
    commands = FILE.sub(r"\1.html", block[2])
    return f"```{block[1] or 'bash'}\n{commands}```"


def complete(app, name, source):
    """Insert generated tables and titles in links; files outside ``docs`` are on GitHub."""
    source[0] = BLOCK.sub(as_shell, source[0])
    source[0] = HYPERPARAMETERS.sub(lambda found: hyperparameters(found[1]), source[0])
    source[0] = RESULTS.sub(lambda found: results(found[1]), source[0])
    outside = "](" + "../" * (1 + name.count("/"))
    source[0] = source[0].replace(outside, f"]({REPOSITORY}/blob/main/")
    source[0] = FILE_LINK.sub("[]", source[0])  # MyST inserts the title of the page or section


def signature(app, what, name, cls, options, given, returned):
    """Show the arguments of a class's ``__init__``; parts of a run have a general ``__new__``."""
    if what != "class":
        return None
    if not inspect.isfunction(cls.__init__):  # written in C
        return None
    if dataclasses.is_dataclass(cls):
        return "(**hyperparameters)", returned
    _self, *arguments = inspect.signature(cls.__init__).parameters.values()
    return stringify_signature(
        inspect.Signature(arguments), short_literals=True, unqualified_typehints=True
    ), ""


def linkcode_resolve(domain, info):
    """Return the address of an object's source, for the links of the API reference."""
    try:
        found = resolve_name(f"{info['module']}:{info['fullname']}")
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        file = Path(inspect.getsourcefile(found)).relative_to(ROOT)
        lines, first = inspect.getsourcelines(found)
    except (AttributeError, TypeError, ValueError, OSError):  # an attribute, or made elsewhere
        return None
    return f"{REPOSITORY}/blob/main/{file}#L{first}-L{first + len(lines) - 1}"


def keep_colon(app, what, name, value, options, lines):
    """Hide a colon from Napoleon, for which the text before it is the type of a property."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace(":", "\0")


def escape(app, what, name, value, options, lines):
    """Escape ``**kwargs``, which is bold text to docutils, and mark indented code as such."""
    text = "\n".join(lines).replace("\0", ":").replace(":param **", r":param \*\*")
    text = MARKS.sub(lambda found: found[1] or f"\\{found[2]}", text)
    text = re.sub(r"(?m)^([^\s:*-].*\n)\n(?= {4}\S)", r"\1\n::\n\n", text)
    lines[:] = text.split("\n")


def skip(app, what, name, member, skipped, options):
    """Leave out attributes that are classes, fields of named tuples, and imported names."""
    if str(member.__doc__).startswith("Alias for field number"):  # the signature has them
        return True
    if what == "class":
        return True if isinstance(member, type) else None
    return None if str(getattr(member, "__module__", "rlpyt")).startswith("rlpyt") else True


def formula(translator, node):
    """Write a formula as MathML, which browsers show without scripts and without a network."""
    latex = node.astext().replace(r"\log ", r"\,\log\, ").replace(r"\sim", r"\,\sim\,")
    if isinstance(node, nodes.math_block):
        lines = rf"\begin{{split}} {latex} \end{{split}}" if r"\\" in latex else latex
        translator.body.append(f'<div class="formula">{convert(lines, display="block")}</div>')
    else:
        translator.body.append(convert(latex))
    raise nodes.SkipNode


def keep_flags(app, page, template, context, doctree):
    """Mark the flags of commands, which site.css does not break at their hyphens."""
    context["body"] = SHELL.sub(
        lambda code: FLAG.sub(r'<span class="flag">\g<0></span>', code[0]), context.get("body", "")
    )


def setup(app):
    """Connect the functions above."""
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))
    app.connect("source-read", complete)
    app.connect("html-page-context", keep_flags)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", keep_colon, priority=400)  # Napoleon's is 500
    app.connect("autodoc-process-docstring", escape)
    app.connect("autodoc-skip-member", skip)
