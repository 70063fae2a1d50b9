"""HTML as Markdown."""

from __future__ import annotations

import logging
from collections import Counter
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

__all__ = ["MAX_DEPTH", "page_title", "to_markdown"]

_log = logging.getLogger("dsh_tools")

MAX_DEPTH = 512
"""Pages that nest deeper are left as they are (HOST-227)."""

_DROPPED = ("script", "style", "noscript", "template", "svg", "iframe", "head")
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
)


class _Outline(HTMLParser):
    """Finds how deep a page nests, and its title, without building a tree."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.deepest = 0
        self.title: str | None = None
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._open.append(tag)
            self._counts[tag] += 1
            self.deepest = max(self.deepest, len(self._open))

    def handle_endtag(self, tag: str) -> None:
        # As the real parser does: an end closes what is open inside, and one without a beginning nothing.
        while self._counts[tag]:
            closed = self._open.pop()
            self._counts[closed] -= 1
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "title" and "svg" not in self._open:
            self.title = (self.title or "") + data


def _outline(html: str) -> _Outline:
    outline = _Outline()
    outline.feed(html)
    outline.close()
    return outline


def page_title(html: str) -> str | None:
    """Return the page's title on one line, None where it has none."""
    title = " ".join((_outline(html).title or "").split())
    return title[:200] or None


def to_markdown(html: str, base: str) -> str:
    """Return a page's text as Markdown, or the page itself where that fails or it nests too deep.

    Parameters:
        base: the page's address; links become absolute.
    """
    # Imported here: the extra `web` brings both, and the parser is slow to load.
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    if _outline(html).deepest > MAX_DEPTH:
        return html
    try:
        soup: Any = BeautifulSoup(html, "html.parser")
        for element in soup(list(_DROPPED)):
            element.decompose()
        for element in soup.find_all(href=True):
            element["href"] = urljoin(base, str(element["href"]))
        for element in soup.find_all(src=True):
            element["src"] = urljoin(base, str(element["src"]))
        converter: Any = MarkdownConverter(heading_style="ATX", bullets="-")
        text: str = converter.convert_soup(soup)
    except Exception as error:
        _log.debug("a page could not be converted to Markdown", exc_info=error)
        return html
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(line for index, line in enumerate(lines) if line or (index and lines[index - 1]))
