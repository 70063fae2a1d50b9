"""Making text harmless before a terminal sees it.

What tools return is not trusted. A terminal obeys control characters and escape sequences, may order text by
bidirectional controls, and shows nothing for many characters. Here every such character becomes visible, so that
what is read is what is there. Colours survive in the output of commands only (:func:`command_line`).
"""

from __future__ import annotations

import re

from rich.ansi import AnsiDecoder
from rich.style import Style
from rich.text import Span, Text

__all__ = ["CommandOutput", "one_line", "plain"]

TAB_SIZE = 4


def _visible(point: int) -> str:
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


_INVISIBLE = (
    (0x80, 0xA0),  # C1 controls: U+009B is a control sequence introducer of one character
    (0xAD, 0xAE),  # soft hyphen
    (0x61C, 0x61D),  # Arabic letter mark
    (0x115F, 0x1161),  # Hangul fillers look like nothing
    (0x180E, 0x180F),
    (0x200B, 0x200C),  # zero width space
    (0x200E, 0x2010),  # left-to-right and right-to-left marks
    (0x2028, 0x202F),  # line and paragraph separators, bidirectional embeddings and overrides
    (0x2060, 0x2070),  # word joiner, invisible operators, bidirectional isolates
    (0x3164, 0x3165),
    (0xD800, 0xE000),  # lone surrogates cannot be written at all
    (0xFEFF, 0xFF00),
    (0xFFA0, 0xFFA1),
    (0xFFF9, 0xFFFC),
    (0xE0000, 0xE0200),  # tags and further variation selectors carry hidden text
)

# Control pictures for the oldest controls, escapes for the rest. Line feeds and tabs are dealt with by hand.
_VISIBLE: dict[int, str] = {
    **{point: chr(0x2400 + point) for point in range(0x20) if point not in (9, 10)},
    0x7F: "\u2421",
    **{point: _visible(point) for first, end in _INVISIBLE for point in range(first, end)},
}

# Joiners belong between letters of some scripts and between parts of some emoji. Elsewhere they hide.
_STRAY_JOINER = re.compile(r"(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])")


def plain(text: str) -> str:
    """Return text without anything that a terminal obeys or hides; line feeds stay, tabs become spaces."""
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    if "\u200d" in text or "\u200c" in text:
        text = _STRAY_JOINER.sub(lambda found: _visible(ord(found.group())), text)
    return text.translate(_VISIBLE).expandtabs(TAB_SIZE)


def one_line(text: str) -> str:
    """Return text as :func:`plain` does, on one line: line feeds show as ``⏎``."""
    return plain(text.strip("\r\n")).replace("\n", "⏎")


# Colours and weights. The length is bounded: a number of thousands of digits is no colour.
_SGR = re.compile(r"(\x1b\[[0-9;]{0,64}m)")

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences: cursor movement, erasing, modes
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # strings: titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]"  # all others; of an unterminated string this takes the start and shows the rest
)

_SHOWN = Style(conceal=False, blink=False, blink2=False)


class CommandOutput:
    """Reads the lines of a command's output one after another; colours go on from line to line.

    Colours and weights are kept; every other escape sequence is dropped with its payload, what is left of control
    characters becomes visible. Nothing is concealed or blinks. Of a line that was overwritten after a carriage
    return, the last version is shown.
    """

    def __init__(self) -> None:
        self._decoder = AnsiDecoder()

    def line(self, text: str) -> Text:
        """Return one line (without its line feed) as styled text."""
        kept = _SEQUENCE.sub(lambda found: found.group() if _SGR.fullmatch(found.group()) else "", text)
        versions = [version for version in kept.split("\r") if version]
        if not versions:
            return Text()
        pieces = _SGR.split(versions[-1])
        pieces[::2] = [plain(piece) for piece in pieces[::2]]
        line = self._decoder.decode_line("".join(pieces))
        line.spans = [self._shown(span) for span in line.spans]
        return line

    @staticmethod
    def _shown(span: Span) -> Span:
        if isinstance(span.style, Style) and (span.style.conceal or span.style.blink or span.style.blink2):
            return Span(span.start, span.end, span.style + _SHOWN)
        return span
