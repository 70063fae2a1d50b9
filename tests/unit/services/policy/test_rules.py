"""Rules: what matches, and which of several counts."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from dsh_tools.services.policy import Action, ArgumentPath, Rule, RuleConfig, Rules, Verdict


def rule(**fields: Any) -> Rule:
    return Rule(RuleConfig.model_validate({"action": "deny", **fields}))


ARGUMENTS = {
    "path": "src/a.py",
    "options": {"force": True, "level": 2, "note": None, "odd.key": "x"},
    "files": ["a.txt", "b.md"],
    "edits": [{"old": "x"}, {"old": "y", "new": "z"}],
    "empty": [],
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("path", ["src/a.py"]),
        ("options.force", [True]),
        ("files[1]", ["b.md"]),
        ("files[*]", ["a.txt", "b.md"]),
        ("edits[*].old", ["x", "y"]),
        ('options["odd.key"]', ["x"]),
        ("empty[*]", []),
    ],
)
def test_paths_lead_to_values(path: str, values: list[Any]):
    assert ArgumentPath(path).select(ARGUMENTS) == values


@pytest.mark.parametrize("path", ["", ".", "a..b", "a[", "a[x]", "a[*", ".a", "a.", 'a["b', "a[0]b", "a[-1]"])
def test_malformed_paths_are_refused(path: str):
    with pytest.raises(pydantic.ValidationError, match="path"):
        rule(arguments={path: "x"})


@pytest.mark.parametrize(
    ("arguments", "matches"),
    [
        ({}, True),
        ({"path": "src/*"}, True),
        ({"path": "src"}, False),
        ({"missing": "*"}, False),
        ({"missing": "null"}, False),
        ({"path.deeper": "*"}, False),
        ({"files[7]": "*"}, False),
        ({"options.force": True}, True),
        ({"options.force": 1}, False),
        ({"options.level": 2}, True),
        ({"options.level": 2.0}, True),
        ({"options.level": True}, False),
        ({"options.note": None}, True),
        ({"options.force": None}, False),
        ({"path": ["other", "src/a.*"]}, True),
        ({"options.level": [1, 2, 3]}, True),
        ({"path": "src/*", "options.level": 3}, False),
    ],
)
def test_what_arguments_have_to_be(arguments: dict[str, Any], matches: bool):
    for action in ("deny", "ask", "allow"):
        assert rule(arguments=arguments, action=action).matches("write", ARGUMENTS) is matches


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("options.force", "true", True),
        ("options.force", "True", False),
        ("options.level", "2", True),
        ("options.level", "?", True),
        ("options.level", "3*", False),
        ("options.note", "null", True),
        ("options.force", "*", True),
        ("options", "*", True),
        ("files", "**", True),
        ("empty", "*", True),
        ("files", "[*", False),
        ("options", "", False),
    ],
)
def test_what_forbids_takes_the_text_of_other_values_for_them(path: str, pattern: str, matches: bool):
    # D33: who took a number for a text must not have forbidden nothing.
    for action in ("deny", "ask"):
        assert rule(arguments={path: pattern}, action=action).matches("write", ARGUMENTS) is matches
        assert rule(arguments={path: ["no such", pattern]}, action=action).matches("write", ARGUMENTS) is matches
    assert not rule(arguments={path: pattern}, action="allow").matches("write", ARGUMENTS)


@pytest.mark.parametrize("pattern", ["5", "5.0", "5*"])
def test_a_float_has_both_its_texts(pattern: str):
    assert rule(arguments={"amount": pattern}).matches("refund", {"amount": 5.0})


def test_rules_that_nearly_match_are_told_with_what_keeps_them():
    rules = Rules(
        [
            Rule(RuleConfig(tool="write", arguments={"path": "docs/*", "mode": "x"}, action="allow"), 1),
            Rule(RuleConfig(tool="w*", arguments={"path": "src/*", "mdoe": "*"}, action="deny"), 2),
            Rule(RuleConfig(tool="write", arguments={"path": "src/*"}, action="ask"), 3),
            Rule(RuleConfig(tool="read", arguments={"path": "x"}, action="ask"), 4),
        ]
    )
    missed = [(one.name.partition(":")[0], one.argument) for one in rules.missed("write", {"path": "src/a"})]
    assert missed == [("2", "mdoe"), ("1", "path")]


@pytest.mark.parametrize(("pattern", "allow", "deny"), [("*", True, True), ("a.*", False, True), ("c*", False, False)])
def test_over_several_places_an_allow_needs_all_and_a_deny_one(pattern: str, allow: bool, deny: bool):
    for action, expected in (("allow", allow), ("deny", deny), ("ask", deny)):
        assert rule(arguments={"files[*]": pattern}, action=action).matches("write", ARGUMENTS) is expected


def test_no_places_at_all_match_nothing():
    for action in ("allow", "deny"):
        assert not rule(arguments={"empty[*]": "*"}, action=action).matches("write", ARGUMENTS)
    partly = {"edits[*].new": "z"}
    assert not rule(arguments=partly, action="allow").matches("write", ARGUMENTS)
    assert rule(arguments=partly, action="deny").matches("write", ARGUMENTS)


@pytest.mark.parametrize("value", ["src/../etc/passwd", "src/..", "src/..\\x", "src/a/../../b"])
def test_an_allowed_wildcard_does_not_reach_up(value: str):
    assert not rule(arguments={"path": "src/*"}, action="allow").matches("write", {"path": value})
    assert rule(arguments={"path": "src/*"}, action="deny").matches("write", {"path": value})
    # What is written out is meant.
    assert rule(arguments={"path": value.replace("\\", "\\\\")}, action="allow").matches("write", {"path": value})
    assert rule(arguments={"path": "src/../*"}, action="allow").matches("write", {"path": "src/../etc"})


def test_two_dots_in_a_name_are_no_way_up():
    assert rule(arguments={"path": "src/*"}, action="allow").matches("write", {"path": "src/a..b"})


@pytest.mark.parametrize("order", ["allow ask deny", "deny ask allow", "ask deny allow"])
def test_deny_beats_ask_beats_allow_in_any_order(order: str):
    # D33
    rules = {
        "allow": rule(action="allow"),
        "ask": rule(action="ask", tool="w*", reason="writing"),
        "deny": rule(action="deny", tool="write", arguments={"path": "*.env"}, reason="secrets"),
    }
    judge = Rules([rules[name] for name in order.split()]).judge
    assert judge("write", {"path": ".env"}) == Verdict("deny", "secrets")
    assert judge("write", {"path": "a"}) == Verdict("ask", "writing")
    assert judge("read", {"path": ".env"}) == Verdict("allow")


@pytest.mark.parametrize("default", ["allow", "ask", "deny"])
def test_the_default_is_for_calls_that_no_rule_names(default: Action):
    rules = Rules([rule(tool="read", action="allow")], default)
    assert rules.judge("write", {}) == Verdict(default)
    assert rules.judge("read", {}) == Verdict("allow")
    assert rules.can_deny is (default == "deny")


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "permit"},
        {"tool": ""},
        {"tool": "a\\"},
        {"arguments": {"path": []}},
        {"arguments": {"path": {"nested": 1}}},
        {"arguments": {"path": "a\\"}},
        {"unknown": 1},
        {"reason": 5},
    ],
)
def test_wrong_rules_are_refused(fields: dict[str, Any]):
    with pytest.raises(pydantic.ValidationError):
        rule(**fields)
