"""Which bytes are text: encodings by their mark, images by their signature, everything else by decoding."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from ..file_errors import NotTextError

__all__ = ["Encoding", "Reader", "decode", "encode", "image_kind", "sniff"]

_MARKS = (
    # UTF-32 first: its little-endian mark begins with UTF-16's.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    (b"\x00\x00\x01\x00", "ICO"),
)

_SIGNATURES = (
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\x00", "an SQLite database"),
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's text is written: the codec, and the mark in front of it (empty for plain UTF-8)."""

    codec: str = "utf-8"
    mark: bytes = b""


def sniff(head: bytes) -> Encoding:
    """Return the encoding that a file's first bytes declare; UTF-8 where they declare none."""
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return Encoding(codec, mark)
    return Encoding()


def image_kind(head: bytes) -> str | None:
    """Return the name of the image format that a file's first bytes are the signature of."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WebP"
    for signature, kind in _IMAGES:
        # Two letters are no proof: a bitmap has zeros in its header, a text that begins with BM has none.
        if head.startswith(signature) and (kind != "BMP" or head[6:10] == b"\0\0\0\0"):
            return kind
    return None


class Reader:
    """Decodes a file piece by piece.

    Parameters:
        path: the file, for messages.
        head: its first bytes, at least 16 where it has so many.

    Raises:
        NotTextError: the first bytes are an image's.
    """

    def __init__(self, path: str, head: bytes) -> None:
        self.encoding = sniff(head)
        self._path = path
        self._offset = 0
        self._skip = len(self.encoding.mark)
        self._decoder = codecs.getincrementaldecoder(self.encoding.codec)("strict")
        kind = image_kind(head)
        if kind is not None:
            raise NotTextError(f"{path} is a {kind} image, not text; this tool reads text only")
        for signature, what in _SIGNATURES:
            if head.startswith(signature):
                raise NotTextError(f"{path} is {what}, not text; use a program that understands it")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Return the text of the next bytes; the last ones are ``final``.

        Raises:
            NotTextError: the bytes are not text in the file's encoding, or hold a NUL.
        """
        if self._skip:
            data, self._skip = data[self._skip :], 0
            self._offset = len(self.encoding.mark)
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            at = self._offset - pending + error.start
            name = self.encoding.codec.upper()
            raise NotTextError(
                f"{self._path} is not text: no {name} at byte {at} ({error.reason}); "
                "use a program that knows its format or encoding"
            ) from None
        if "\0" in text:
            raise NotTextError(f"{self._path} is a binary file: it holds a NUL character; it cannot be read as text")
        self._offset += len(data)
        return text


def decode(path: str, data: bytes) -> tuple[str, Encoding]:
    """Decode a whole file.

    Raises:
        NotTextError: it is not text.
    """
    reader = Reader(path, data[:64])
    return reader.feed(data, final=True), reader.encoding


def encode(path: str, text: str, encoding: Encoding) -> bytes:
    """Return the bytes of a text, with the mark in front.

    Raises:
        NotTextError: the text has characters that no file can hold.
    """
    try:
        return encoding.mark + text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        raise NotTextError(
            f"{path}: the new text has half a character (a lone surrogate) at character {error.start}; send it whole"
        ) from None
