"""Sessions as JSON lines: the header on the first line, then one event a line.

A text that a person can read, ``grep`` and send; not a place to append to (that is a store).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import SessionError
from .codec import decode_event, decode_header, encode_event, encode_header
from .events import Event, SessionHeader
from .store import StoredSession

__all__ = ["dump_jsonl", "load_jsonl", "read_jsonl", "write_jsonl"]


def dump_jsonl(header: SessionHeader, events: Iterable[Event]) -> Iterator[str]:
    """Yield the lines of an export, without line breaks."""
    yield encode_header(header)
    for event in events:
        yield encode_event(event)


def load_jsonl(lines: Iterable[str | bytes]) -> StoredSession:
    """Read the lines of an export. Blank lines are passed over.

    What the events mean is checked where they are loaded into a log, not here.

    Raises:
        SessionError: ``CORRUPT_LOG``, naming the line: not JSON, not a header or event, or out of order.
    """
    header: SessionHeader | None = None
    events: list[Event] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if header is None:
                header = decode_header(line)
                continue
            event = decode_event(line)
            if event.seq != len(events):
                raise SessionError(f"event {event.seq} stands in place {len(events)}", "CORRUPT_LOG")
        except SessionError as error:
            raise SessionError(f"line {number}: {error.message}", error.code) from error
        events.append(event)
    if header is None:
        raise SessionError("there is no header", "CORRUPT_LOG")
    return StoredSession(header, tuple(events))


def write_jsonl(path: str | Path, header: SessionHeader, events: Iterable[Event]) -> None:
    """Write an export to a file, which is either complete or not there.

    Raises:
        OSError: the file could not be written.
    """
    path = Path(path)
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="\n") as out:
        for line in dump_jsonl(header, events):
            out.write(line + "\n")
    partial.replace(path)


def read_jsonl(path: str | Path) -> StoredSession:
    """Read an export from a file.

    Raises:
        OSError: the file could not be read.
        SessionError: as :func:`load_jsonl`.
    """
    with Path(path).open("rb") as lines:
        return load_jsonl(lines)
