"""What MkDocs does not do by itself: pages of files outside docs/, pages by pattern, equations without scripts.

Markdown files link to each other by their place in the repository; where a page of the site is made of a file outside
``docs/``, links to it and in it are rewritten here, so that they work in both places.
"""

import ast
import fnmatch
import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
TEXTS = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Files of the repository that are pages as they stand."""

PAGES = {
    **{name: page for name, page in TEXTS.items() if (ROOT / name).exists()},
    **{f"examples/{name}.py": f"examples/{name}.md" for name in EXAMPLES},
}
ALIASES = {"README.md": "index.md", "examples": "examples/pytorch_loop.md", "docs": "index.md"}
ORIGINS = {page: name for name, page in PAGES.items()}
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=<)")
INTERVAL = re.compile(r"\[([+−-]?[\d.]+), ([+−-]?[\d.]+|∞)(?=[\])])")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write patterns in the navigation out, a folder's index first."""
    here = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    config.nav = [line for entry in config.nav or [] for line in expanded(entry, here | set(ORIGINS))]
    return config


def expanded(entry: Any, pages: set[str]) -> list[Any]:
    """What stands in the navigation for an entry of it: several pages where it is a pattern."""
    if isinstance(entry, dict):
        ((title, below),) = entry.items()
        nested = [line for one in below for line in expanded(one, pages)] if isinstance(below, list) else below
        return [{title: nested}]
    if "*" not in entry:
        return [entry]
    return sorted(fnmatch.filter(pages, entry), key=lambda page: (not page.endswith("index.md"), page))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of files outside docs/."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=_shown(name, text)))
    return files


def _shown(name: str, text: str) -> str:
    """A program as a page: what its docstring begins with as the title, all of it below."""
    if not name.endswith(".py"):
        return text
    docstring = ast.get_docstring(ast.parse(text)) or name
    title, _, about = docstring.partition(": ")
    return f"# {title}\n\n`{name}`: {about}\n\n```python\n{text}```\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository become links to their pages; pages of docs/ are what a search finds first."""
    del config, files
    here = page.file.src_uri
    if here in ORIGINS:
        page.meta["search"] = {"boost": 0.2}
    folder = posixpath.dirname(ORIGINS.get(here, f"docs/{here}"))

    def rewritten(link: re.Match[str]) -> str:
        place = posixpath.normpath(posixpath.join(folder, link[2]))
        target = PAGES.get(place) or ALIASES.get(place) or (place[5:] if place.startswith("docs/") else None)
        if target is None:
            return link[0]
        return link[1] + posixpath.relpath(target, posixpath.dirname(here) or ".") + link[3]

    return LINK.sub(rewritten, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Equations become MathML, which browsers draw themselves; roles are left out; no line breaks in an interval."""
    del page, config, files
    return INTERVAL.sub("[\\1,\u00a0\\2", EQUATION.sub(drawn, ROLE.sub("", html)))


def drawn(equation: re.Match[str]) -> str:
    """One equation as MathML."""
    return convert(unescape(equation[3]), display="block" if equation[2] == "[" else "inline")
