"""``dsh-tools run-code``: one program against the tools, every call through the whole pipeline."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..code_runtime import CodeRuntimeConfig
from ..content import content_text
from ..errors import ConfigError
from ..json_value import to_json_text
from ..session import SessionsConfig
from ..tools import RESERVED_NAME, TOOL_RESULT, ToolCall, ToolExecution, ToolResult
from .call import mount_answerer, result_json
from .config import CommandConfig
from .runtime import ConfigOption, open_app, run_verb
from .tool_sources import ToolsOption, mount_tools

__all__ = ["NO_STORE", "Language", "LanguageOption", "run_code"]

NO_STORE = SessionsConfig(store="memory")
_CALL_ID = "command-1"


class Language(StrEnum):
    """The languages of programs."""

    TYPESCRIPT = "typescript"
    PYTHON = "python"


_SUFFIXES = {".py": Language.PYTHON, ".ts": Language.TYPESCRIPT}

LanguageOption = Annotated[
    Language | None, typer.Option("--language", help="The language of programs; the configured one by default.")
]


def run_code(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The program; - reads standard input.")],
    language: LanguageOption = None,
    tools: ToolsOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    config: ConfigOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without asking.")] = False,
) -> None:
    """Run a program against the tools; status 0 for a success, 1 for a failure, 2 for a wrong configuration.

    A file that ends in ``.py`` is a Python program, one that ends in ``.ts`` a TypeScript program, where no language is
    given.
    """

    async def work(settings: CommandConfig) -> int:
        program = _read(file)
        settings = _for_programs(settings, language or _language_of(file))
        with _stdout_for_the_result():
            async with open_app(settings) as ctx:
                await mount_tools(ctx, tools)
                mount_answerer(ctx, yes)
                _warn_of_language(file, ctx.code_runtime.language)
                dispatches = _Dispatches()
                ctx.on(TOOL_RESULT, dispatches.note)
                caller = ctx.create_scope("command")
                call = ToolCall(RESERVED_NAME, {"code": program}, call_id=_CALL_ID, agent=caller)
                result = await ctx.tools.execute(call)
        if as_json:
            document = {key: value for key, value in result_json(result).items() if key in _SHOWN}
            typer.echo(to_json_text({**document, "dispatches": dispatches.noted}))
        else:
            typer.echo(content_text(result.content), err=result.is_error)
        return 1 if result.is_error else 0

    run_verb(work, config)


_SHOWN = ("isError", "value", "content", "error")


class _Dispatches:
    """Notes every call of the program, in the order in which they were committed."""

    def __init__(self) -> None:
        self.noted: list[dict[str, Any]] = []

    def note(self, execution: ToolExecution, result: ToolResult) -> None:
        if execution.call_id.startswith(f"{_CALL_ID}:code:"):
            self.noted.append({"id": execution.call_id, "name": execution.name, "isError": result.is_error})


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text: {error.reason} at byte {error.start}") from error


def _language_of(file: str) -> Language | None:
    return _SUFFIXES.get(Path(file).suffix)


def _warn_of_language(file: str, used: str) -> None:
    """Say so where a file runs as something else than what its name says; its errors would make no sense."""
    named = _language_of(file)
    if named is not None and named != used:
        typer.echo(f"dsh-tools: {file} is {named.value} by its name, and is run as {used}", err=True)


def _for_programs(settings: CommandConfig, language: Language | None) -> CommandConfig:
    """The settings with a mode that has programs, and with the runtime of their language."""
    mode: Literal["code", "both"] = "both" if settings.tools.mode == "both" else "code"
    code = settings.code or CodeRuntimeConfig(pool_size=1)
    if language is not None:
        code = code.model_copy(update={"language": language.value})
    changes = {"tools": settings.tools.model_copy(update={"mode": mode}), "code": code, "sessions": NO_STORE}
    return settings.model_copy(update=changes)


@contextlib.contextmanager
def _stdout_for_the_result() -> Generator[None]:
    """Keep standard output for the result: what tools print goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
