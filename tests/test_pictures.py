"""The pictures, the figures of commands and the glossary say what they should, and can be made again."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def tool(name):
    spec = spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def terms():
    """The glossary: what is said of each word."""
    text = (DOCS / "glossary.md").read_text()
    return dict(re.findall(r"^## (.+)\n((?:.+\n)+)", text, re.MULTILINE))


def test_the_pictures_are_what_the_package_computes():
    done = subprocess.run([sys.executable, ROOT / "tools" / "pictures.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_page_that_explains_has_its_picture_an_equation_code_and_what_was_measured():
    for page in sorted((DOCS / "explained").glob("*.md")):
        text = page.read_text()
        assert f"(../figures/explained-{page.stem}.svg)" in text, page.name
        assert re.search(r"^\$\$.+\$\$$", text, re.MULTILINE), page.name
        assert "```python" in text, page.name
        assert re.search(r"<!-- = \S+ .+? -->", text.partition("## What we measured")[2]), page.name


def test_no_number_of_the_results_begins_a_line():
    """Markdown takes a line that begins with a comment for HTML, and breaks the paragraph there."""
    pages = [page for page in DOCS.rglob("*.md") if re.search(r"^ *<!-- = ", page.read_text(), re.MULTILINE)]
    assert pages == []


def test_every_figure_of_the_gallery_is_on_a_page():
    drawn = {f"gallery-{name}" for files in tool("gallery").MADE.values() for name in files}
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    assert set(re.findall(r"figures/(gallery-[\w-]+)\.svg", pages)) == drawn
    assert {file.stem for file in (DOCS / "figures").glob("gallery-*.svg")} == drawn


def test_the_photographed_report_is_that_of_the_command_beside_it():
    page, screenshots = (DOCS / "report.md").read_text(), tool("screenshots")
    assert f"$ {screenshots.COMMAND}\n" in page
    assert {f"figures/{shot.name}.png" for shot in screenshots.SHOTS} <= set(re.findall(r'"(figures/\S+)"', page))


def test_the_verdict_that_is_read_slowly_is_the_one_that_is_shown():
    page = (DOCS / "report.md").read_text()
    verdict = re.search(r"^\$ metasched demo .*\n(.*)$", page, re.MULTILINE)[1]
    pieces = re.findall(r"^\| `(.+?)` \|", page.partition("| The line |")[2].partition("\n\n")[0], re.MULTILINE)
    assert len(pieces) == 5
    assert [piece for piece in pieces if piece not in verdict] == []


def test_the_glossary_is_in_order_and_short():
    assert list(terms()) == sorted(terms(), key=str.lower)
    assert [word for word, said in terms().items() if said.count("\n") > 3] == []


def test_links_to_the_glossary_find_their_word():
    anchors = {word.lower().replace(" ", "-") for word in terms()}
    pages = {page: page.read_text() for page in DOCS.rglob("*.md")}
    wrong = [
        f"{page.name}: {anchor}"
        for page, text in pages.items()
        for anchor in re.findall(r"glossary\.md#([\w-]+)\)", text)
        if anchor not in anchors
    ]
    assert wrong == []
    inside = re.findall(r"\]\(#([\w-]+)\)", pages[DOCS / "glossary.md"])
    assert [anchor for anchor in inside if anchor not in anchors] == []
