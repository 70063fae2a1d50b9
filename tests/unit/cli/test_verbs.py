"""The list of verbs, which stands apart from the verbs themselves."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from dsh_tools.cli.verbs import MCP_VERBS, SESSION_VERBS, VERBS, Verb

HEAVY = {"asyncio", "msgspec", "pydantic", "rich", "ruamel", "griffe", "dsh_tools.standard", "dsh_tools.tools"}


@pytest.mark.parametrize("verb", [*VERBS, *SESSION_VERBS, *MCP_VERBS], ids=lambda verb: verb.place)
def test_a_verb_is_where_the_list_says_and_does_what_it_says(verb: Verb):
    module, _, name = verb.place.partition(":")
    function = getattr(importlib.import_module(f"dsh_tools.cli.{module}"), name)
    paragraph = (inspect.getdoc(function) or "").split("\n\n")[0]
    assert verb.summary == " ".join(paragraph.split())
    assert verb.command().name == verb.name


def imported(*arguments: str) -> set[str]:
    program = "import sys; from dsh_tools.cli.app import main\ntry: main()\nfinally: print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


def test_the_version_and_the_list_of_verbs_import_no_verb():
    verbs = {f"dsh_tools.cli.{verb.place.partition(':')[0]}" for verb in (*VERBS, *SESSION_VERBS, *MCP_VERBS)}
    assert imported("--version") & (HEAVY | verbs) == set()
    # The list itself is printed with rich, and typer reads arguments with pydantic where that is installed.
    assert imported("session", "--help") & ((HEAVY | verbs) - {"pydantic", "rich"}) == set()


def test_a_verb_imports_no_other():
    loaded = imported("sdk", "--help")
    assert "dsh_tools.cli.sdk" in loaded
    others = {"dsh_tools.cli.demo", "dsh_tools.cli.session", "dsh_tools.toolkits.files", "dsh_tools.inspector"}
    unneeded = {*others, "dsh_tools.code_runtime.deno", "griffe", "psutil", "ruamel"}
    assert loaded & unneeded == set()
    loaded = imported("session", "list", "--help")
    assert "dsh_tools.cli.session" in loaded
    assert loaded & (unneeded - {"dsh_tools.cli.session"}) == set()
