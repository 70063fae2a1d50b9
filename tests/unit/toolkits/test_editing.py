"""Exact replacement, line ends, advice, and hunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.file_errors import AmbiguousEditError, EditNotFoundError
from dsh_tools.toolkits.files.diffs import change_meta, hunks
from dsh_tools.toolkits.files.editing import Replacement, fold, keep_line_ends, replace

WORDS = st.text(st.sampled_from("abc \n"), max_size=30)


@given(WORDS, st.text(st.sampled_from("abc \n"), min_size=1, max_size=3), WORDS)
@settings(max_examples=300)
def test_replacing_is_what_str_replace_does(text: str, old: str, new: str):
    # HOST-211
    count = text.count(old)
    change = Replacement(old, new, everywhere=True)
    if count == 0:
        with pytest.raises(EditNotFoundError):
            replace(text, change, "f")
    else:
        assert replace(text, change, "f") == text.replace(old, new)
    if count > 1:
        with pytest.raises(AmbiguousEditError, match=f"{count} times"):
            replace(text, Replacement(old, new), "f")


@given(WORDS, st.text(st.sampled_from("abc \n"), min_size=1, max_size=3), WORDS)
@settings(max_examples=300)
def test_a_file_with_crlf_stays_one(text: str, old: str, new: str):
    if old not in text:
        return
    crlf = text.replace("\n", "\r\n")
    changed = replace(crlf, Replacement(old, new, everywhere=True), "f")
    assert fold(changed) == text.replace(old, new)
    if "\n" in text:
        assert changed == text.replace(old, new).replace("\n", "\r\n")


@given(st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=20), st.sampled_from(["a", "a\n", "b\nb", "\n"]))
@settings(max_examples=300)
def test_mixed_line_ends_stay_where_nothing_was_changed(parts: list[str], old: str):
    text = "".join(parts)
    if fold(text).count(old) != 1:
        return
    changed = replace(text, Replacement(old, "X"), "f")
    before, after = changed.split("X")
    assert text.startswith(before)
    assert text.endswith(after)
    assert fold(text[len(before) : len(text) - len(after)]) == old


def test_what_is_written_anew_keeps_the_files_line_ends():
    assert keep_line_ends("a\nb\n", "x\r\ny\r\n") == "a\r\nb\r\n"
    assert keep_line_ends("a\nb\n", "x\ny\r\n") == "a\nb\n"
    assert keep_line_ends("a\r\nb\n", "x\r\n") == "a\r\nb\n"
    assert keep_line_ends("a\n", "no end") == "a\n"


# ── advice ─────────────────────────────────────────────────────────────────────

SOURCE = "def f():\n\tif x:\n\t\treturn “x”\n\nprint('a')  \n"


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("def f():\n    if x:", ["Lines 1 to 2 differ only in whitespace", "1 tab", "4 spaces", "\n\tif x:"]),
        ("print('a')\n\n", ["Line 5 differs only in whitespace", "(at the end of a line)"]),
        ("if  x:", ["Line 2 differs only in whitespace", "1 tab, old_string with nothing"]),
        ("1: def f():\n2: \tif x:", ["line numbers", "leave them out"]),
        ("     1\tdef f():", ["line numbers"]),
        ('return "x"', ["Line 3 differs only in quotes", "return “x”"]),
        ("def f():\\n\\tif x:", ["escapes"]),
        ("def g():", ["closest line is 1", "def f():"]),
        ("nothing like it at all", ["Read the file again and copy the text exactly."]),
        ("   \n  \n ", ["It is blank"]),
    ],
)
def test_a_text_that_is_not_there_gets_advice(old: str, words: list[str]):
    with pytest.raises(EditNotFoundError) as refused:
        replace(SOURCE, Replacement(old, "new"), "a.py")
    assert refused.value.code == "FS_EDIT_NOT_FOUND"
    for word in words:
        assert word in refused.value.message


def test_advice_is_bounded_in_time_and_size():
    text = "\n".join(f"{n} " + "x" * 500 for n in range(20_000))
    with pytest.raises(EditNotFoundError) as refused:
        replace(text, Replacement("y" + "x" * 490, "new"), "a.py")
    assert len(refused.value.message) < 2000


def test_an_ambiguous_text_is_said_where_it_is():
    with pytest.raises(AmbiguousEditError) as refused:
        replace("a\n" * 30, Replacement("a", "b"), "a.txt")
    assert "30 times (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more)" in refused.value.message
    assert "replace_all" in refused.value.message


# ── hunks ──────────────────────────────────────────────────────────────────────


def numbered(*changes: tuple[int, str]) -> str:
    lines = {n: f"line {n}" for n in range(1, 31)}
    lines.update(dict(changes))
    return "".join(f"{line}\n" for line in lines.values() if line)


def test_hunks_have_three_lines_around_them():
    # HOST-212
    found = hunks(numbered(), numbered((5, "five"), (20, "")))
    assert found == [
        (
            "line 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8",
            "line 2\nline 3\nline 4\nfive\nline 6\nline 7\nline 8",
        ),
        (
            "line 17\nline 18\nline 19\nline 20\nline 21\nline 22\nline 23",
            "line 17\nline 18\nline 19\nline 21\nline 22\nline 23",
        ),
    ]


def test_text_in_an_empty_file_has_no_old_text():
    # HOST-212
    assert hunks("", "a\nb\n") == [(None, "a\nb")]


def test_a_line_end_at_the_end_is_no_change_of_lines():
    # HOST-212
    assert hunks("a\nb", "a\nb\n") == []


def test_a_new_file_has_no_hunks():
    # HOST-212
    assert change_meta("f", None, "a\n") == {"diffs": []}


@given(st.lists(st.sampled_from("abcd"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6))
@settings(max_examples=200)
def test_applying_the_hunks_gives_the_new_text(old: list[str], new: list[str]):
    before, after = "".join(f"{x}\n" for x in old), "".join(f"{x}\n" for x in new)
    found = hunks(before, after)
    # Few lines: all changes are in one hunk with its context.
    assert len(found) == (before != after)
    for old_text, new_text in found:
        gone, come = [] if old_text is None else old_text.split("\n"), new_text.split("\n") if new_text else []
        places = (at for at in range(len(old) + 1) if old[at : at + len(gone)] == gone)
        assert any(old[:at] + come + old[at + len(gone) :] == new for at in places)


def test_very_many_changes_are_one_hunk_and_a_large_card_is_left_out():
    before = "".join(f"a{n}\n" for n in range(5000))
    after = "".join(f"b{n}\n" for n in range(5000))
    assert len(hunks(before, after)) == 1
    assert change_meta("f", before * 3, after * 3) == {"diffs": []}
