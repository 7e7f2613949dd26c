"""Words of the glossary become links where a page first uses them.

A word is a heading of level 2 in ``docs/glossary.md``; forms of it stand beside it after commas: ``## Draw, drawn``.
"""

import re

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

GLOSSARY = "glossary.md"
WITHOUT = ("reference/", "examples/", GLOSSARY, "changelog.md", "contributing.md")
"""Pages that are left alone."""
EVERYDAY = {"draw"}
"""Words that mostly mean on a page what they mean anywhere."""
LEFT_ALONE = re.compile(r"<(/?)(?:a|button|code|h[1-6]|math|pre|svg|th)\b")
"""Where a link has no place."""


def words(glossary: str) -> dict[str, str]:
    """The anchor of every form of every word that is linked, in lower case.

    >>> words("## Draw, drawn")
    {'drawn': 'draw-drawn'}
    """
    headings = re.findall(r"^## +(.+?) *$", glossary, re.MULTILINE)
    forms = {heading: [form.strip(" `").lower() for form in heading.split(",")] for heading in headings}
    return {
        form: slugify(heading, "-") for heading, several in forms.items() for form in several if form not in EVERYDAY
    }


def linked(html: str, anchors: dict[str, str], address: str) -> str:
    """A page whose first use of every word is a link to ``address#anchor``."""
    longest_first = sorted(anchors, key=len, reverse=True)
    word = re.compile(rf"\b({'|'.join(map(re.escape, longest_first))})(s?)\b", re.IGNORECASE)
    done: set[str] = set()

    def link(found: re.Match[str]) -> str:
        anchor = anchors[found[1].lower()]
        if anchor in done:
            return found[0]
        done.add(anchor)
        return f'<a class="glossary" href="{address}#{anchor}">{found[0]}</a>'

    inside, pieces = 0, []
    for piece in re.split(r"(<[^>]*>)", html):
        tag = LEFT_ALONE.match(piece)
        inside += 0 if tag is None else -1 if tag[1] else 1
        pieces.append(piece if inside or piece.startswith("<") else word.sub(link, piece))
    return "".join(pieces)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the words of one page."""
    del config
    glossary = files.get_file_from_path(GLOSSARY)
    if glossary is None or page.file.src_uri.startswith(WITHOUT):
        return html
    anchors = words(glossary.content_string)
    return linked(html, anchors, glossary.url_relative_to(page.file)) if anchors else html
