"""The lines of a diff."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.terminal.changes import changes_by_file
from dsh_tools.tools.cards import FileDiff


def signs(*diffs: FileDiff) -> list[tuple[str, list[str]]]:
    return [(path, [f"{line.sign}{line.text}" for line in lines]) for path, lines in changes_by_file(diffs)]


def test_changed_lines_stand_in_their_context():
    old = "\n".join(str(number) for number in range(20)) + "\n"
    new = old.replace("\n3\n", "\nthree\n").replace("\n15\n", "\n15\nmore\n")
    assert signs(FileDiff("a", old, new)) == [
        (
            "a",
            [
                " 0",
                " 1",
                " 2",
                "-3",
                "+three",
                " 4",
                " 5",
                " 6",
                "⋯",
                " 13",
                " 14",
                " 15",
                "+more",
                " 16",
                " 17",
                " 18",
            ],
        )
    ]


def test_without_old_text_all_lines_are_new():
    # PIPE-211
    assert signs(FileDiff("a", None, "x\ny")) == [("a", ["+x", "+y"])]
    assert signs(FileDiff("a", "x\n", "")) == [("a", ["-x"])]
    assert signs(FileDiff("a", None, "")) == [("a", [])]


def test_hunks_of_one_file_stand_together():
    diffs = FileDiff("a", "1", "2"), FileDiff("a", "8", "9"), FileDiff("b", None, "x"), FileDiff("a", "5", "6")
    assert signs(*diffs) == [("a", ["-1", "+2", "⋯", "-8", "+9"]), ("b", ["+x"]), ("a", ["-5", "+6"])]


LINES = st.lists(st.sampled_from("abc"), max_size=12)


@given(LINES, LINES)
def test_the_shown_changes_account_for_every_line(old: list[str], new: list[str]):
    ((_, lines),) = changes_by_file([FileDiff("a", "\n".join([*old, ""]), "\n".join([*new, ""]))])
    added = sum(line.sign == "+" for line in lines)
    removed = sum(line.sign == "-" for line in lines)
    assert len(old) - removed == len(new) - added
    if old == new:
        assert lines == []


def test_very_long_files_take_no_time():
    numbers = [str(number) for number in range(30_000)]
    changed = [*numbers[:10_000], "x", *numbers[10_001:]]
    started = time.monotonic()
    ((_, lines),) = changes_by_file([FileDiff("a", "\n".join(numbers), "\n".join(changed))])
    assert time.monotonic() - started < 2
    assert [f"{line.sign}{line.text}" for line in lines] == [
        " 9997", " 9998", " 9999", "-10000", "+x", " 10001", " 10002", " 10003",
    ]  # fmt: skip
