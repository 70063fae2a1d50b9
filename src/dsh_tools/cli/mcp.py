"""``dsh-tools mcp``: our tools, and those of other servers, for any MCP client."""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
from typing import TYPE_CHECKING, Annotated, Any

import pydantic
import typer

from ..code_runtime import CodeRuntimeConfig
from ..errors import ConfigError
from ..tools import Mode
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb

if TYPE_CHECKING:
    from ..kernel import Context
    from ..toolkits.mcp.server import Publisher

__all__ = ["read_upstream", "serve"]


def serve(
    upstream: Annotated[
        list[str] | None,
        typer.Option("--upstream", "-u", help="NAME=COMMAND ARGS… or NAME=URL: a server whose tools are published."),
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="native: each tool by itself; code: one tool that runs programs.")
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option("--host", help="The address to listen on (with --http).")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 takes a free one.")] = 0,
    token_env: Annotated[
        str | None, typer.Option("--token-env", help="The environment variable with the token clients must send.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust-annotations", help="Let read-only tools of the upstream servers overlap.")
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Publish the configured tools, and those of other MCP servers, to an MCP client.

    Every call goes through the whole pipeline. What needs approval is asked through the client, where it
    can show forms, and denied where it cannot.
    """

    async def work(settings: CommandConfig) -> int:
        chosen = _mode(mode)
        servers = [read_upstream(text, trust) for text in upstream or []]
        try:
            serving: Any = importlib.import_module("dsh_tools.toolkits.mcp.server")
        except ImportError as error:
            raise ConfigError(str(error)) from error
        async with open_app(_with_runtime(settings, chosen)) as ctx:
            await _mount_upstream(ctx, servers)
            publisher: Publisher = serving.Publisher(ctx, chosen)
            if not http:
                await serving.serve_stdio(publisher)
                return 0
            token = None if token_env is None else os.environ.get(token_env)
            if token_env is not None and not token:
                raise ConfigError(f"--token-env {token_env}: the variable is not set")
            where = serving.HttpConfig(host=host, port=port, token=token)
            async with serving.serve_http(publisher, where) as url:
                typer.echo(f"serving on {url}", err=True)
                await asyncio.Event().wait()
        return 0

    run_verb(work, config)


def _with_runtime(settings: CommandConfig, mode: Mode | None) -> CommandConfig:
    """Programs need something to run them, whatever the file says about the mode."""
    if mode != "code" or settings.code_runtime is not None:
        return settings
    return settings.model_copy(update={"code": CodeRuntimeConfig()})


def _mode(text: str | None) -> Mode | None:
    if text is None or text == "native" or text == "code":
        return text
    raise ConfigError(f'--mode {text}: the mode is "native" or "code"')


def read_upstream(text: str, trust: bool = False) -> dict[str, Any]:
    """Read ``NAME=COMMAND ARGS…`` or ``NAME=URL`` into the config of one MCP server.

    Raises:
        ConfigError: it is neither.
    """
    name, separator, target = text.partition("=")
    target = target.strip()
    if not separator or not target:
        raise ConfigError(f"--upstream {text}: write NAME=COMMAND ARGS… or NAME=URL")
    common: dict[str, Any] = {"server_name": name.strip(), "trust_annotations": trust, "fail_on_startup_error": True}
    if target.startswith(("http://", "https://")):
        return {**common, "transport": "streamable-http", "url": target}
    try:
        command, *args = shlex.split(target)
    except ValueError as error:
        raise ConfigError(f"--upstream {text}: {error}") from error
    return {**common, "transport": "stdio", "command": command, "args": args}


async def _mount_upstream(ctx: Context, servers: list[dict[str, Any]]) -> None:
    toolkit: Any = importlib.import_module("dsh_tools.toolkits.mcp")
    fibers = [ctx.plugin(toolkit.McpPlugin(), server) for server in servers]
    for server, fiber in zip(servers, fibers, strict=True):
        try:
            await fiber
        except pydantic.ValidationError as error:
            raise ConfigError(f"--upstream {server['server_name']}: {error}") from error
