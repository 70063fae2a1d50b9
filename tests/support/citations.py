"""Which rules and field cases have tests, and the lists of those that have none yet.

A rule is cited as ``PIPE-31``; further numbers may follow (``PIPE-8, 9``, ``PIPE-157 to 162``, ``HOST-8..16``).
A field case is cited by the marker ``@pytest.mark.field("field-001")``.

The lists of open ones may only shrink. After adding tests, take what they cover off the lists with

    python -m tests.support.citations --shrink
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
RULES = TESTS / "contract" / "rules.txt"
OPEN_RULES = TESTS / "contract" / "open_rules.txt"
FIELD_CASES = TESTS / "field" / "field-cases.json"
OPEN_FIELD_CASES = TESTS / "field" / "open.txt"
DECISIONS = ROOT / "docs" / "decisions"

CITATION = re.compile(r"\b(PIPE|CODE|HOST|SCHEMA)-([A-Z]?)(\d+)((?:(?:, ?| and | to |\.\.)[A-Z]?\d+\b)*)")
FURTHER = re.compile(r"(, ?| and | to |\.\.)([A-Z]?)(\d+)\b")


def read_list(path: Path) -> list[str]:
    """The entries of a list file: one a line, ``#`` starts a comment."""
    lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def rules_in(text: str) -> set[str]:
    """The rules a text cites.

    >>> sorted(rules_in("PIPE-8, 9 and SCHEMA-D1 to D3, D25"))
    ['PIPE-8', 'PIPE-9', 'SCHEMA-D1', 'SCHEMA-D2', 'SCHEMA-D25', 'SCHEMA-D3']
    """
    found: set[str] = set()
    for prefix, letter, number, rest in CITATION.findall(text):
        found.add(f"{prefix}-{letter}{number}")
        last = int(number)
        for joiner, next_letter, next_number in FURTHER.findall(rest):
            if next_letter and prefix != "SCHEMA":
                break  # "PIPE-21, D44" goes on with a decision
            letter = next_letter or letter
            first = last + 1 if joiner in (" to ", "..") else int(next_number)
            last = int(next_number)
            found.update(f"{prefix}-{letter}{n}" for n in range(first, last + 1))
    return found


@cache
def all_rules() -> tuple[str, ...]:
    """Every rule of the contract, in its order."""
    rules: list[str] = []
    for line in read_list(RULES):
        first, _, last = line.partition("..")
        stem = first.rstrip("0123456789")
        start = int(first[len(stem) :])
        rules.extend(f"{stem}{n}" for n in range(start, int(last or start) + 1))
    return tuple(rules)


def cited_rules() -> set[str]:
    """The rules that a test or a decision record cites."""
    sources = [path for path in TESTS.rglob("test_*.py") if path.name != "test_rules_cited.py"]
    sources += DECISIONS.glob("[0-9]*.md")
    return set().union(*(rules_in(path.read_text(encoding="utf-8")) for path in sources))


@cache
def all_field_cases() -> tuple[str, ...]:
    """The ids of all field cases."""
    return tuple(case["id"] for case in json.loads(FIELD_CASES.read_text(encoding="utf-8")))


def field_cases_in(source: str) -> set[str]:
    """The ids that ``pytest.mark.field`` markers in a module name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="mark"), attr="field"), args=arguments):
                found.update(argument.value for argument in arguments if isinstance(argument, ast.Constant))
    return found


def covered_field_cases() -> set[str]:
    """The field cases that some test names."""
    modules = (TESTS / "field").glob("test_*.py")
    return set().union(*(field_cases_in(path.read_text(encoding="utf-8")) for path in modules))


def open_ones(everything: Iterable[str], covered: set[str]) -> list[str]:
    return [one for one in everything if one not in covered]


def shrink(path: Path, still_open: list[str]) -> int:
    """Take off a list what is covered by now; never add to it. Returns how many went."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if line.startswith("#") or line.strip() in still_open]
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    return len(lines) - len(kept)


def main() -> None:
    rules = open_ones(all_rules(), cited_rules())
    cases = open_ones(all_field_cases(), covered_field_cases())
    if "--shrink" in sys.argv[1:]:
        print(
            f"{shrink(OPEN_RULES, rules)} rules and {shrink(OPEN_FIELD_CASES, cases)} field cases taken off the lists"
        )
    print(f"open: {len(rules)} of {len(all_rules())} rules, {len(cases)} of {len(all_field_cases())} field cases")
    if "--list" in sys.argv[1:]:
        print("\n".join(rules + cases))


if __name__ == "__main__":
    main()
