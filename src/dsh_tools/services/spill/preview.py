"""Head and tail of a long text, within a number of bytes (HOST-101 to 103)."""

from __future__ import annotations

import re

from .records import SavedText

__all__ = ["bounded_text", "utf8", "utf8_text"]

_GAP = "\n[…]\n"
_BLANK_LINE = "\n\n"
_OPENING = re.compile(r"[\[{]\n( +)\S")
_CLOSING = {"[": "\n]", "{": "\n}"}


def bounded_text(text: str, saved: SavedText, cap: int) -> str | None:
    """Return what stands for ``text`` in at most ``cap`` bytes; None where not even the notice fits.

    The notice is priced with the full length, so that it never grows into the room of the
    preview. The head gets the odd byte.
    """
    data = utf8(text)
    room = cap - len(utf8(_notice(len(data), saved)))
    if room < 0:
        return None
    room -= len(utf8(_BLANK_LINE + _GAP))
    head, tail = ("", "") if room <= 0 else _cut(text, data, room - room // 2, room // 2)
    if not head and not tail:
        return _notice(len(data), saved)
    omitted = len(data) - len(utf8(head)) - len(utf8(tail))
    return f"{head}{_GAP}{tail}{_BLANK_LINE}{_notice(omitted, saved)}"


def _notice(omitted: int, saved: SavedText) -> str:
    stored = f"Full formatted result stored at: {saved.locator}. {saved.retrieval_hint}"
    return f"(Omitted {omitted} bytes. {stored})"


def _cut(text: str, data: bytes, head_bytes: int, tail_bytes: int) -> tuple[str, str]:
    """Cut between characters, each end for itself; JSON between elements, where any fit (HOST-103)."""
    head, tail = utf8_text(_head(data, head_bytes)), utf8_text(_tail(data, tail_bytes))
    opening = _OPENING.match(text)
    if opening is None or not text.endswith(_CLOSING[text[0]]):
        return head, tail
    return _whole_elements(head, tail, opening[1])


def _head(data: bytes, size: int) -> bytes:
    while size > 0 and data[size] & 0xC0 == 0x80:
        size -= 1
    return data[:size]


def _tail(data: bytes, size: int) -> bytes:
    start = len(data) - size
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


def _whole_elements(head: str, tail: str, indent: str) -> tuple[str, str]:
    """Shorten both ends to whole elements of pretty JSON: outermost ones, or else any.

    A line feed in pretty JSON is never inside a text, so a comma before it ends an element.
    """
    outermost = re.compile(f",\n(?={indent}\\S)")
    cuts = [found.start() for found in outermost.finditer(head)] or [
        found.start() for found in re.finditer(",\n", head)
    ]
    start = outermost.search(tail) or re.search(",\n", tail)
    return head[: cuts[-1] + 1] if cuts else "", "" if start is None else tail[start.end() :]


def utf8(text: str) -> bytes:
    """Encode a text; a lone surrogate takes three bytes and comes back as it was."""
    return text.encode("utf-8", errors="surrogatepass")


def utf8_text(data: bytes) -> str:
    """Decode what :func:`utf8` encoded."""
    return data.decode("utf-8", errors="surrogatepass")
