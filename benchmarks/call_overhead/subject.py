"""What a measured party gives: a way to make the input of call number ``i``, and to run one call on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Subject:
    """One party, set up and ready.

    Parameters:
        run: takes an input and returns the final result, whatever that is for this party.
        make_input: what the model hands over for call ``i``: JSON text, or a dict where only that is taken.
    """

    run: Callable[[Any], Awaitable[Any]]
    make_input: Callable[[int], Any]


def json_text(i: int) -> str:
    return f'{{"a":{i},"b":2}}'


def json_object(i: int) -> dict[str, int]:
    return {"a": i, "b": 2}
