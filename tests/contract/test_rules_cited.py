"""Every rule of the contract has a test that cites it, or a decision record that says why not."""

from __future__ import annotations

from tests.support.citations import OPEN_RULES, all_rules, cited_rules, open_ones, read_list, rules_in

ADVICE = "cite them (`# PIPE-31`) in the tests that cover them, or write a record in docs/decisions"


def test_every_rule_is_cited_or_known_to_be_open():
    open_rules = open_ones(all_rules(), cited_rules())
    allowed = read_list(OPEN_RULES)
    unknown = [rule for rule in open_rules if rule not in set(allowed)]
    assert not unknown, f"rules without a citing test: {', '.join(unknown)}; {ADVICE}"
    covered = [rule for rule in allowed if rule not in set(open_rules)]
    assert not covered, (
        f"covered by now: {', '.join(covered)}; run python -m tests.support.citations --shrink to take them off {OPEN_RULES.name}"
    )


def test_the_rules_of_the_pipeline_are_never_open():
    assert [rule for rule in read_list(OPEN_RULES) if rule.startswith("PIPE-")] == []


def test_only_rules_that_exist_are_cited():
    assert cited_rules() - set(all_rules()) == set()


def test_citations_are_read_as_they_are_written():
    assert rules_in("(PIPE-8, 9)") == {"PIPE-8", "PIPE-9"}
    assert rules_in("PIPE-157 to 159") == {"PIPE-157", "PIPE-158", "PIPE-159"}
    assert rules_in("HOST-8..10, 12") == {"HOST-8", "HOST-9", "HOST-10", "HOST-12"}
    assert rules_in("SCHEMA-D1, D3; SCHEMA-B15") == {"SCHEMA-D1", "SCHEMA-D3", "SCHEMA-B15"}
    assert rules_in("PIPE-21, D44") == {"PIPE-21"}
    assert rules_in("UTF-8 and D9") == set()
