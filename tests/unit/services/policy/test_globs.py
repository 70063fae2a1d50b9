"""Patterns: exact by default, wildcards where written, never slow."""

from __future__ import annotations

import fnmatch
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.services.policy import Glob


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("docker run", "docker run", True),
        ("docker run", "docker run -v /:/host alpine", False),
        ("docker run", "docker runs", False),
        ("docker run *", "docker run alpine", True),
        ("docker run *", "docker run", False),
        ("*", "", True),
        ("*", "anything\nat all", True),
        ("**", "x", True),
        ("a*b", "ab", True),
        ("a*b", "a/b/ab", True),
        ("a*b", "aba", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("?", "\n", True),
        ("*.env", ".env", True),
        ("*.env", "x.env.bak", False),
        ("a*a", "a", False),
        ("*ab*ba*", "aba", False),
        ("*ab*ba*", "abba", True),
        (r"a\*b", "a*b", True),
        (r"a\*b", "axb", False),
        (r"\?", "?", True),
        (r"\\", "\\", True),
        ("[a-z]", "b", False),
        ("[a-z]", "[a-z]", True),
        ("", "", True),
        ("", "x", False),
        (".", "x", False),
        ("Docker", "docker", False),
    ],
)
def test_what_a_pattern_matches(pattern: str, text: str, matches: bool):
    assert Glob(pattern).matches(text) is matches


def test_a_lone_backslash_is_refused():
    with pytest.raises(ValueError, match="lone backslash"):
        Glob("abc\\")


def test_exactness_is_known():
    assert Glob("a.b").is_exact
    assert Glob(r"a\*b").is_exact
    assert not Glob("a*").is_exact
    assert not Glob("a?").is_exact


@given(st.text("ab?*", max_size=8), st.text("ab", max_size=12))
@settings(max_examples=300)
def test_the_same_verdict_as_a_regular_expression(pattern: str, text: str):
    assert Glob(pattern).matches(text) is (re.match(fnmatch.translate(pattern), text) is not None)


@given(st.text(max_size=20))
@settings(max_examples=100)
def test_an_escaped_text_matches_only_itself(text: str):
    pattern = Glob(re.sub(r"([*?\\])", r"\\\1", text))
    assert pattern.is_exact
    assert pattern.matches(text)
    assert not pattern.matches(text + "x")


def test_no_pattern_is_slow():
    text = "a" * 100_000
    started = time.perf_counter()
    for pattern in ("*a" * 50 + "b", "*a?" * 50 + "b", "a*" * 100 + "b", "?*" * 100 + "b", "*?a*?a*?b"):
        assert not Glob(pattern).matches(text)
    assert time.perf_counter() - started < 2
