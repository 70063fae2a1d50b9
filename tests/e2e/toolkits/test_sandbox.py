"""``bash`` confined by bubblewrap: what commands can and cannot do, and how more is asked for."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.calls import run, text_of
from tests.support.toolkits import SessionAgent, error_of, failed, mounted, value_of

from dsh_tools.errors import ConfigError
from dsh_tools.kernel import Context
from dsh_tools.services import ApprovalPlugin, scripted
from dsh_tools.services.jobs import JobsPlugin, JobToolsPlugin
from dsh_tools.toolkits import ShellPlugin
from dsh_tools.toolkits.shell.sandbox import looks_denied, require_bubblewrap
from dsh_tools.tools import Allow, Deny, ToolSuccess

pytestmark = pytest.mark.needs("bwrap")


@pytest.fixture(autouse=True)
async def allowed_to_confine(no_leaks: None) -> None:
    """A system may have the program and forbid what it does: most containers do."""
    try:
        await require_bubblewrap()
    except ConfigError as error:
        if os.environ.get("DSH_TOOLS_REQUIRE_PROGRAMS") == "1":
            raise
        raise pytest.skip.Exception(error.message, _use_item_location=True) from None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("untouched")
    return tmp_path / "project"


@pytest.fixture
async def ctx(no_leaks: None, project: Path) -> AsyncIterator[Context]:
    async with mounted(ShellPlugin(), cwd=str(project), grace_ms=300, sandbox={}) as context:
        yield context


def command(line: str, **more: Any) -> dict[str, Any]:
    return {"command": line, "description": "test", **more}


async def shown(ctx: Context, line: str, **more: Any) -> str:
    return text_of(await run(ctx, "bash", command(line, **more)))


# ── what a command can do ──────────────────────────────────────────────────────


async def test_the_project_folder_can_be_changed(ctx: Context, project: Path):
    result = await run(ctx, "bash", command("pwd; echo text > made; cat made"))
    assert text_of(result) == f"{project}\ntext"
    assert (project / "made").read_text() == "text\n"
    assert result.value["sandbox"] == {"mode": "workspace-write", "network": False, "denied": False}


async def test_the_system_can_be_read_and_used(ctx: Context):
    assert await shown(
        ctx, "head -c 4 /etc/passwd; python3 -c 'print(6 * 7)'; echo x > /tmp/a && cat /tmp/a; ls /dev/null"
    ) == ("root42\nx\n/dev/null")


@pytest.mark.parametrize(
    "line",
    [
        "echo x > /etc/made",
        "echo x >> ../other/file",
        "rm ../other/file",
        "mkdir /made",
        "chmod 777 /etc",
        "ln ../other/file . && echo x > file",
        "mount -o remount,rw / && echo x > /etc/made",
        "mount --bind / /tmp && echo x > /tmp/etc/made",
        "ln -s /etc link && echo x > link/made",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x > /etc/made'",
        "chroot / touch /etc/made",
        "mknod disk b 8 0 && cat disk",
        "echo x > /proc/sys/kernel/core_pattern",
        "echo x > /proc/sysrq-trigger",
        "echo 0 > /sys/kernel/mm/transparent_hugepage/enabled",
    ],
)
async def test_nothing_else_can_be_changed(ctx: Context, project: Path, line: str):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    value = await value_of(ctx, "bash", command(line))
    assert value["exitCode"] != 0, value
    assert (project.parent / "other" / "file").read_text() == "untouched"
    assert not Path("/etc/made").exists()
    assert not Path("/made").exists()
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before
    assert stat.S_IMODE(Path("/etc").stat().st_mode) == 0o755


async def test_no_setting_of_the_kernel_can_be_written(ctx: Context):
    # Whoever runs this as root owns these files inside, too.
    line = (
        "find /proc /sys -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune "
        "-o -type f -perm /222 -print0 2>/dev/null | xargs -0 sh -c "
        '\'for f; do if ( : >> "$f" ) 2>/dev/null; then echo "$f"; fi; done\' _; true'
    )
    value = await value_of(ctx, "bash", command(line))
    assert (value["stdout"]["text"], value["exitCode"]) == ("", 0)


async def test_there_is_no_network(ctx: Context, project: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        text = await shown(ctx, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
        assert "connected" not in text
        # Nor by way of a service's socket.
        assert await shown(ctx, "ls /run; find /run/ /var/run/ /tmp -type s") == "(no output)"
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={"network": True}) as with_network:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            threading.Thread(target=server.accept, daemon=True).start()
            assert await shown(with_network, f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected") == "connected"
            result = await value_of(with_network, "bash", command("true"))
            assert result["sandbox"]["network"] is True


async def test_other_processes_are_out_of_reach(ctx: Context):
    text = await shown(ctx, f"kill -0 {os.getpid()} && echo reached; ls -d /proc/[0-9]* | wc -l")
    assert "reached" not in text
    assert int(text.splitlines()[0]) < 10


async def test_nothing_survives(ctx: Context):
    started = time.monotonic()
    text = await shown(ctx, "env -i setsid sleep 461 & trap '' TERM; echo on; sleep 461", timeoutMs=200)
    assert text.startswith("on\n[timed out after 200ms]")
    assert time.monotonic() - started < 3
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"sleep\x00461" in _bytes(p)]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_a_denial_is_pointed_out(ctx: Context):
    # HOST-198
    text = await shown(ctx, "echo x > /etc/made")
    assert text.splitlines()[-2:] == [
        "[the sandbox seems to have stopped this: workspace-write, no network]",
        "[exit code: 1]",
    ]
    assert not looks_denied(0, "Read-only file system")
    assert not looks_denied(1, "no such file")


async def test_read_only_means_the_project_too(no_leaks: None, project: Path):
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={"mode": "read-only"}) as ctx:
        assert "[exit code: 1]" in await shown(ctx, "echo x > made")
        assert list(project.iterdir()) == []


async def test_hidden_paths_are_empty(no_leaks: None, project: Path):
    other = project.parent / "other"
    (other / "key").write_text("secret")
    config = {"hide": [str(other), "/etc/passwd"]}
    async with mounted(ShellPlugin(), cwd=str(project), sandbox=config) as ctx:
        assert await shown(ctx, f"ls {other}; cat /etc/passwd || ls /etc/hostname") == (
            "/etc/hostname\n[stderr]\ncat: /etc/passwd: Permission denied"
        )


async def test_the_project_is_the_sessions_folder(no_leaks: None, project: Path):
    # HOST-201
    mine = project.parent / "mine"
    mine.mkdir()
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={}) as ctx:
        agent = SessionAgent(mine)
        line = f"touch {mine}/made; touch {project}/made"
        await run(ctx, "bash", command(line), agent=agent)
        assert [p.name for p in mine.iterdir()] == ["made"]
        assert list(project.iterdir()) == []


async def test_long_output_can_be_read_by_the_next_command(no_leaks: None, project: Path):
    # HOST-199
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={}, max_output_bytes=100) as ctx:
        path = (await value_of(ctx, "bash", command("seq 1 1000")))["stdout"]["spillPath"]
        assert await shown(ctx, f"sed -n 500p {path}") == "500"


async def test_jobs_are_confined_too(no_leaks: None, project: Path):
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={}) as ctx:
        await ctx.plugin(JobsPlugin())
        await ctx.plugin(JobToolsPlugin())
        await value_of(ctx, "bash", command("echo x > /etc/made; touch made", run_in_background=True))
        await ctx.jobs.wait("bash-1", timeout_ms=10_000)
        assert [p.name for p in project.iterdir()] == ["made"]
        assert not Path("/etc/made").exists()


# ── where it cannot be had ─────────────────────────────────────────────────────


async def test_without_bubblewrap_the_shell_does_not_load(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ConfigError, match="bubblewrap \\(bwrap\\), which is not installed"):
        async with mounted(ShellPlugin(), cwd=str(project), sandbox={}):
            pass
    # Nothing is demanded: nothing is missing.
    async with mounted(ShellPlugin(), cwd=str(project)) as ctx:
        assert ctx.tools.get("bash") is not None


async def test_a_bubblewrap_that_does_not_work_is_refused(
    no_leaks: None, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(ConfigError, match="No permissions to create new namespace"):
        async with mounted(ShellPlugin(), cwd=str(project), sandbox={}):
            pass


@pytest.mark.parametrize("sandbox", [{"folder": "/"}, {"mode": "none"}, {"folder": "/no/such/folder"}])
async def test_bad_settings_are_load_errors(project: Path, sandbox: dict[str, Any]):
    with pytest.raises((ConfigError, ValueError)):
        async with mounted(ShellPlugin(), cwd=str(project), sandbox=sandbox):
            pass


# ── asking for more ────────────────────────────────────────────────────────────


def more(wanted: str, why: str = "to install it") -> dict[str, Any]:
    return {"sandbox_permissions": wanted, "justification": why}


@pytest.fixture
async def asking(no_leaks: None, project: Path) -> AsyncIterator[tuple[Context, list[Any]]]:
    questions: list[Any] = []
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={"mode": "read-only"}) as ctx:
        await ctx.plugin(ApprovalPlugin())
        ctx.on("approval/asked", questions.append)
        yield ctx, questions


async def test_the_parameters_are_there_where_commands_are_confined(ctx: Context, project: Path):
    # HOST-193
    [schema] = ctx.tools.schemas()
    assert {"sandbox_permissions", "justification"} <= set(schema.parameters["properties"])
    assert "sandbox" in schema.description
    async with mounted(ShellPlugin(), cwd=str(project), sandbox={"allow_escalation": False}) as other:
        [schema] = other.tools.schemas()
        assert "sandbox_permissions" not in schema.parameters["properties"]
        assert (await error_of(other, "bash", command("true", **more("full-access"))))[0] == "INVALID_ARGS"


@pytest.mark.parametrize(
    "extra",
    [
        {"sandbox_permissions": "full-access"},
        {"justification": "because"},
        {"sandbox_permissions": "full-access", "justification": "  "},
        {"sandbox_permissions": "workspace-write", "justification": "no wider than now"},
        {"sandbox_permissions": "everything", "justification": "no such mode"},
    ],
)
async def test_a_wish_that_makes_no_sense_is_not_put_to_anybody(ctx: Context, project: Path, extra: dict[str, Any]):
    # HOST-195, 205
    asked: list[object] = []
    ctx.on("tools/pre-execute", lambda execution, next: asked.append(execution) or next())
    assert (await error_of(ctx, "bash", command("touch made", **extra)))[0] == "INVALID_ARGS"
    assert (asked, list(project.iterdir())) == ([], [])


async def test_what_a_person_allows_is_what_the_command_can_do(asking: tuple[Context, list[Any]], project: Path):
    # HOST-205
    ctx, questions = asking
    ctx.approval.answer_with(scripted({"bash": "allowed-once"}))
    other = project.parent / "other"
    agent = SessionAgent(project)
    agent.session.append("turn/start", {"turn": 1})

    result = await run(ctx, "bash", command(f"touch made; touch {other}/made", **more("workspace-write")), agent=agent)
    assert isinstance(result, ToolSuccess), failed(result)
    assert result.value["sandbox"]["mode"] == "workspace-write"
    assert ((project / "made").exists(), (other / "made").exists()) == (True, False)

    result = await run(ctx, "bash", command(f"touch {other}/made", **more("full-access", "why not")), agent=agent)
    assert "sandbox" not in result.value
    assert (other / "made").exists()
    assert [question.reason for question in questions] == [
        "run this command with the right to change the project folder: to install it",
        "run this command outside the sandbox, with all rights that you have: why not",
    ]
    # The next command is confined as ever.
    assert "[exit code: 1]" in text_of(await run(ctx, "bash", command("touch again"), agent=agent))


async def test_without_a_yes_nothing_runs(asking: tuple[Context, list[Any]], project: Path):
    # HOST-205
    ctx, _ = asking
    call = command("touch made", **more("full-access"))
    agent = SessionAgent(project)
    agent.session.append("turn/start", {"turn": 1})
    nobody = await error_of(ctx, "bash", call, agent=agent)
    ctx.approval.answer_with(scripted({"bash": "rejected"}))
    refused = await error_of(ctx, "bash", call, agent=agent)
    ctx.on("tools/pre-execute", lambda execution, next: Deny("not here"))
    denied = await error_of(ctx, "bash", call, agent=agent)
    assert len({nobody[1], refused[1], denied[1]}) == 3
    assert denied[1] == "not here"
    assert list(project.iterdir()) == []


async def test_a_listener_that_allows_everything_is_not_a_person(asking: tuple[Context, list[Any]], project: Path):
    # HOST-205
    ctx, questions = asking
    ctx.on("tools/pre-execute", lambda execution, next: Allow(), prepend=True)
    code, message = await error_of(ctx, "bash", command("touch made", **more("full-access")))
    assert code == "SHELL_ERROR"
    assert "nobody was asked" in message
    assert (questions, list(project.iterdir())) == ([], [])
