"""What a command writes: its end is kept for the model, all of it in a file, and lines go to whoever watches."""

from __future__ import annotations

import asyncio
import codecs
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..processes import OutputSink
from ..processes.supervisor import Stream

__all__ = ["Capture", "Kept", "SpillFile", "StreamTail", "Watcher"]

_REPORT_EVERY = 0.1
_REPORT_CHARS = 16_384


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left of one stream.

    Parameters:
        text: the end of the output.
        truncated: whether its beginning is missing.
        spill_path: the file with all of it, where there is one.
    """

    text: str
    truncated: bool
    spill_path: str | None


class SpillFile:
    """A file for output that is too long to keep; made when it is needed, with one limit for its size.

    Parameters:
        folder: gives the folder, which exists; called at the first write.
        name: the beginning of the file's name.
        limit: how many bytes the file may have; output that is longer is not kept at all.
    """

    def __init__(self, folder: Callable[[], Path], name: str, limit: int) -> None:
        self._folder = folder
        self._name = name
        self._room = limit
        self._fd: int | None = None
        self._failed = False
        self.path: str | None = None

    def write(self, data: bytes) -> None:
        """Add bytes; a full disk or too many bytes end the file and remove it."""
        if self._failed:
            return
        self._room -= len(data)
        try:
            if self._room < 0:
                raise OSError("too long")
            if self._fd is None:
                self._open()
            view = memoryview(data)
            while view and self._fd is not None:
                view = view[os.write(self._fd, view) :]
        except OSError:
            self._give_up()

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _open(self) -> None:
        path = self._folder() / f"{self._name}-{secrets.token_hex(6)}.log"
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self.path = str(path)

    def _give_up(self) -> None:
        self._failed = True
        self.close()
        if self.path is not None:
            Path(self.path).unlink(missing_ok=True)
            self.path = None


class StreamTail:
    """Keeps the last ``limit`` bytes of a stream; when there are more, all of it goes to a file."""

    def __init__(self, limit: int, spill: SpillFile) -> None:
        self._limit = limit
        self._spill = spill
        self._kept = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        """Take a piece."""
        kept = self._kept
        fitted = self._total <= self._limit
        self._total += len(data)
        if self._total > self._limit:
            if fitted:
                self._spill.write(bytes(kept))
            self._spill.write(data)
        kept += data
        # Not at every piece, so that many small pieces stay cheap.
        if len(kept) > 2 * self._limit:
            del kept[: -self._limit]

    def result(self) -> Kept:
        """Return what is kept, and close the file."""
        self._spill.close()
        truncated = self._total > self._limit
        data = bytes(self._kept[-self._limit :]) if truncated else bytes(self._kept)
        if truncated:
            start = 0
            while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
                start += 1
            data = data[start:]
        return Kept(data.decode("utf-8", "replace"), truncated, self._spill.path if truncated else None)


class Watcher:
    """Hands whole lines to an observer on the event loop, a few times a second.

    Of lines that come faster than that only the last are handed on.

    Parameters:
        loop: where ``report`` is called.
        report: gets text of whole lines; only the very last may lack its end.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, report: Callable[[str], object]) -> None:
        self._loop = loop
        self._report = report
        self._lines: dict[Stream, _Lines] = {"stdout": _Lines(), "stderr": _Lines()}
        self._ready = ""
        self._dropped = False
        self._last = 0.0

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take a piece."""
        self._add(self._lines[stream].complete(data))

    def flush(self) -> float | None:
        """Report the lines that are complete; where the last report is too recent, say how long to wait."""
        if not self._ready:
            return None
        wait = self._last + _REPORT_EVERY - time.monotonic()
        if wait > 0:
            return wait
        self._send()
        return None

    def finish(self) -> None:
        """Report everything."""
        for lines in self._lines.values():
            rest = lines.rest()
            if rest:
                separate = self._ready and not self._ready.endswith(("\n", "\r"))
                self._add("\n" + rest if separate else rest)
        if self._ready:
            self._send()

    def _add(self, text: str) -> None:
        self._ready += text
        if len(self._ready) > 2 * _REPORT_CHARS:
            self._ready = self._ready[-_REPORT_CHARS:]
            self._dropped = True

    def _send(self) -> None:
        text, self._ready = self._ready, ""
        if self._dropped:
            text, self._dropped = "[…]\n" + text, False
        self._last = time.monotonic()
        self._loop.call_soon_threadsafe(self._report, text)


class _Lines:
    """Cuts one stream into whole lines; a very long one is cut before its end."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    def complete(self, data: bytes) -> str:
        text = self._begun + self._decoder.decode(data)
        end = max(text.rfind("\n"), text.rfind("\r")) + 1
        if len(text) - end > _REPORT_CHARS:
            end = len(text)
        self._begun = text[end:]
        return text[:end]

    def rest(self) -> str:
        return self._begun + self._decoder.decode(b"", True)


class Capture(OutputSink):
    """Everything that happens to a command's output."""

    def __init__(self, stdout: StreamTail, stderr: StreamTail, watcher: Watcher | None) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._watcher = watcher

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take a piece."""
        (self.stdout if stream == "stdout" else self.stderr).feed(data)
        if self._watcher is not None:
            self._watcher.feed(stream, data)

    def flush(self) -> float | None:
        """Hand on what is complete."""
        return None if self._watcher is None else self._watcher.flush()

    def finish(self) -> tuple[Kept, Kept]:
        """Report the rest, and return what is kept of stdout and stderr."""
        if self._watcher is not None:
            self._watcher.finish()
        return self.stdout.result(), self.stderr.result()
