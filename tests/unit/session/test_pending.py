"""Messages that wait for a step or a turn."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.sessions import new_log

from dsh_tools.messages import user_message
from dsh_tools.session.events import InboxClaim, InboxEdit, InboxInsert, InboxRemove
from dsh_tools.testing.store_conformance import refused


def insert(log: Any, which: str, message_id: str) -> None:
    log.append("inbox/insert", InboxInsert(which, user_message(message_id, id=message_id)))


def ids(log: Any, which: str) -> list[str]:
    return [message.id for message in log.pending.waiting(which)]


def test_changes_are_in_the_log_and_come_back_with_it():
    # HOST-126, 191, 192
    log = new_log()
    for which, message_id in (("next-step", "a"), ("next-turn", "b"), ("next-step", "c"), ("next-turn", "d")):
        insert(log, which, message_id)
    log.append("inbox/edit", InboxEdit(user_message("changed", id="c")))
    log.append("inbox/remove", InboxRemove(("a",)))
    log.append("inbox/claim", InboxClaim(("b",)))
    assert (ids(log, "next-step"), ids(log, "next-turn")) == (["c"], ["d"])
    assert log.pending.waiting("next-step")[0].content[0].text == "changed"
    assert "d" in log.pending
    copy = new_log()
    copy.load(log.events)
    assert (ids(copy, "next-step"), ids(copy, "next-turn")) == (["c"], ["d"])
    assert log.derive_messages() == []


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("inbox/insert", InboxInsert("next-step", user_message("x", id="a"))),
        ("inbox/insert", InboxInsert("next-turn", user_message("x", id="a"))),
        ("inbox/insert", InboxInsert("next-step", user_message("x"))),
        ("inbox/insert", InboxInsert("next-step", user_message("x", id=""))),
        ("inbox/edit", InboxEdit(user_message("x", id="b"))),
        ("inbox/edit", InboxEdit(user_message("x"))),
        ("inbox/remove", InboxRemove(("b",))),
        ("inbox/remove", InboxRemove(("a", "a"))),
        ("inbox/claim", InboxClaim(("a", "b"))),
    ],
)
def test_ids_are_unique_and_known(kind: str, record: Any):
    # HOST-192: across both lists
    log = new_log()
    insert(log, "next-step", "a")
    with refused("INVALID_INBOX"):
        log.append(kind, record)
    assert (ids(log, "next-step"), ids(log, "next-turn"), len(log.events)) == (["a"], [], 1)


def test_an_id_is_free_again_once_it_no_longer_waits():
    log = new_log()
    insert(log, "next-step", "a")
    log.append("inbox/claim", InboxClaim(("a",)))
    insert(log, "next-turn", "a")
    assert ids(log, "next-turn") == ["a"]
