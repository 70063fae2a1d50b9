"""Lines collected piece by piece, and which bytes are text: held against the simple way."""

from __future__ import annotations

import codecs
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.file_errors import NotTextError
from dsh_tools.toolkits.files.encodings import Encoding, Reader, decode, encode, image_kind, sniff
from dsh_tools.toolkits.files.lines import LineWindow, split_lines

TEXTS = st.text(st.sampled_from("ab é😀\n\r"), max_size=40)


def collected(pieces: list[str], offset: int, limit: int, length: int = 1000, size: int = 10_000) -> LineWindow:
    window = LineWindow(offset, limit, length, size)
    for piece in pieces:
        window.feed(piece)
    window.finish()
    return window


@given(st.lists(TEXTS, max_size=6), st.integers(1, 8), st.integers(1, 8))
@settings(max_examples=300)
def test_a_window_is_a_slice_of_all_lines(pieces: list[str], offset: int, limit: int):
    # HOST-207
    lines = split_lines("".join(pieces))
    window = collected(pieces, offset, limit)
    assert window.total == len(lines)
    expected = [{"number": n, "text": t} for n, t in enumerate(lines, 1) if offset <= n < offset + limit]
    assert window.lines == expected


@given(TEXTS)
def test_lines_are_what_universal_newlines_give(text: str):
    import io

    assert split_lines(text) == [line.rstrip("\n") for line in io.StringIO(text, newline=None)]


def test_a_long_line_is_cut_and_said_to_be():
    # HOST-207
    window = collected(["x" * 30, "x" * 30 + "\nshort\n"], 1, 10, length=50)
    assert window.lines[0]["text"] == "x" * 50 + "... (line truncated to 50 chars)"
    assert window.lines[1]["text"] == "short"


def test_of_a_very_long_line_only_its_beginning_is_held():
    window = LineWindow(1, 10, 2000, 50_000)
    for _ in range(1000):
        window.feed("x" * 10_000)
    assert len(window._start) == 2000
    window.finish()
    assert window.total == 1


def test_the_byte_cap_stops_the_collection_but_not_the_count():
    # HOST-207
    window = collected([f"line {n}\n" for n in range(100)], 1, 100, size=70)
    assert [line["number"] for line in window.lines] == list(range(1, 11))
    assert window.total == 100


def test_the_first_line_is_kept_whatever_its_size():
    window = collected(["é" * 100 + "\nnext\n"], 1, 10, size=20)
    assert [line["number"] for line in window.lines] == [1]


# ── encodings ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_every_encoding_goes_in_and_out_unchanged(mark: bytes, codec: str):
    text = "wörter\r\n😀 and\n日本\n"
    data = mark + text.encode(codec)
    assert sniff(data) == Encoding(codec, mark)
    assert decode("f", data) == (text, Encoding(codec, mark))
    assert encode("f", text, Encoding(codec, mark)) == data


@given(st.binary(max_size=60), st.integers(1, 7))
@settings(max_examples=300)
def test_pieces_decode_like_the_whole(data: bytes, step: int):
    def outcome(read: Any) -> Any:
        try:
            return read()
        except NotTextError as error:
            return error.message

    def by_pieces() -> str:
        reader = Reader("f", data[:64])
        # The mark comes in one piece: whoever reads takes far more than four bytes at a time.
        first = len(reader.encoding.mark) + step
        pieces = [data[:first], *(data[at : at + step] for at in range(first, len(data), step))]
        return "".join([*(reader.feed(piece) for piece in pieces), reader.feed(b"", final=True)])

    whole, pieces = outcome(lambda: decode("f", data)[0]), outcome(by_pieces)
    # A NUL and a bad byte may be seen in the other order.
    assert pieces == whole or ("not text" in whole and "NUL" in pieces) or ("NUL" in whole and "not text" in pieces)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"caf\xe9 au lait", "no UTF-8 at byte 3"),
        (b"\xef\xbb\xbfab\xff", "no UTF-8 at byte 5"),
        (b"\xff\xfea\x00\x00\xd8", "no UTF-16-LE at byte 4"),
        (b"abc\0def", "NUL"),
        (b"\x89PNG\r\n\x1a\n....", "PNG image"),
        (b"\xff\xd8\xff\xe0....", "JPEG image"),
        (b"GIF89a....", "GIF image"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WebP image"),
        (b"%PDF-1.7\n", "PDF document"),
        (b"PK\x03\x04....", "ZIP archive"),
        (b"\x7fELF....", "a program"),
        (b"SQLite format 3\x00", "SQLite database"),
    ],
)
def test_what_is_not_text_is_said_to_be_what_it_is(data: bytes, words: str):
    # HOST-216
    with pytest.raises(NotTextError, match=words) as refused:
        decode("some/file", data)
    assert refused.value.code == "FS_NOT_TEXT"
    assert refused.value.message.startswith("some/file is ")


def test_a_text_that_begins_like_a_bitmap_is_a_text():
    assert image_kind(b"BMW is a make of cars") is None
    assert decode("f", b"BM")[0] == "BM"


def test_half_a_character_is_refused():
    with pytest.raises(NotTextError, match="lone surrogate"):
        encode("f", "a\ud800b", Encoding())
