"""What all tests share: markers, the time limit of a test, and the check that nothing is left behind.

Markers
    ``needs("rg")``       the test needs a program of the system (``scripts/system-packages.txt`` lists them)
    ``field("field-001")`` the test covers a case of ``tests/field/field-cases.json``
    ``limit(seconds)``    the test may take this long instead of the usual limit
    ``soak``              the test has long figures, which ``make soak`` chooses; every test with ``figure`` has it
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import FrameType

import pytest
from hypothesis import settings
from tests.support.leaks import leaks_after, take_census
from tests.support.programs import find_program, known_programs

SOAK = os.environ.get("DSH_TOOLS_SOAK") == "1"
REQUIRE_PROGRAMS = os.environ.get("DSH_TOOLS_REQUIRE_PROGRAMS") == "1"

# Seconds one test may take before it fails with the place where it hung.
TIME_LIMIT = 3600.0 if SOAK else 120.0

# Busy machines make single examples slow; the time limit of the test is what counts.
settings.register_profile("test", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=2000)
settings.load_profile("soak" if SOAK else "test")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests with long figures; refuse a ``needs`` marker that names a program nobody knows how to install."""
    for item in items:
        if "figure" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.soak)
        for marker in item.iter_markers("needs"):
            unknown = [name for name in marker.args if name not in known_programs()]
            if unknown or not marker.args:
                raise pytest.UsageError(
                    f"{item.nodeid}: needs({', '.join(map(repr, unknown))}) names no program of scripts/system-packages.txt"
                )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose program is missing; where programs are required, fail it."""
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if find_program(name) is not None:
                continue
            reason = f"{name} is missing (Debian package: {known_programs()[name]})"
            if REQUIRE_PROGRAMS:
                raise pytest.fail.Exception(reason, pytrace=False)
            raise pytest.skip.Exception(reason, _use_item_location=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that hangs, so that the rest of the run still tells something."""
    marker = item.get_closest_marker("limit")
    seconds = float(marker.args[0]) if marker else TIME_LIMIT
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return (yield)

    def give_up(_signum: int, _frame: FrameType | None) -> None:
        raise pytest.fail.Exception(f"the test took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    # Again every 5 s: the first one may land in a task or callback that swallows it.
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
async def no_leaks() -> AsyncIterator[None]:
    """Fail the test if a task, thread, child process or descriptor that it started outlives it.

    Ask for it before fixtures that hold such things themselves: what was there before is not counted.
    """
    before = take_census()
    yield
    leaks = await leaks_after(before)
    assert not leaks, "left behind:\n  " + "\n  ".join(leaks)


@pytest.fixture
def figure() -> Callable[[int, int], int]:
    """Choose between the reduced count of ``make test`` and the full one of ``make soak``."""

    def choose(reduced: int, full: int) -> int:
        return full if SOAK else reduced

    return choose
