"""How an outcome looks in a console and in a log."""

from __future__ import annotations

from dsh_tools.agent import TurnOutcome
from dsh_tools.session.events import Completed, Failed


def test_a_failure_shows_its_code_and_message() -> None:
    failed = TurnOutcome(Failed(message="no such model", code="MODEL_NOT_FOUND"), "")
    assert repr(failed) == "<TurnOutcome Failed MODEL_NOT_FOUND: no such model>"
    assert repr(TurnOutcome(Completed(), "hello")) == "<TurnOutcome Completed: 'hello'>"
