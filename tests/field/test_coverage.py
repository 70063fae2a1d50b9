"""The field cases: things that went wrong for users of other tool layers, and the outcome they should have had.

``open.txt`` lists the cases without a test. It can only shrink:
``python -m tests.support.citations --shrink`` takes off what is covered.
"""

from __future__ import annotations

from tests.support.citations import (
    OPEN_FIELD_CASES,
    all_field_cases,
    covered_field_cases,
    field_cases_in,
    open_ones,
    read_list,
)


def test_the_list_of_open_cases_is_exact():
    still_open = open_ones(all_field_cases(), covered_field_cases())
    listed = read_list(OPEN_FIELD_CASES)
    print(f"open field cases: {len(still_open)} of {len(all_field_cases())}", *still_open, sep="\n  ")
    lost = [case for case in still_open if case not in listed]
    assert not lost, f"no test names these any more: {lost}"
    covered = [case for case in listed if case not in still_open]
    assert not covered, (
        f"covered by now: {covered}; run python -m tests.support.citations --shrink to take them off the list"
    )


def test_markers_name_cases_that_exist():
    assert covered_field_cases() - set(all_field_cases()) == set()


def test_markers_are_found_wherever_they_stand():
    source = """
pytestmark = pytest.mark.field("field-001")

@pytest.mark.field("field-002", "field-003")
async def test_one(): ...

@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.field("field-004"))])
def test_two(x): ...
"""
    assert field_cases_in(source) == {"field-001", "field-002", "field-003", "field-004"}
