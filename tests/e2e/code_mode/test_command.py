"""``dsh-tools run-code`` and ``dsh-tools sdk``, as a shell runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dsh_tools.errors import ConfigError
from dsh_tools.standard import standard

COMMAND = Path(sys.executable).with_name("dsh-tools")

TOOLS = '''
from dsh_tools import define_tool, tool

@tool(is_concurrency_safe=True)
async def echo(x: int) -> dict[str, int]:
    """Say it back."""
    print("noise on standard output")
    return {"x": x}

@tool
def boom() -> int:
    """Fail."""
    raise ValueError("deliberate failure")

listed = [echo, boom]

def setup(ctx):
    ctx.tools.register(echo)
    ctx.tools.guard(lambda execution: "guarded" if execution.arguments.get("x") == 13 else None)

async def given(ctx):
    return [echo]

def broken(ctx):
    raise RuntimeError("no luck")

class Plugin:
    name = "mine"
    inject = ("tools",)

    def apply(self, ctx, config):
        ctx.tools.register(boom)

nothing = 5
'''
PROGRAM = """
const all = await Promise.all([1, 2].map((x) => tools.echo({ x })));
try { await tools.boom({}) } catch (e) { console.log(e.message) }
return all;
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mytools.py").write_text(TOOLS)
    (tmp_path / "program.ts").write_text(PROGRAM)
    return tmp_path


def command(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(COMMAND), *arguments], cwd=folder, input=stdin, capture_output=True, text=True, timeout=100, check=False
    )


def test_one_object_on_standard_output(folder: Path) -> None:
    # CODE-35, 98, PIPE-228
    done = command(folder, "run-code", "program.ts", "--tools", "mytools", "--json")
    assert done.returncode == 0
    assert "noise" in done.stderr
    assert json.loads(done.stdout) == {
        "isError": False,
        "value": {"logs": ["deliberate failure"], "result": [{"x": 1}, {"x": 2}]},
        "content": [
            {
                "type": "text",
                "text": 'deliberate failure\n[\n  {\n    "x": 1\n  },\n  {\n    "x": 2\n  }\n]',
            }
        ],
        "dispatches": [
            {"id": "command-1:code:1", "name": "echo", "isError": False},
            {"id": "command-1:code:2", "name": "echo", "isError": False},
            {"id": "command-1:code:3", "name": "boom", "isError": True},
        ],
    }
    assert sorted(path.name for path in folder.iterdir() if path.name != "__pycache__") == ["mytools.py", "program.ts"]


def test_a_failure_is_an_object_too(folder: Path) -> None:
    program = "console.log('so far'); await tools.boom({})"
    done = command(folder, "run-code", "-", "--tools", "mytools:listed", "--json", stdin=program)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert list(document) == ["isError", "error", "content", "dispatches"]
    assert document["error"]["info"] == {"name": "CodeRunFailedError", "code": "CODE_RUN_FAILED"}
    assert document["content"][0]["text"] == "Error: " + document["error"]["message"]
    assert document["error"]["message"].startswith("code run failed (exception): ToolCallError: deliberate failure")
    assert document["error"]["message"].endswith("\nCaptured output:\nso far")


def test_text_without_json(folder: Path) -> None:
    done = command(folder, "run-code", "program.ts", "--tools", "mytools")
    assert done.returncode == 0
    assert done.stdout.startswith("deliberate failure\n[\n")
    failed = command(folder, "run-code", "-", stdin="throw new Error('x')")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr.startswith("Error: code run failed (exception): Error: x")


@pytest.mark.parametrize("file", ["-", "program.py"])
def test_python_programs(folder: Path, file: str) -> None:
    program = 'print("hello")\nreturn await tools.echo({"x": 5})\n'
    (folder / "program.py").write_text(program)
    language = ["--language", "python"] if file == "-" else []
    done = command(folder, "run-code", file, "--tools", "mytools:echo", "--json", *language, stdin=program)
    assert json.loads(done.stdout)["value"] == {"logs": ["hello"], "result": {"x": 5}}


@pytest.mark.parametrize("reference", ["mytools:setup", "mytools:given", "mytools:Plugin", "mytools:listed"])
def test_what_tools_may_name(folder: Path, reference: str) -> None:
    names = {"setup": ["echo"], "given": ["echo"], "Plugin": ["boom"], "listed": ["boom", "echo"]}
    done = command(folder, "sdk", "--tools", reference)
    assert done.returncode == 0
    shown = [name for name in ("boom", "echo") if f"\n  {name}: " in done.stdout]
    assert shown == names[reference.split(":")[1]]


def test_policy_of_the_function_holds(folder: Path) -> None:
    done = command(folder, "run-code", "-", "--tools", "mytools:setup", "--json", stdin="return tools.echo({ x: 13 })")
    assert json.loads(done.stdout)["dispatches"] == [{"id": "command-1:code:1", "name": "echo", "isError": True}]
    assert "guarded" in json.loads(done.stdout)["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["program.ts", "--tools", "mytools:absent"], '"mytools" has no "absent"'),
        (["program.ts", "--tools", "no_such_module"], 'cannot import "no_such_module"'),
        (["program.ts", "--tools", "mytools:nothing"], "--tools mytools:nothing: "),
        (["program.ts", "--tools", "mytools:broken"], "--tools mytools:broken: RuntimeError: no luck"),
        (["absent.ts"], "absent.ts: cannot be read"),
        (["program.ts", "--config", "bad.yaml"], "bad.yaml:1: tools.mode"),
        (["program.ts", "--language", "ruby"], "ruby"),
    ],
)
def test_wrong_configurations(folder: Path, arguments: list[str], said: str) -> None:
    (folder / "bad.yaml").write_text("tools: {mode: sideways}\n")
    done = command(folder, "run-code", *arguments, "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_configured_policy_and_language(folder: Path) -> None:
    (folder / "dsh.yaml").write_text(
        "code: {language: python}\npolicy: {rules: [{tool: boom, action: deny, reason: not here}]}\n"
    )
    program = "try:\n    await tools.boom({})\nexcept ToolCallError as error:\n    return str(error)\n"
    done = command(folder, "run-code", "-", "--tools", "mytools", "--json", stdin=program)
    assert json.loads(done.stdout)["value"]["result"] == "not here"


def test_the_name_of_a_file_says_its_language(folder: Path) -> None:
    (folder / "dsh.yaml").write_text("code: {language: python}\n")
    (folder / "short.ts").write_text("const x: number = 5; return x;")
    done = command(folder, "run-code", "short.ts", "--json")
    assert (json.loads(done.stdout)["value"], done.stderr) == ({"logs": [], "result": 5}, "")
    odd = command(folder, "run-code", "short.ts", "--language", "python", "--json")
    assert odd.returncode == 1
    assert odd.stderr == "dsh-tools: short.ts is typescript by its name, and is run as python\n"


@pytest.mark.parametrize(("language", "fence"), [(None, "```ts"), ("typescript", "```ts"), ("python", "```python")])
def test_sdk(folder: Path, language: str | None, fence: str) -> None:
    # CODE-16, 39
    arguments = ["sdk", "--tools", "mytools", *(["--language", language] if language else [])]
    first, second = command(folder, *arguments), command(folder, *arguments)
    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert fence in first.stdout
    assert first.stdout.startswith("# Tools for programs\n")


@pytest.mark.parametrize(
    ("language", "module", "extra"),
    [("typescript", "deno", "dsh-tools[code]"), ("python", "pydantic_monty", "dsh-tools[code-python]")],
)
async def test_without_the_extra_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, language: Any, module: str, extra: str
) -> None:
    # CODE-11
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as refused:
        async with standard(tools={"mode": "code"}, code={"language": language}):
            raise AssertionError("it was assembled")
    assert f'pip install "{extra}"' in str(refused.value)
    assert "\n" not in str(refused.value)
