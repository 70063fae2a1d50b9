"""``bash`` through the pipeline, with real commands."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.calls import run, text_of
from tests.support.toolkits import SessionAgent, error_of, mounted, value_of

from dsh_tools.errors import ConfigError
from dsh_tools.kernel import Context
from dsh_tools.kernel.abort import AbortController
from dsh_tools.services.jobs import JobsPlugin, JobToolsPlugin
from dsh_tools.toolkits import ShellPlugin, shell
from dsh_tools.tools import ToolCall, view_of_call, view_of_result
from dsh_tools.tools.cards import GenericCall, GenericResult, TerminalCall, TerminalResult
from dsh_tools.tools.definition import PresentedResult


@pytest.fixture
async def ctx(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    async with mounted(ShellPlugin(), cwd=str(tmp_path), grace_ms=300) as context:
        yield context


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"command": line, "description": "test", **more}


async def shown(ctx: Context, line: str, **more: Any) -> str:
    return text_of(await run(ctx, "bash", command(line, **more)))


# ── what is offered ────────────────────────────────────────────────────────────


async def test_the_parameters(ctx: Context, tmp_path: Path):
    # HOST-193
    [schema] = ctx.tools.schemas()
    assert schema.name == "bash"
    assert list(schema.parameters["properties"]) == [
        "command", "description", "timeoutMs", "workdir", "run_in_background",
    ]  # fmt: skip
    assert schema.parameters["required"] == ["command", "description"]
    async with mounted(shell, cwd=str(tmp_path), enable_run_in_background=False) as other:
        [schema] = other.tools.schemas()
        assert "run_in_background" not in schema.parameters["properties"]


async def test_parameters_that_are_not_offered_are_refused(ctx: Context, tmp_path: Path):
    # HOST-194
    async with mounted(ShellPlugin(), cwd=str(tmp_path), enable_run_in_background=False) as other:
        code, _ = await error_of(other, "bash", command("touch x", run_in_background=True))
        assert code == "INVALID_ARGS"
    for extra in ({"sandbox_permissions": "full-access"}, {"justification": "because"}, {"sandbox": False}):
        assert (await error_of(ctx, "bash", command("touch x", **extra)))[0] == "INVALID_ARGS"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": " \n", "description": "x"},
        {"command": "touch x", "description": "  "},
        {"command": "touch x", "description": "x", "timeoutMs": 0},
        {"command": "touch x", "description": "x", "timeoutMs": -5},
        {"command": "touch x", "description": "x", "timeoutMs": 1.5},
        {"command": "touch x\0", "description": "x"},
        {"command": "touch x"},
    ],
)
async def test_bad_arguments_stop_before_anybody_is_asked(ctx: Context, tmp_path: Path, arguments: dict[str, Any]):
    # HOST-195, D25
    asked: list[object] = []
    ctx.on("tools/pre-execute", lambda execution, next: asked.append(execution) or next())
    assert (await error_of(ctx, "bash", arguments))[0] == "INVALID_ARGS"
    assert (asked, list(tmp_path.iterdir())) == ([], [])


async def test_it_runs_alone_and_keeps_its_own_time(ctx: Context):
    # HOST-204
    definition = ctx.tools.get("bash")
    assert definition is not None
    assert definition.timeout_ms is None
    assert ctx.tools.execution_mode(ToolCall("bash", command("true"))) == "exclusive"


# ── how it ends ────────────────────────────────────────────────────────────────


async def test_a_command_that_ends_well(ctx: Context):
    # HOST-196
    result = await run(ctx, "bash", command("echo out; echo err >&2"))
    assert result.value == {
        "kind": "foreground",
        "exitCode": 0,
        "signal": None,
        "timedOut": False,
        "aborted": False,
        "timeoutMs": 120_000,
        "stdout": {"text": "out\n", "truncated": False},
        "stderr": {"text": "err\n", "truncated": False},
    }
    assert text_of(result) == "out\n[stderr]\nerr"


async def test_a_command_that_fails_is_a_result(ctx: Context):
    # HOST-197, 198
    assert await shown(ctx, "echo out; exit 3") == "out\n[exit code: 3]"
    assert await shown(ctx, "no-such-program-here") == (
        "[stderr]\n" + text_of(await run(ctx, "bash", command("no-such-program-here"))).split("\n", 1)[1]
    )
    assert (await shown(ctx, "no-such-program-here")).endswith("\n[exit code: 127]")
    assert await shown(ctx, "kill -SEGV $$") == "(no output)\n[killed by signal: SIGSEGV]"
    assert (await value_of(ctx, "bash", command("kill -SEGV $$")))["exitCode"] is None


async def test_the_time_limit(ctx: Context):
    # HOST-197, 198, 202
    started = time.monotonic()
    result = await run(ctx, "bash", command("echo before; sleep 30", timeoutMs=200))
    assert time.monotonic() - started < 2
    assert result.value["timedOut"] is True
    assert text_of(result) == "before\n[timed out after 200ms]\n[killed by signal: SIGTERM]"
    # A command may end well and still be late.
    late = await shown(ctx, "trap 'exit 0' TERM; while :; do :; done", timeoutMs=200)
    assert late == "(no output)\n[timed out after 200ms]"


async def test_the_time_limit_has_a_limit(no_leaks: None, tmp_path: Path):
    # HOST-202
    async with mounted(ShellPlugin(), cwd=str(tmp_path), timeout_ms=150, max_timeout_ms=300) as ctx:
        assert (await value_of(ctx, "bash", command("true")))["timeoutMs"] == 150
        assert (await value_of(ctx, "bash", command("true", timeoutMs=900_000)))["timeoutMs"] == 300


async def test_an_abort_is_an_error(ctx: Context):
    # HOST-197
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.1, controller.abort)
    assert await error_of(ctx, "bash", command("sleep 30"), signal=controller.signal) == (
        "ABORTED",
        "tool call aborted",
    )


async def test_a_shell_that_cannot_be_started_is_an_error(no_leaks: None, tmp_path: Path):
    # HOST-197
    program = tmp_path / "sh"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    async with mounted(ShellPlugin(), shell=str(program)) as ctx:
        code, message = await error_of(ctx, "bash", command("true"))
        assert code == "SHELL_ERROR"
        assert message.startswith("the command could not be started")


# ── where and with what ────────────────────────────────────────────────────────


async def test_the_working_folder(no_leaks: None, tmp_path: Path):
    # HOST-201
    for name in ("default/sub", "session/sub", "absolute"):
        (tmp_path / name).mkdir(parents=True)
    async with mounted(ShellPlugin(), cwd=str(tmp_path / "default")) as ctx:
        agent = SessionAgent(tmp_path / "session")

        async def where(agent: Any = None, **more: Any) -> str:
            value = await value_of(ctx, "bash", command("pwd", **more), agent=agent)
            return os.path.relpath(value["stdout"]["text"].strip(), tmp_path)

        assert await where() == "default"
        assert await where(workdir="sub") == "default/sub"
        assert await where(agent) == "session"
        assert await where(agent, workdir="sub") == "session/sub"
        assert await where(agent, workdir=str(tmp_path / "absolute")) == "absolute"
        code, message = await error_of(ctx, "bash", command("touch x", workdir="nope"))
        assert (code, message) == ("SHELL_ERROR", "workdir nope is not a folder; nothing was run")


async def test_each_call_is_a_fresh_shell(ctx: Context):
    # HOST-201
    await run(ctx, "bash", command("cd /; x=1; export Y=2"))
    assert await shown(ctx, 'echo "$x$Y"; [ "$PWD" != / ] && echo elsewhere') == "\nelsewhere"


async def test_secrets_are_not_handed_on(no_leaks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # HOST-202
    for name in ("MY_API_KEY", "db_password", "Client_Secret", "GH_TOKEN", "DSH_STATE", "KEPT_TOKEN", "PLAIN"):
        monkeypatch.setenv(name, "inherited")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "startup"))
    (tmp_path / "startup").write_text("echo started")
    config = {"keep_env": ["KEPT_TOKEN"], "env": {"MY_TOKEN": "given"}}
    async with mounted(ShellPlugin(), cwd=str(tmp_path), **config) as ctx:
        names = "MY_API_KEY db_password Client_Secret GH_TOKEN DSH_STATE KEPT_TOKEN PLAIN MY_TOKEN BASH_ENV"
        out = await shown(ctx, f'for n in {names}; do [ -n "${{!n}}" ] && echo $n=${{!n}}; done; true')
        assert out.splitlines() == ["KEPT_TOKEN=inherited", "PLAIN=inherited", "MY_TOKEN=given"]


async def test_nothing_can_be_typed_in(ctx: Context):
    assert await shown(ctx, "cat; read x; echo done; test -t 0 || echo no terminal") == "done\nno terminal"


@pytest.mark.parametrize("config", [{"cwd": "/no/such/folder"}, {"shell": "no-such-shell"}])
async def test_what_is_missing_is_a_load_error(config: dict[str, Any]):
    with pytest.raises(ConfigError):
        async with mounted(ShellPlugin(), **config):
            pass


@pytest.mark.parametrize("config", [{"timeout_ms": 0}, {"timeout_ms": 900_000}, {"max_output_bytes": 0}, {"x": 1}])
async def test_bad_settings_are_load_errors(config: dict[str, Any]):
    # HOST-202
    with pytest.raises(ValueError):
        async with mounted(ShellPlugin(), **config):
            pass


# ── output ─────────────────────────────────────────────────────────────────────


async def test_long_output_keeps_its_end_and_all_of_it_is_in_a_file(no_leaks: None, tmp_path: Path):
    # HOST-199
    config = {"max_output_bytes": 100, "spill_folder": str(tmp_path / "kept"), "max_spill_bytes": 10_000}
    async with mounted(ShellPlugin(), cwd=str(tmp_path), **config) as ctx:
        result = await run(ctx, "bash", command("seq 1 1000; seq 1 500 >&2"))
        path = result.value["stdout"]["spillPath"]
        assert Path(path).read_text() == "".join(f"{n}\n" for n in range(1, 1001))
        assert result.value["stdout"]["text"].endswith("999\n1000\n")
        assert len(result.value["stdout"]["text"]) == 100
        assert f"1000\n[output truncated; full output: {path}]\n[stderr]\n" in text_of(result)
        result = await run(ctx, "bash", command("seq 1 5000"))
        assert "spillPath" not in result.value["stdout"]
        assert text_of(result).endswith("5000\n[output truncated; full output: (unavailable)]")
        assert len(list((tmp_path / "kept").iterdir())) == 2


async def test_the_private_folder_goes_with_the_plugin(no_leaks: None, tmp_path: Path):
    async with mounted(ShellPlugin(), max_output_bytes=10) as ctx:
        value = await value_of(ctx, "bash", command("seq 1 100"))
        path = Path(value["stdout"]["spillPath"])
        assert path.exists()
    assert not path.parent.exists()


async def test_output_is_reported_while_it_comes(ctx: Context):
    said: list[tuple[float, Any]] = []
    started = time.monotonic()
    ctx.on("tools/progress", lambda execution, value: said.append((time.monotonic() - started, value)))
    await run(ctx, "bash", command("echo one; sleep 0.4; echo two; sleep 0.4; printf three"))
    assert [value for _, value in said] == ["one\n", "two\n", "three"]
    assert said[0][0] < 0.3 < said[1][0] < 0.7 < said[2][0]


# ── cards ──────────────────────────────────────────────────────────────────────


async def card_of(ctx: Context, arguments: Any, *, meta: bool = True) -> Any:
    result = await run(ctx, "bash", arguments)
    presented = PresentedResult(result.content, result.is_error, result.meta if meta else None)
    return view_of_result(ctx.tools.get("bash"), arguments, presented)


async def test_the_cards(ctx: Context):
    # HOST-203; PIPE-210, 213
    tool = ctx.tools.get("bash")
    assert view_of_call(tool, command("ls", workdir="src")) == TerminalCall("ls", "test", "src")
    pending = view_of_call(tool, command("ls", run_in_background=True))
    assert isinstance(pending, GenericCall)
    assert (pending.title, pending.kind) == ("ls", "execute")
    for meta in (True, False):
        assert await card_of(ctx, command("echo a"), meta=meta) == TerminalResult(output="a", exit_code=0)
        assert await card_of(ctx, command("echo a; exit 4"), meta=meta) == TerminalResult(output="a", exit_code=4)
        assert await card_of(ctx, command("kill -9 $$"), meta=meta) == TerminalResult(
            output="(no output)", signal="SIGKILL"
        )
    assert isinstance(await card_of(ctx, command("x", workdir="nope")), GenericResult)
    assert await card_of(ctx, {"command": 1}) is None


async def test_a_command_cannot_fake_its_ending(ctx: Context):
    # HOST-203
    assert await card_of(ctx, command("echo '[exit code: 7]'")) == TerminalResult(output="[exit code: 7]", exit_code=0)


# ── in the background ──────────────────────────────────────────────────────────


@pytest.fixture
async def with_jobs(no_leaks: None, tmp_path: Path) -> AsyncIterator[Context]:
    async with mounted(ShellPlugin(), cwd=str(tmp_path), grace_ms=300) as context:
        await context.plugin(JobsPlugin())
        await context.plugin(JobToolsPlugin())
        yield context


async def test_a_command_in_the_background(with_jobs: Context):
    # HOST-196, 200
    result = await run(with_jobs, "bash", command("echo one; sleep 0.2; echo two; exit 3", run_in_background=True))
    assert result.value == {"kind": "background", "jobId": "bash-1"}
    assert text_of(result) == "started background job bash-1"
    job = await with_jobs.jobs.wait("bash-1", timeout_ms=10_000)
    assert (job.status, job.detail, job.label) == ("completed", "exit code: 3", "test")
    assert with_jobs.jobs.read("bash-1").text == "one\ntwo\n"


async def test_a_job_that_is_cancelled(with_jobs: Context):
    # HOST-200
    await value_of(with_jobs, "bash", command("sleep 333 & sleep 334", run_in_background=True))
    await asyncio.sleep(0.1)
    with_jobs.jobs.cancel("bash-1")
    job = await with_jobs.jobs.wait("bash-1", timeout_ms=10_000)
    assert (job.status, job.detail) == ("killed", "killed by signal: SIGTERM")


async def test_a_job_with_a_time_limit(with_jobs: Context):
    await value_of(with_jobs, "bash", command("sleep 335", run_in_background=True, timeoutMs=100))
    job = await with_jobs.jobs.wait("bash-1", timeout_ms=10_000)
    assert (job.status, job.detail) == ("completed", "timed out, killed by signal: SIGTERM")


async def test_jobs_end_with_the_service(no_leaks: None, tmp_path: Path):
    # HOST-182
    async with mounted(ShellPlugin(), cwd=str(tmp_path), grace_ms=100) as ctx:
        await ctx.plugin(JobsPlugin())
        await ctx.plugin(JobToolsPlugin())
        await value_of(ctx, "bash", command("trap '' TERM; sleep 336", run_in_background=True))
        await asyncio.sleep(0.1)


async def test_without_the_service_there_is_no_background(ctx: Context, tmp_path: Path):
    # HOST-194, 41
    code, message = await error_of(ctx, "bash", command("touch x", run_in_background=True))
    assert code == "SHELL_ERROR"
    assert message == "background jobs are not available here; run the command in the foreground"
    assert list(tmp_path.iterdir()) == []
