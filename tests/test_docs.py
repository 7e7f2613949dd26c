"""Every block of README and docs runs and prints what is shown, or says why not; every link leads somewhere."""

import re
from itertools import pairwise

import pytest

import blocks

PAGES = [pytest.param(path, id=str(path.relative_to(blocks.ROOT))) for path in blocks.pages()]
LANGUAGES = {"python", "console", "text", "json", "bibtex", "toml"}


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_a_page_runs_and_prints_what_it_shows(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    shown, lacking = blocks.run(path, quick=True)
    for output in shown:
        assert blocks.same(output.text, output.printed), f"line {output.line} prints:\n{output.printed}"
    if lacking:
        pytest.skip("; ".join(lacking))


@pytest.mark.parametrize("path", PAGES)
def test_every_block_says_what_it_is(path):
    found = blocks.blocks(path.read_text())
    assert [block.line for block in found if block.language not in LANGUAGES] == []
    assert [block.line for block in found if block.mark.startswith("not run") and not blocks.why_not(block)] == []


def test_a_page_that_prints_something_else_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 2\nprint(x, .501)\n```\n\n```text\n2 0.500\n```\n\n"
        "```python\nprint(x)\n```\n\n```text\n3\n```\n"
    )
    first, second = blocks.run(page, quick=True)[0]
    assert blocks.same(first.text, first.printed)
    assert not blocks.same(second.text, second.printed)
    assert not blocks.same("0.5\n", "0.6\n")
    assert blocks.same("a\n...\nb 3", "a\nc\nd\nb 3")


def test_a_command_that_is_not_ours_needs_a_reason(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ rm -rf everything\n```\n")
    with pytest.raises(ValueError, match="line 1: 'rm' is not metasched"):
        blocks.run(page, quick=True)
    page.write_text("<!-- not run: it is a warning -->\n" + page.read_text())
    assert blocks.run(page, quick=True) == ([], [])


WRITTEN = [*PAGES, *(pytest.param(blocks.ROOT / name, id=name) for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]


@pytest.mark.parametrize("path", WRITTEN)
def test_links_lead_to_files_and_headings_that_are_there(path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if ":" in target:
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("path", WRITTEN)
def test_a_number_that_ends_a_sentence_does_not_begin_a_line(path):
    """Markdown takes a line that begins with '14. ' for an item of a list."""
    numbers = [int(number) for number in re.findall(r"^ *(\d+)\. ", without_code(path.read_text()), re.M)]
    assert [second for first, second in pairwise([0, *numbers]) if second not in (1, first + 1)] == []


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(path):
    """Of the headings of a page, as repositories and the site make them."""
    headings = re.findall(r"^#+ +(.+?) *$", without_code(path.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
