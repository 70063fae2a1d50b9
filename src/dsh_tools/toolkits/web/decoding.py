"""From bytes to text: compression and character sets, both bounded and neither trusted."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import AsyncIterator, Callable

from .errors import FetchFailedError

__all__ = ["ENCODINGS", "charset_of", "decode", "inflated"]

ENCODINGS = "gzip, deflate"
"""What we say we can read."""

_PIECE = 65_536
_BOMS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_META = re.compile(rb"""<meta[^>]+charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)
_HEADER = re.compile(r"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]+)""", re.IGNORECASE)


async def inflated(chunks: AsyncIterator[bytes], encoding: str, limit: int) -> tuple[bytes, bool]:
    """Read a body and undo its compression, never holding more than ``limit`` bytes of it.

    Returns:
        The bytes, and whether there were more.

    Raises:
        FetchFailedError: the encoding is not known, or the data is broken.
    """
    body = bytearray()
    expand = _expander(encoding)
    async for chunk in chunks:
        waiting = chunk
        while waiting:
            try:
                piece, waiting = expand(waiting, min(_PIECE, limit + 1 - len(body)))
            except zlib.error as error:
                raise FetchFailedError(f"the page's compressed data is broken: {error}") from error
            body += piece
            if len(body) > limit:
                return bytes(body[:limit]), True
    return bytes(body), False


def _expander(encoding: str) -> Callable[[bytes, int], tuple[bytes, bytes]]:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _cut
    if name in ("gzip", "x-gzip"):
        return _Zlib(zlib.MAX_WBITS | 16)
    if name == "deflate":
        return _Zlib(zlib.MAX_WBITS)
    raise FetchFailedError(f'the page is compressed by "{encoding}", which cannot be read here')


def _cut(data: bytes, room: int) -> tuple[bytes, bytes]:
    return data[:room], data[room:]


class _Zlib:
    """Expands at most as much as asked for at a time, so that a small body cannot fill the memory."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._stream = zlib.decompressobj(bits)
        self._begun = False

    def __call__(self, data: bytes, room: int) -> tuple[bytes, bytes]:
        if not self._begun:
            self._begun = True
            # Some servers say "deflate" and send it without the header.
            if self._bits == zlib.MAX_WBITS and (data[0] & 0x0F) != 8:
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        if self._stream.eof:
            return b"", b""
        return self._stream.decompress(data, room), self._stream.unconsumed_tail


def charset_of(content_type: str, body: bytes, *, is_html: bool) -> str:
    """Return the codec for a body: by its mark, the header, the page's own word, else UTF-8."""
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return codec
    said = [found[1] for found in [_HEADER.search(content_type)] if found]
    if is_html:
        said += [found[1].decode("ascii") for found in [_META.search(body[:2048])] if found]
    for label in said:
        codec = _codec(label)
        if codec is not None:
            return codec
    return "utf-8"


def _codec(label: str) -> str | None:
    try:
        found = codecs.lookup(label)
        # There are codecs that are no character sets (base64, zlib, rot13); decoding something tells.
        b"a".decode(label, "replace")
    except (LookupError, UnicodeError, ValueError):
        return None
    # As browsers do: pages that say Latin-1 mean Windows.
    return "cp1252" if found.name in ("iso8859-1", "ascii") else found.name


def decode(body: bytes, codec: str) -> str:
    """Decode a body; what does not fit becomes a replacement character."""
    return body.decode(codec, "replace")
