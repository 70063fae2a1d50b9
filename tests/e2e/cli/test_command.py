"""The installed command, as a person uses it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

COMMAND = Path(sys.executable).with_name("dsh-tools")

PLUGIN = '''
import asyncio
from dsh_tools import tool

@tool
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b

@tool
async def sleepy(marker: str) -> str:
    """Sleep in a process of its own."""
    child = await asyncio.create_subprocess_exec("sleep", "314159")
    open(marker, "w").write(str(child.pid))
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return "done"

name = "mine"
inject = ("tools",)

def apply(ctx, config):
    ctx.tools.register(add)
    ctx.tools.register(sleepy)
'''

CONFIG = """
sessions: {store: memory}
policy:
  rules:
    - {tool: add, arguments: {a: 13}, action: deny, reason: bad luck}
    - {tool: add, arguments: {a: 7}, action: ask}
plugins:
  - dsh_tools.toolkits.files:FilesPlugin
  - use: mine
"""


GROWING = """
import asyncio, sys
from dsh_tools import standard, tool
from dsh_tools.model import ScriptedModel

@tool
async def alpha() -> str:
    "A."
    return "a"

@tool
async def beta() -> str:
    "B."
    return "b"

async def main():
    async with standard(sessions={"path": sys.argv[1]}) as ctx:
        ctx.tools.register(alpha)
        agent = await ctx.agents.create("main", ScriptedModel(["one", "two"]))
        await agent.run("hello")
        ctx.tools.register(beta)
        await agent.run("again")
        print(agent.session.id)

asyncio.run(main())
"""


ENDING = """
from dsh_tools.errors import SessionError

name = "ending"

def apply(ctx, config):
    def end():
        raise SessionError("the disk is full", "STORE_FAILED")
    ctx.effect(lambda: end)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "dsh.yaml").write_text(CONFIG)
    return tmp_path


def run(*args: str, cwd: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *args],
        cwd=cwd,
        input=stdin if stdin is not None else "",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )


def test_help_names_the_verbs(tmp_path: Path) -> None:
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    for verb in ("demo", "tools", "call", "session", "chat"):
        assert verb in done.stdout
    assert run("--version", cwd=tmp_path).stdout.startswith("dsh-tools ")


def test_tools_lists_what_is_registered(home: Path) -> None:
    table = run("tools", cwd=home)
    assert table.returncode == 0
    assert "Add two integers." in table.stdout
    documents = json.loads(run("tools", "--json", cwd=home).stdout)
    assert [document["name"] for document in documents] == sorted(document["name"] for document in documents)
    add = next(document for document in documents if document["name"] == "add")
    assert add["parameters"]["required"] == ["a", "b"]


def test_an_empty_list_of_tools_says_where_tools_come_from(tmp_path: Path) -> None:
    done = run("tools", cwd=tmp_path)
    assert done.returncode == 0
    (tmp_path / "dsh.yaml").write_text(done.stdout.partition("\n")[2])
    assert "read" in run("tools", cwd=tmp_path).stdout


def test_call_runs_one_call_and_says_so_by_its_status(home: Path) -> None:
    good = run("call", "add", "--args", '{"a": 1, "b": 2}', cwd=home)
    assert (good.returncode, "3" in good.stdout) == (0, True)
    document = json.loads(run("call", "add", "--args", '{"a": 1, "b": 2}', "--json", cwd=home).stdout)
    assert document == {"isError": False, "value": 3, "content": [{"type": "text", "text": "3"}]}
    assert run("call", "add", "--args", "-", cwd=home, stdin='{"a": 1, "b": 2}').returncode == 0


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("add", '{"a": 1, "b": "2"}', '"b" must be an integer'),
        ("add", '{"a": 1', "the text ends too early"),
        ("add", "", 'missing required property "a"'),
        ("ad", "{}", 'Did you mean "add"?'),
        ("add", '{"a": 13, "b": 1}', "bad luck"),
    ],
)
def test_a_failed_call_has_status_1_and_says_why(home: Path, name: str, arguments: str, says: str) -> None:
    done = run("call", name, "--args", arguments, "--json", cwd=home)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["isError"] is True
    assert says in document["error"]["message"]


def test_a_question_needs_somebody_to_answer_it(home: Path) -> None:
    arguments = '{"a": 7, "b": 1}'
    alone = run("call", "add", "--args", arguments, cwd=home)
    assert alone.returncode == 1
    assert "no approval channel is available" in " ".join(alone.stdout.replace("│", " ").split())
    hint = "dsh-tools: add needs approval, and there is no terminal to ask in; --yes approves it\n"
    assert alone.stderr == hint
    approved = run("call", "add", "--args", arguments, "--yes", cwd=home)
    assert (approved.returncode, approved.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tools:\n  mode: natve\n", "bad.yaml:2: tools.mode: Input should be 'native', 'code' or 'both'"),
        ("\nnonsense: 1\n", "bad.yaml:2: nonsense: unknown key; known are tools, sessions, call_records, journal, "),
        ("\ntols: {}\n", "bad.yaml:2: tols: unknown key; did you mean tools?\n"),
        ("policy: {rules: [{action: deny, tol: x}]}\n", "policy.rules.0.tol: unknown key; did you mean tool?\n"),
        ("plugins:\n- a\n- {use: 5}\n", "bad.yaml:3: plugins.1.use: "),
        ("tools: [\n", "bad.yaml:2: is not YAML: "),
        ("- 1\n", "bad.yaml:1: must be a mapping"),
        ("plugins: [no.such.module]\n", 'cannot import "no.such.module"'),
        ("plugins: ['mine:nothing']\n", '"mine" has no "nothing"'),
        ("plugins: ['dsh_tools:__doc__']\n", "plugin dsh_tools:__doc__: "),
        ("policy: {rules: [{tool: x}]}\n", "bad.yaml:1: policy.rules.0.action: "),
        ("tools: native\n", "bad.yaml:1: tools: must be a mapping of settings\n"),
        ("plugins: mine\n", "bad.yaml:1: plugins: must be a list\n"),
        ("plugins: [{use: 'mine:add', config: {}}]\n", "plugin mine:add: is a tool, which takes no config\n"),
        ("plugins: [math]\n", "plugin math: the module has neither apply nor tool definitions"),
        (
            "plugins:\n- mine\n- use: dsh_tools.toolkits.files:FilesPlugin\n  config:\n    rot: x\n",
            "bad.yaml:5: plugin dsh_tools.toolkits.files:FilesPlugin: config.rot: unknown key; did you mean root?\n",
        ),
    ],
)
def test_a_bad_file_is_refused_with_file_line_and_key(home: Path, text: str, says: str) -> None:
    (home / "bad.yaml").write_text(text)
    done = run("tools", "--config", "bad.yaml", cwd=home)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_can_name_tools_as_they_are(home: Path) -> None:
    (home / "plain.py").write_text(
        "from dsh_tools import tool\n\n\n@tool\nasync def one() -> int:\n    'One.'\n    return 1\n\n\n"
        "@tool\nasync def two() -> int:\n    'Two.'\n    return 2\n"
    )
    for use, names in (("plain", ["one", "two"]), ("plain:two", ["two"])):
        (home / "own.yaml").write_text(f"plugins: ['{use}']\n")
        done = run("tools", "--json", "--config", "own.yaml", cwd=home)
        assert [tool["name"] for tool in json.loads(done.stdout)] == names, done.stderr


def test_the_prompt_is_shown_and_its_changes_explained(home: Path) -> None:
    shown = json.loads(run("prompt", "--json", cwd=home).stdout)
    assert [tool["name"] for tool in shown["tools"]] == sorted(tool["name"] for tool in shown["tools"])
    assert shown == json.loads(run("prompt", "--json", cwd=home).stdout)
    store = home / "s.sqlite"
    (home / "grow.py").write_text(GROWING)
    grown = subprocess.run(
        [sys.executable, "grow.py", str(store)], cwd=home, capture_output=True, text=True, timeout=60
    )
    assert grown.returncode == 0, grown.stderr
    explained = run("prompt", "--explain", grown.stdout.strip(), "--store", str(store), cwd=home).stdout
    assert "turn 1: first prefix" in explained
    assert "turn 2: digest" in explained
    assert 'tool "beta" was added' in explained


def test_a_missing_file_is_named(home: Path) -> None:
    done = run("tools", "--config", "nowhere.yaml", cwd=home)
    assert done.returncode == 2
    assert "nowhere.yaml: cannot be read" in done.stderr


@pytest.mark.parametrize("arguments", [["tools"], ["call", "add", "--args", "-"], ["chat", "--model", "m"], ["demo"]])
def test_closed_streams_are_no_reason_to_fall(home: Path, arguments: list[str]) -> None:
    # Nor does a file of ours become the standard input of a child.
    closed = f'exec {COMMAND} "$@" <&- >&-'
    done = subprocess.run(
        ["sh", "-c", closed, "sh", *arguments], cwd=home, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == (1 if arguments[0] == "call" else 0)


def test_a_working_directory_that_has_gone_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"rmdir {gone} && exec {COMMAND} tools"], cwd=gone, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dsh-tools: the working directory is not there any more: No such file or directory\n"


def test_a_session_store_that_fails_is_named(home: Path) -> None:
    for arguments in (["session", "list"], ["demo"]):
        done = run(*arguments, "--store", str(home), cwd=home)
        assert done.returncode == 2
        assert done.stderr == f"dsh-tools: the session store {home} failed: Is a directory\n"


def test_what_fails_while_a_verb_ends_is_named(home: Path) -> None:
    (home / "ending.py").write_text(ENDING)
    (home / "dsh.yaml").write_text("plugins: [ending]\n")
    done = run("tools", cwd=home)
    assert done.returncode == 2
    assert done.stderr == "dsh-tools: the disk is full\n"


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_command_leaves_nothing_running(home: Path, sent: int, status: int) -> None:
    marker = home / "pid"
    process = subprocess.Popen(
        [str(COMMAND), "call", "sleepy", "--args", json.dumps({"marker": str(marker)})],
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    child = int(wait_for(lambda: marker.exists() and marker.read_text()))
    process.send_signal(sent)
    assert process.wait(20) == status
    assert not psutil.pid_exists(child)
    output = process.communicate()
    assert b"Traceback" not in output[1]


def wait_for(condition: Any, seconds: float = 30) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("arguments", [["tools"], ["--help"], ["prompt", "--json"]])
def test_output_that_cannot_be_written_is_one_line(home: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(COMMAND), *arguments], cwd=home, stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1
    assert done.stderr.decode() == "dsh-tools: the output could not be written: No space left on device\n"
