"""The engine that runs ripgrep: by an argument vector, without its configuration files (HOST-221)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..processes import Launch, OutputSink, Supervisor, attend
from ..processes.supervisor import Stream
from .engine import FileHits, Include, SearchFolder
from .errors import InvalidPatternError, RawOutputOverflowError, SearchAbortedError, SearchError
from .globs import normal_pattern

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from .patterns import LinePattern

__all__ = ["RipgrepEngine"]

# Ignore files of the tree only: results must not depend on whose machine it is.
_COMMON = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--hidden",
    "--no-require-git",
    "--no-ignore-dot",
    "--no-ignore-exclude",
    "--no-ignore-global",
    "--glob=!.git",
    "--null",
)
_GREP = ("--no-heading", "--with-filename", "--line-number", "--no-mmap", "--case-sensitive")
_MAX_STDERR = 65_536
# An include of these characters means the same in an ignore file; others are only checked afterwards.
_PLAIN_INCLUDE = re.compile(r"[\w./*?{},-]+")
_RECORD = re.compile(r"([^\0]*)\0(\d+):([^\n]*)\n")
_BINARY = re.compile(r"(.*?): WARNING: stopped searching binary file after match [^\n]*\n", re.DOTALL)


class RipgrepEngine:
    """Runs ripgrep in the search's folder.

    Parameters:
        program: its path.
        max_raw_bytes: how much it may write, in bytes.
        grace: how many seconds it may take to end when it is told to.
    """

    name = "ripgrep"

    def __init__(self, program: str, max_raw_bytes: int, grace: float) -> None:
        self._program = program
        self._max_raw_bytes = max_raw_bytes
        self._grace = grace

    async def list_files(self, folder: SearchFolder, signal: AbortSignal) -> list[str]:
        """Return the files below a folder; see :class:`Engine`."""
        out = await self._run(folder, [*_COMMON, "--files", "--", "./"], (), signal)
        return sorted(path[2:] for path in out.split("\0") if path)

    async def search(
        self, folder: SearchFolder, pattern: LinePattern, include: Include | None, signal: AbortSignal
    ) -> list[FileHits]:
        """Return the matching lines; see :class:`Engine`."""
        options = [*_COMMON, *_GREP, f"--regexp={pattern.text}"]
        rules = _ignore_rules(folder.only, include)
        if folder.only is not None:
            # As a file that is named it would be searched as text even where it is not.
            options += ["--max-depth=1", "--no-ignore-vcs"]
        if rules is None:
            return _select(_parse(await self._run(folder, [*options, "--", "./"], (), signal)), folder, include)
        read, write = os.pipe()
        try:
            with os.fdopen(write, "wb") as file:
                file.write(os.fsencode(rules))
            arguments = [*options, f"--ignore-file=/dev/fd/{read}", "--", "./"]
            out = await self._run(folder, arguments, (read,), signal)
        finally:
            os.close(read)
        return _select(_parse(out), folder, include)

    async def _run(
        self, folder: SearchFolder, arguments: Sequence[str], pass_fds: Sequence[int], signal: AbortSignal
    ) -> str:
        sink = _Sink(self._max_raw_bytes)
        launch = Launch([self._program, *arguments], _cwd(folder), {}, None, self._grace, pass_fds)
        supervisor = Supervisor(launch, sink)

        def work() -> str:
            try:
                outcome = supervisor.run()
            except OSError as error:
                raise SearchError(f"ripgrep could not be started: {error.strerror or error}") from error
            if outcome.stopped:
                raise SearchAbortedError("the search was aborted")
            said = sink.stderr.decode("utf-8", "replace").strip()
            # Without a word, what failed are single files that cannot be read: they are passed over.
            if outcome.exit_code not in (0, 1) and (said or outcome.exit_code != 2):
                raise _failure(said or f"it ended with {outcome.signal or outcome.exit_code}")
            return bytes(sink.stdout).decode("utf-8", "replace")

        return await attend(work, supervisor.stop, signal)


class _Sink(OutputSink):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.stdout = bytearray()
        self.stderr = bytearray()

    def feed(self, stream: Stream, data: bytes) -> None:
        if stream == "stderr":
            self.stderr += data[: max(0, _MAX_STDERR - len(self.stderr))]
            return
        self.stdout += data
        if len(self.stdout) > self._limit:
            raise RawOutputOverflowError(
                f"the search finds more than {self._limit} bytes; use a narrower pattern, path or include"
            )

    def flush(self) -> float | None:
        return None


def _cwd(folder: SearchFolder) -> str:
    """Return the folder as a path that cannot be swapped for another one meanwhile, where the system has such."""
    by_descriptor = f"/proc/self/fd/{folder.fd}"
    return by_descriptor if os.path.isdir(by_descriptor) else folder.real


def _ignore_rules(only: str | None, include: Include | None) -> str | None:
    """Return the ignore rules that leave the wanted files, None where all are wanted.

    Options for that would overrule ``.gitignore`` files; rules in an ignore file of their own rank below them.
    """
    if only is not None:
        return "*\n!/" + re.sub(r"([\\*?\[\]{}!# ])", r"\\\1", only) + "\n"
    if include is None or _PLAIN_INCLUDE.fullmatch(include.text) is None:
        return None
    return f"*\n!*/\n!{normal_pattern(include.text)}\n"


def _failure(said: str) -> SearchError:
    last = said.splitlines()[-1].removeprefix("error: ")
    if "regex" in said:
        return InvalidPatternError(f"the pattern is not a regular expression: {last}")
    return SearchError(f"ripgrep failed: {last}")


def _parse(out: str) -> dict[str, list[tuple[int, str]]]:
    """Read ``path NUL number : line`` records; files that turned out to be binary are left out."""
    found: dict[str, list[tuple[int, str]]] = {}
    binary: list[str] = []
    end = 0
    for record in _RECORD.finditer(out):
        path, number, line = record.groups()
        while "\n" in path and (warning := _BINARY.match(path)) is not None:
            binary.append(warning[1])
            path = path[warning.end() :]
        found.setdefault(path, []).append((int(number), line.removesuffix("\r")))
        end = record.end()
    binary += [warning[1] for warning in _BINARY.finditer(out, end)]
    for path in binary:
        found.pop(path, None)
    return found


def _select(found: dict[str, list[tuple[int, str]]], folder: SearchFolder, include: Include | None) -> list[FileHits]:
    hits = [(path.removeprefix("./"), lines) for path, lines in found.items()]
    if folder.only is not None:
        hits = [hit for hit in hits if hit[0] == folder.only]
    if include is not None:
        hits = [hit for hit in hits if include.expression.match(hit[0]) is not None]
    return sorted(hits)
