"""What stands in the place of a long text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.services.spill import SavedText, bounded_text

SAVED = SavedText("session-0/a", 0, "Read it.")
GAP = "\n[…]\n"


def size(text: str) -> int:
    return len(text.encode("utf-8", errors="surrogatepass"))


def parts(bounded: str) -> tuple[str, str, int]:
    """Head, tail, and how many bytes the notice says are missing."""
    found = re.fullmatch(
        r"(?s)(.*?)\n\[…\]\n(.*)\n\n\(Omitted (\d+) bytes\. "
        r"Full formatted result stored at: session-0/a\. Read it\.\)",
        bounded,
    )
    assert found is not None, bounded
    return found[1], found[2], int(found[3])


def test_head_and_tail_with_the_notice_behind_a_blank_line():
    # HOST-101
    text = "".join(chr(ord("a") + n % 26) for n in range(1000))
    bounded = bounded_text(text, SAVED, 200)
    assert bounded is not None
    head, tail, omitted = parts(bounded)
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) - len(tail) in (0, 1)
    assert omitted == 1000 - len(head) - len(tail)
    assert size(bounded) <= 200
    # The notice is priced with the full length; what remains of the limit is used.
    assert size(bounded) >= 199


def test_without_room_for_a_preview_the_notice_stands_alone():
    # HOST-102
    notice = "(Omitted 1000 bytes. Full formatted result stored at: session-0/a. Read it.)"
    assert bounded_text("a" * 1000, SAVED, size(notice)) == notice
    assert bounded_text("a" * 1000, SAVED, size(notice) + 5) == notice
    assert bounded_text("a" * 1000, SAVED, size(notice) - 1) is None


@given(st.text(st.characters(codec=None), min_size=1, max_size=300), st.integers(0, 400))
@settings(max_examples=300)
def test_any_text_is_bounded_and_cut_between_characters(text: str, cap: int):
    # HOST-101, 103
    text = text * 3
    if size(text) <= cap:
        return
    bounded = bounded_text(text, SAVED, cap)
    if bounded is None:
        return
    assert size(bounded) <= cap
    if GAP in bounded:
        head, tail, omitted = bounded.split(GAP)[0], "", 0
        assert text.startswith(head)
        notice = bounded.rindex("\n\n(Omitted ")
        tail = bounded[len(head) + len(GAP) : notice]
        assert text.endswith(tail)
        omitted = int(bounded[notice:].split()[1])
        assert omitted == size(text) - size(head) - size(tail)


def test_each_end_is_decoded_for_itself():
    # HOST-103: four bytes a character, so that most limits fall inside one
    text = "\U0001f600" * 500
    for cap in range(120, 140):
        bounded = bounded_text(text, SAVED, cap)
        assert bounded is not None
        head, tail, _ = parts(bounded)
        assert set(head + tail) <= {"\U0001f600"}


def test_lone_surrogates_come_through():
    bounded = bounded_text("\ud800" * 500, SAVED, 200)
    assert bounded is not None
    head, tail, _ = parts(bounded)
    assert set(head + tail) == {"\ud800"}


@pytest.mark.parametrize("kind", ["list", "record"])
def test_pretty_json_is_cut_between_outermost_elements(kind: str):
    items = [{"id": number, "name": f"item, {number}\n", "tags": ["a", "b"]} for number in range(1000)]
    value = items if kind == "list" else {f"key {number}": item for number, item in enumerate(items)}
    text = json.dumps(value, indent=2)
    bounded = bounded_text(text, SAVED, 2000)
    assert bounded is not None
    head, tail, omitted = parts(bounded)
    opening, closing = ("[", "]") if kind == "list" else ("{", "}")
    first = json.loads(head.rstrip(",") + closing)
    last = json.loads(opening + tail)
    assert len(first) > 2
    assert len(last) > 2
    if kind == "list":
        assert first == items[: len(first)]
        assert last == items[-len(last) :]
    assert omitted == size(text) - size(head) - size(tail)
    assert size(bounded) <= 2000


def test_json_with_one_big_element_is_cut_between_inner_ones():
    text = json.dumps({"rows": [{"id": number} for number in range(1000)]}, indent=2)
    bounded = bounded_text(text, SAVED, 1000)
    assert bounded is not None
    head, tail, _ = parts(bounded)
    assert head.endswith("},")
    assert tail.lstrip().startswith("{")


def test_json_without_any_border_leaves_the_notice():
    text = json.dumps(["x" * 5000], indent=2)
    bounded = bounded_text(text, SAVED, 500)
    assert bounded is not None
    assert bounded.startswith("(Omitted ")


def test_text_that_only_begins_like_json_is_plain_text():
    text = "[\n  not json" + ",\n  x" * 500
    bounded = bounded_text(text, SAVED, 300)
    assert bounded is not None
    assert text.startswith(parts(bounded)[0])
