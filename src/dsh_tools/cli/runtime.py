"""What every verb needs: the application that ``dsh.yaml`` describes, and an orderly end."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import pydantic
import typer

from ..errors import ConfigError, HarnessError
from ..kernel import Context, create_context
from ..standard import mount_standard
from ..tools import ToolDefinition
from .config import CommandConfig, load_config, load_object
from .interrupts import INTERRUPTED, interruptible
from .tool_sources import mount

__all__ = ["ConfigOption", "StoreOption", "open_app", "run_verb"]

T = TypeVar("T")

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="The configuration file; dsh.yaml in this folder if there is one."),
]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="The SQLite file of the sessions, instead of the configured one.")
]


@asynccontextmanager
async def open_app(config: CommandConfig, *, mount_plugins: bool = True) -> AsyncGenerator[Context]:
    """The application of a configuration, for the length of an ``async with`` block.

    Raises:
        ConfigError: a plugin cannot be imported, or refuses its config; the text names it.
    """
    async with create_context() as ctx:
        await mount_standard(ctx, config)
        if mount_plugins:
            for entry in config.plugins:
                found = load_object(entry.use)
                try:
                    if entry.config is None:
                        await mount(ctx, found)
                    elif isinstance(found, ToolDefinition):
                        raise ConfigError("is a tool, which takes no config")
                    else:
                        await ctx.plugin(found, entry.config)
                except pydantic.ValidationError as error:
                    raise entry.config_error(error, getattr(found, "Config", None)) from error
                except (TypeError, HarnessError) as error:
                    raise ConfigError(f"plugin {entry.use}: {error}") from error
        yield ctx


def run_verb(work: Callable[[CommandConfig], Coroutine[Any, Any, int]], config_file: Path | None) -> None:
    """Run one verb and end with its status: its own, 2 for a wrong configuration, 130 or 143 when stopped.

    Ctrl-C and SIGTERM cancel the verb; it ends once everything it started has stopped.
    """
    try:
        _require_folder()
        running = _until_stopped(work, load_config(config_file))
        try:
            with interruptible():
                status = asyncio.run(running)
        finally:
            running.close()  # where Ctrl-C was faster than it
    except HarnessError as error:
        typer.echo(f"dsh-tools: {error}", err=True)
        raise typer.Exit(2) from error
    except ExceptionGroup as failures:
        # What failed while everything was taken down, a full disk under the sessions, say.
        _, others = failures.split(HarnessError)
        if others is not None:
            raise
        for text in dict.fromkeys(str(error) for error in _leaves(failures)):
            typer.echo(f"dsh-tools: {text}", err=True)
        raise typer.Exit(2) from failures
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    sys.stdout.flush()
    raise typer.Exit(status)


def _require_folder() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise ConfigError(f"the working directory is not there any more: {error.strerror}") from error


def _leaves(group: BaseExceptionGroup[Any]) -> Generator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[Any]", error))
        else:
            yield error


async def _until_stopped(work: Callable[[CommandConfig], Coroutine[Any, Any, int]], config: CommandConfig) -> int:
    """Let SIGTERM cancel the work as Ctrl-C does, and say so by the status."""
    task = asyncio.ensure_future(work(config))
    terminated = False

    def terminate() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminate)
    try:
        return await task
    except asyncio.CancelledError:
        if terminated:
            return 143
        task.cancel()
        await asyncio.wait({task})
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
