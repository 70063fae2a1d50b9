"""The engine that runs ripgrep: by an argument vector, without its configuration files (HOST-221)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..processes import Launch, OutputSink, Supervisor, attend
from ..processes.supervisor import Stream
from .engine import FileHits, Include, SearchFolder
from .errors import InvalidPatternError, RawOutputOverflowError, SearchAbortedError, SearchError
from .globs import normal_pattern
from .walk import HiddenFiles

if TYPE_CHECKING:
    from ...kernel.abort import AbortSignal
    from .patterns import LinePattern

__all__ = ["RipgrepEngine"]

T = TypeVar("T")

_NO_GIT = "--glob=!.git"
_UNREADABLE = "\ufffd"
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
    _NO_GIT,
    "--null",
)
_GREP = ("--no-heading", "--with-filename", "--line-number", "--no-mmap", "--case-sensitive")
_MAX_STDERR = 65_536
# A name pattern of these characters means the same to ripgrep; others are only checked afterwards.
_PLAIN = re.compile(r"[\w.*-]+(?:\{[\w.,-]+\})?[\w.*-]*")
_ESCAPED = re.compile(r"[\\*?\[\]{}!]")
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

    async def list_files(self, folder: SearchFolder, include: Include | None, signal: AbortSignal) -> list[str]:
        """Return the files below a folder; see :class:`Engine`."""

        def read(out: str) -> list[str]:
            paths = (path[2:] for path in out.split("\0") if path)
            return sorted(paths if include is None else filter(include.expression.match, paths))

        return await self._run(folder, [*_COMMON, *_narrowed(include), "--files", "--", "./"], read, signal)

    async def search(
        self, folder: SearchFolder, pattern: LinePattern, include: Include | None, signal: AbortSignal
    ) -> list[FileHits]:
        """Return the matching lines; see :class:`Engine`."""
        options = [*_COMMON, *_GREP, f"--regexp={pattern.text}"]
        name = _name_pattern(include)
        if folder.only is None and name is not None:
            found = await self._search_by_glob(folder, options, include, name, signal)
            if found is not None:
                return found
        if folder.only is None:
            options += _narrowed(include)
        else:
            # As a file that is named it would be searched as text even where it is not.
            options += ["--max-depth=1", "--no-ignore-vcs", *_of_name(_ESCAPED.sub(r"\\\g<0>", folder.only))]
        read = partial(_read_hits, folder.only, include)
        return await self._run(folder, [*options, "--", "./"], read, signal)

    async def _search_by_glob(
        self, folder: SearchFolder, options: list[str], include: Include | None, name: str, signal: AbortSignal
    ) -> list[FileHits] | None:
        """Search the files of a name by ``--glob``, the fast way, and pass over those that an ignore file hides.

        Returns:
            None where that cannot be said: files that are hidden fill the output, or a name is no text.
        """
        arguments = [*options, f"--glob={name}", _NO_GIT, "--", "./"]

        def read(out: str) -> list[FileHits] | None:
            hits = _read_hits(None, include, out)
            if any(_UNREADABLE in path for path, _ in hits):
                return None
            hidden = HiddenFiles(folder.fd, folder.real)
            return [hit for hit in hits if hit[0] not in hidden]

        try:
            return await self._run(folder, arguments, read, signal)
        except RawOutputOverflowError:
            return None

    async def _run(
        self, folder: SearchFolder, arguments: Sequence[str], read: Callable[[str], T], signal: AbortSignal
    ) -> T:
        """Run the program and return what ``read`` makes of its output, in the same thread."""
        sink = _Sink(self._max_raw_bytes)
        launch = Launch([self._program, *arguments], _cwd(folder), {}, None, self._grace)
        supervisor = Supervisor(launch, sink)

        def work() -> T:
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
            return read(sink.stdout.decode("utf-8", "replace"))

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


def _narrowed(include: Include | None) -> list[str]:
    """Return options that leave out most of what an include does not want; the rest is left out afterwards."""
    name = _name_pattern(include)
    return [] if name is None else _of_name(name)


def _name_pattern(include: Include | None) -> str | None:
    """Return the pattern of the file's name in an include, where ripgrep would read it as we do."""
    last = "" if include is None else normal_pattern(include.text).rpartition("/")[2]
    return last if _PLAIN.fullmatch(last) and last != "**" else None


def _of_name(glob: str) -> list[str]:
    """Return options that leave the files whose name matches.

    ``--glob`` would do that too, but it overrules ``.gitignore`` files; a type of files does not.
    """
    return [f"--type-add=wanted:{'' if glob[:1] != 'i' else '[i]'}{glob.removeprefix('i')}", "--type=wanted"]


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


def _read_hits(only: str | None, include: Include | None, out: str) -> list[FileHits]:
    hits = [(path.removeprefix("./"), lines) for path, lines in _parse(out).items()]
    if only is not None:
        hits = [hit for hit in hits if hit[0] == only]
    if include is not None:
        hits = [hit for hit in hits if include.expression.match(hit[0]) is not None]
    return sorted(hits)
