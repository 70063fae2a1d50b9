"""Records of calls are equal if they tell the same, and unequal exactly if they are not equal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dsh_tools.session.call_records import CallRecord, Measured, ReturnedValue

RECORD = CallRecord(
    call_id="c1",
    root_call_id="c1",
    name="pay",
    proposed="{}",
    arguments={},
    arguments_digest="a",
    policy_digest=None,
    consulted=(),
    approvals=(),
    ran=None,
    result=ReturnedValue(False, "d"),
    shown_digest="s",
    ending="completed",
    stopped=None,
    measured=Measured(1.0, 2.0),
    seq=1,
)


@pytest.mark.parametrize(
    ("change", "equal"),
    [
        ({}, True),
        ({"measured": Measured(3.0, 4.0), "seq": 7, "call_seq": 5, "result_seq": 6}, True),
        ({"name": "refund"}, False),
        ({"result": ReturnedValue(True, "d")}, False),
    ],
)
def test_unequal_is_the_opposite_of_equal(change: dict[str, Any], equal: bool):
    other = msgspec.structs.replace(RECORD, **change)
    assert (other == RECORD) is (RECORD == other) is equal
    assert (other != RECORD) is (RECORD != other) is not equal


def test_nothing_else_equals_a_record():
    for other in (None, "c1", RECORD.measured):
        assert not (RECORD == other)
        assert RECORD != other
