"""Answers on their way to a program in Monty: in any order for ordinary programs, in one for repeatable ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsh_tools.code_runtime import Determinism, HostAnswer
from dsh_tools.code_runtime.monty.answers import Answers, OrderedAnswers, StuckError
from dsh_tools.code_runtime.monty.moment import Moment

START = 1_700_000_000_000


def moment(seed: str = "00") -> Moment:
    return Moment(Determinism(seed, START, lambda _: HostAnswer(loop=asyncio.get_running_loop())))


def now(clock: Moment) -> int:
    answer = clock.answer("time.time", ("time.time",))
    assert answer is not None
    return round(answer["return_value"] * 1000)


def value(number: int) -> dict[str, Any]:
    return {"return_value": number}


async def test_ordinary_answers_are_handed_over_together():
    answers = Answers()
    for call in range(4):
        answers.begin(call)
    answers.put(2, value(2), None)
    answers.refuse(1, value(1))
    answers.put(3, value(3), None)
    assert await answers.take({0, 1, 2}) == {2: value(2), 1: value(1)}
    waiting = asyncio.ensure_future(answers.take({0}))
    await asyncio.sleep(0)
    assert not waiting.done()
    answers.put(0, value(0), None)
    assert await waiting == {0: value(0)}
    assert await answers.take({3}) == {3: value(3)}
    with pytest.raises(StuckError):
        await answers.take({0})


async def test_ordered_answers_come_one_by_one_and_move_the_clock_when_taken():
    clock = moment()
    answers = OrderedAnswers(clock)
    for call in range(3):
        answers.begin(call)
    answers.put(2, value(2), START + 5)
    answers.put(0, value(0), START + 9)
    assert now(clock) == START
    assert await answers.take({0, 1, 2}) == {2: value(2)}
    assert now(clock) == START + 5
    assert await answers.take({0, 1}) == {0: value(0)}
    answers.put(1, value(1), START + 1)
    assert await answers.take({1}) == {1: value(1)}
    assert now(clock) == START + 9
    with pytest.raises(StuckError):
        await answers.take(set())


async def test_a_refusal_is_handed_over_before_whatever_has_arrived():
    clock = moment()
    answers = OrderedAnswers(clock)
    answers.begin(0)
    answers.put(0, value(0), START + 5)
    answers.begin(1)
    answers.refuse(1, value(1))
    assert await answers.take({0, 1}) == {1: value(1)}
    assert now(clock) == START


async def test_waiting_for_one_answer_keeps_the_earlier_ones():
    clock = moment()
    answers = OrderedAnswers(clock)
    for call in range(3):
        answers.begin(call)
    for call in (1, 2, 0):
        answers.put(call, value(call), None)
    await answers.wait_for(2)
    assert await answers.take({0, 1}) == {1: value(1)}
    assert await answers.take({0}) == {0: value(0)}


@given(st.permutations(range(6)), st.integers())
def test_the_moment_of_arrival_makes_no_difference(order: list[int], seed: int):
    # What a program gets, and what its clock shows then, depends on the order of the answers only
    random = Random(seed)

    async def course(eager: bool) -> list[Any]:
        clock = moment()
        answers = OrderedAnswers(clock)
        left = [(call, START + 10 * place) for place, call in enumerate(order)]
        seen: list[Any] = []
        for call in range(6):
            answers.begin(call)
        while left or len(seen) < 6:
            if left and (eager or random.random() < 0.5):
                call, at = left.pop(0)
                answers.put(call, value(call), at)
            else:
                taking = asyncio.ensure_future(answers.take(set(range(6))))
                await asyncio.sleep(0)
                if left and not taking.done():
                    call, at = left.pop(0)
                    answers.put(call, value(call), at)
                seen.append((await taking, now(clock)))
        return seen

    assert asyncio.run(course(True)) == asyncio.run(course(False))


async def test_no_more_calls_than_the_window_has_room_for():
    clock = moment()
    for answers in (Answers(), OrderedAnswers(clock)):
        for call in range(512):
            await answers.wait_for_room()
            answers.begin(call)
        waiting = asyncio.ensure_future(answers.wait_for_room())
        await asyncio.sleep(0)
        assert not waiting.done()
        answers.put(7, value(7), START + 1)
        await waiting
        assert await answers.take({7}) == {7: value(7)}
    assert now(clock) == START + 1


def test_a_moment_answers_for_time_and_chance_only():
    clock = moment("a")
    clock.move(START + 90_000_500)
    clock.move(None)
    clock.move(START)
    at = datetime.fromtimestamp((START + 90_000_500) / 1000, UTC)
    zone = timezone(timedelta(hours=-5))
    # Each reading moves the clock on by 0.1 ms
    tick = timedelta(microseconds=100)
    assert clock.answer("time.time", ("time.monotonic",)) == {"return_value": 90_000.5}
    assert clock.answer("date.today", ()) == {"return_value": at.date()}
    assert clock.answer("datetime.now", (None,)) == {"return_value": (at + 2 * tick).replace(tzinfo=None)}
    assert clock.answer("datetime.now", (zone,)) == {"return_value": (at + 3 * tick).astimezone(zone)}
    clock.move(START + 90_000_501)
    assert clock.answer("time.time", ("time.time",)) == {"return_value": (START + 90_000_501) / 1000}
    for function, arguments in (("os.urandom", (4,)), ("os.getenv", ("A", None)), ("import", ("uuid",))):
        assert clock.answer(function, arguments) is None


def test_each_generator_has_a_start_of_its_own():
    def draws(seed: str) -> list[bytes]:
        clock = moment(seed)
        answers = [clock.answer("os.urandom", (2496,)) for _ in range(2)]
        return [answer["return_value"] for answer in answers if answer is not None]

    first, second = draws("a")
    assert [first, second] == draws("a")
    assert len({first, second, *draws("b")}) == 4
    assert len(first) == 2496
