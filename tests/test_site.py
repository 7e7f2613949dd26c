"""The site that ``make docs`` builds: strictly, quickly, and asking nobody for anything."""

import logging
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

import browser

mkdocs = pytest.importorskip("mkdocs", reason="needs the extra docs")
pytest.importorskip("latex2mathml", reason="needs the extra docs")
ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow
FOUND = {
    "gittins": "The Gittins index",
    "resume": "Training",
    "csv": "Your data",
    "which sources help": "Does choosing help on my data?",
}
"""What people search for, and a page that has to be among the first that they see."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
        logging.getLogger("mkdocs").setLevel(logging.WARNING)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    return folder


def test_no_page_asks_another_machine_for_anything(site):
    outside = re.compile(
        r"""<(?:script|img|iframe)[^>]*\bsrc="?(?:https?:)?//|<link[^>]*\bhref="?https?://(?!.*canonical)"""
    )
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 20
    assert [page.name for page in pages if outside.search(page.read_text())] == []
    assert [file.name for file in site.rglob("*.css") if "//fonts." in file.read_text()] == []


def test_make_docs_fails_on_a_broken_link(tmp_path):
    (command,) = re.findall(r"^\t@.*\$\(BIN\)/(mkdocs .+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[nowhere](gone.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: broken\n")
    done = subprocess.run([sys.executable, "-m", *shlex.split(command)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "gone.md" in done.stderr


def test_words_of_the_glossary_are_links_where_a_page_first_uses_them():
    import site_glossary

    anchors = site_glossary.words("# Glossary\n\n## Cell, cells\n\nA batch.\n\n## Draw\n\n## Source\n")
    assert anchors == {"cell": "cell-cells", "cells": "cell-cells", "source": "source"}
    html = "<h1>Sources</h1><p>A <code>source</code> and two Sources run in cells; a cell of a source.</p>"
    linked = site_glossary.linked(html, anchors, "glossary.html")
    assert linked.count("<a ") == 2
    assert '<a class="glossary" href="glossary.html#source">Sources</a> run' in linked
    assert '<a class="glossary" href="glossary.html#cell-cells">cells</a>; a cell of a source' in linked
    assert "<h1>Sources</h1>" in linked


def test_equations_are_drawn_without_scripts(site):
    pages = [page.read_text() for page in (site / "explained").glob("*.html")]
    assert any("<math" in page for page in pages)
    assert not any("arithmatex" in page for page in pages)


@pytest.mark.skipif(browser.find() is None, reason="needs chromium on the PATH")
def test_search_finds_its_words_from_disk_without_a_message_or_a_request(site):
    pytest.importorskip("websocket")
    with browser.started() as new_page:
        page = new_page()
        page.resize(1280)
        page.open(site / "index.html", ready="document.querySelector('.md-search__input')")
        for words, title in FOUND.items():
            page.evaluate("document.querySelector('.md-search__input').select()")
            page.call("Input.insertText", text=words)
            page.key("Shift", 16)  # the search listens for keys that come up
            assert title in found(page, words)[:4]
        assert page.errors() == []
        assert [address for address in page.requests() if not address.startswith("file:")] == []


@pytest.mark.skipif(browser.find() is None, reason="needs chromium on the PATH")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_have_no_background_of_their_own_on_light_and_on_dark_pages(site, scheme, tmp_path):
    pytest.importorskip("websocket")
    image = pytest.importorskip("PIL.Image")
    with browser.started() as new_page:
        page = new_page()
        page.resize(1280)
        page.colours(scheme)
        for name in ("index", "results", "explained/transfer"):
            page.open(site / f"{name}.html", ready="document.querySelector('.md-typeset img')?.complete")
            box = "document.querySelector('.md-typeset img').getBoundingClientRect()"
            x, y = round(page.evaluate(f"{box}.left")), round(page.evaluate(f"{box}.top"))
            page.screenshot(tmp_path / "page.png", whole=False)
            with image.open(tmp_path / "page.png") as seen:
                colours = [seen.convert("RGB").getpixel((across, y + 3)) for across in (x - 5, x + 3)]
            assert colours[0] == colours[1], f"{name}: {colours}"
            assert (sum(colours[0]) > 700) == (scheme == "light"), f"{name}: {colours}"


def found(page, words, seconds=600):
    """Titles of the pages that the search lists for some words."""
    for _ in range(seconds * 10):
        titles = page.evaluate(
            "[...document.querySelectorAll('.md-search-result__article h1')].map(e => e.textContent)"
        )
        marked = page.evaluate(
            "[...document.querySelectorAll('.md-search-result__article mark')].map(e => e.textContent)"
        )
        if titles and all(any(word in text.lower() for text in marked) for word in words.split()):
            return titles
        time.sleep(0.1)
    return []
