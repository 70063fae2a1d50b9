"""The names of servers' tools."""

from __future__ import annotations

import hashlib
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from dsh_tools.toolkits.mcp import public_name

SERVER = st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True)


def test_plain_names_are_kept():
    # HOST-231
    assert public_name("git", "commit-all") == "mcp__git__commit-all"
    longest = "x" * (64 - len("mcp__git__"))
    assert public_name("git", longest) == f"mcp__git__{longest}"


def test_changed_and_long_names_end_in_a_digest_of_server_and_raw_name():
    # HOST-231
    def digest(server: str, raw: str) -> str:
        return hashlib.sha256(f"{server}\0{raw}".encode()).hexdigest()[:12]

    assert public_name("git", "a.b") == f"mcp__git__a_b_{digest('git', 'a.b')}"
    long = "y" * 60
    assert public_name("git", long) == f"{('mcp__git__' + long)[:51]}_{digest('git', long)}"
    assert len(public_name("git", long)) == 64


@settings(max_examples=200)
@given(server=SERVER, raw=st.text(max_size=100))
def test_every_name_fits_providers_and_is_a_pure_function(server: str, raw: str):
    # HOST-231
    name = public_name(server, raw)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    assert name == public_name(server, raw)


@settings(max_examples=200)
@given(left=st.text("ab._", max_size=6), right=st.text("ab._", max_size=6))
def test_two_tools_of_one_server_never_share_a_name(left: str, right: str):
    # HOST-231
    if left != right:
        assert public_name("s", left) != public_name("s", right)
