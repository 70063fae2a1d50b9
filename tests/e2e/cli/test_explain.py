"""``dsh-tools explain``: what policy would decide about a call, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("dsh-tools")

PLUGIN = '''
from pathlib import Path
from dsh_tools import PRE_EXECUTE, Ask, effect_free, tool

@tool
async def write(path: str, text: str = "") -> str:
    """Write a file."""
    Path("ran").touch()
    return "written"

async def counts(execution, next):
    Path("counted").touch()
    return await next()

name = "mine"
inject = ("tools",)

def apply(ctx, config):
    ctx.tools.register(write)
    ctx.tools.guard(lambda execution: "a secret" if execution.arguments.get("path") == ".env" else None)
    if config and config.get("counts"):
        ctx.on(PRE_EXECUTE, counts)
'''
CONFIG = """
plugins: [mine]
policy:
  rules:
    - {tool: write, arguments: {path: "/etc/*"}, action: deny, reason: not there}
    - {tool: write, arguments: {path: "*.py"}, action: ask, reason: it changes code}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "dsh.yaml").write_text(CONFIG)
    return tmp_path


def explain(home: Path, *arguments: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), "explain", *arguments],
        cwd=home,
        stdin=subprocess.DEVNULL if "input" not in fields else None,
        capture_output=True,
        text=True,
        timeout=60,
        **fields,
    )


def document(home: Path, path: str) -> tuple[int, dict[str, Any]]:
    done = explain(home, "write", "--args", json.dumps({"path": path}), "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_the_verdict_is_told_to_programs(home: Path):
    status, allowed = document(home, "notes.txt")
    assert (status, allowed["verdict"], allowed["certain"]) == (0, "allow", True)
    assert allowed["arguments"] == {"path": "notes.txt", "text": ""}
    assert allowed["decidedBy"] == "rule default"
    assert "reason" not in allowed
    status, asked = document(home, "a.py")
    assert (status, asked["verdict"], asked["reason"]) == (3, "ask", "it changes code")
    assert asked["decidedBy"] == 'rule 2: ask write with {"path":"*.py"}'
    assert asked["approval"]["prospect"] == "unavailable"
    assert len(asked["policyDigest"]) == len(asked["argumentsDigest"]) == 64
    status, denied = document(home, "/etc/passwd")
    assert (status, denied["verdict"], denied["reason"]) == (1, "deny", "not there")
    status, guarded = document(home, ".env")
    assert (status, guarded["verdict"], guarded["reason"]) == (1, "deny", "a secret")
    assert guarded["decidedBy"].startswith("guard mine.apply")
    # Nothing ran, and nothing was kept.
    assert not (home / "ran").exists()
    assert not (home / ".dsh-tools").exists()


def test_the_verdict_is_told_to_people(home: Path):
    done = explain(home, "write", "--args", '{"path": "a.py"}')
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[0] == "write would ask a person first"
    assert '  decided by rule 2: ask write with {"path":"*.py"}' in lines
    assert "  reason     it changes code" in lines
    assert any(line.startswith("  asking     unavailable: nobody is there") for line in lines)
    assert any(line.startswith("guard") and "passed" in line for line in lines)
    assert any(line.startswith("rule") and "ask" in line for line in lines)
    assert any(line.startswith("  1: ") and line.endswith(": path") for line in lines)
    # The same rules have the same digest in another process.
    again = explain(home, "write", "--args", '{"path": "a.py"}')
    assert again.stdout == done.stdout


def test_a_call_without_a_session_is_told_that_it_could_wait_in_one(home: Path):
    (home / "dsh.yaml").write_text(CONFIG + "approval: {suspend_after: 60}\n")
    _, asked = document(home, "a.py")
    assert asked["approval"]["prospect"] == "unavailable"
    assert "in a session that is kept it would wait" in asked["approval"]["reason"]
    assert not (home / ".dsh-tools").exists()


def test_listeners_that_cannot_be_consulted_are_named_and_not_called(home: Path):
    (home / "dsh.yaml").write_text(CONFIG.replace("[mine]", "[{use: mine, config: {counts: true}}]"))
    done = explain(home, "write", "--args", "-", input='{"path": "x"}')
    assert done.returncode == 0
    assert "unless a listener that cannot be consulted says otherwise" in done.stdout
    assert "cannot be consulted without effects:\n  mine.counts" in done.stdout
    assert not (home / "counted").exists()


def test_what_cannot_run_says_why(home: Path):
    done = explain(home, "write", "--args", '{"path": 5}')
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "write cannot run"
    assert '"path" must be a string' in done.stdout
    unknown = explain(home, "wrote", "--json")
    assert json.loads(unknown.stdout)["reason"] == 'unknown tool "wrote"'
    broken = explain(home, "write", "--args", "{broken")
    assert (broken.returncode, broken.stderr) == (1, "")


def test_control_characters_do_not_reach_the_terminal(home: Path):
    done = explain(home, "write", "--args", json.dumps({"path": "\x1b]0;title\x07.py"}))
    assert "\x1b" not in done.stdout


def test_tools_of_a_module_can_be_explained(home: Path):
    (home / "dsh.yaml").unlink()
    done = explain(home, "write", "--args", '{"path": "x"}', "--tools", "mine:write", "--json")
    assert json.loads(done.stdout)["verdict"] == "allow"


def test_where_only_programs_call_tools_the_call_is_one_of_a_program(home: Path):
    (home / "dsh.yaml").write_text(CONFIG + "tools: {mode: code}\ncode: {prewarm: false}\n")
    status, asked = document(home, "a.py")
    assert (status, asked["verdict"]) == (3, "ask")
    program = explain(home, "run_code", "--args", '{"code": "return 1"}', "--json")
    assert json.loads(program.stdout)["verdict"] == "allow"
