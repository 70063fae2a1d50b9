"""Journals in files beside the SQLite file of the sessions: one for each session that has something to keep.

Only the process that has the session's lock uses its journal. A file is open while a program of its
session runs, and holds only what is needed to go on: when a program begins, and every call before it
has its result in the log, the file begins anew.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..code_mode import JournalStep
from ..errors import SessionError
from ..kernel.tasks import see_out
from .entry_file import EntryFile
from .journal import JournalContents, JournalRun, OpenRun, ParkedCall
from .journal_entries import announced_entry, contents_of, parked_entry, run_entry, state_entry, step_entry

__all__ = ["FileJournal"]


class FileJournal:
    """A :class:`Journal` in a folder of files; used on one event loop's thread.

    Args:
        folder: where the files are; it is made with the first one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, EntryFile] = {}
        self._running: dict[str, int] = {}

    async def load(self, session_id: str) -> JournalContents:
        """Return what is kept of a session."""
        with self._reading(session_id) as file:
            if file is None:
                return JournalContents()
            found = contents_of(file.read())
            if file.is_damaged:
                raise SessionError(f'the journal of session "{session_id}" is damaged', "CORRUPT_LOG")
            return found

    async def known(self, session_id: str) -> set[int]:
        """Return the places of all calls that something is kept of."""
        with self._reading(session_id) as file:
            return set() if file is None else {number for number, _ in file.read()}

    def announce(self, session_id: str, call_key: int) -> None:
        """Note that a program is about to be run."""
        with self._errors(session_id):
            self._opened(session_id).append(call_key, announced_entry().encode())
        self._release(session_id)

    async def begin_run(
        self, session_id: str, call_key: int, run: JournalRun, *, drop_others: bool = False
    ) -> _FileRun:
        """Begin the journal of a program; see :meth:`Journal.begin_run`."""
        if drop_others:
            with self._errors(session_id):
                self._opened(session_id).clear()
        return self._run(session_id, call_key, run, {}, run_entry(run))

    async def reopen_run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None]
    ) -> _FileRun:
        """Go on with the journal of a program; see :meth:`Journal.reopen_run`."""
        return self._run(session_id, call_key, run, logged, state_entry("running"))

    def _run(
        self, session_id: str, call_key: int, run: JournalRun, logged: Mapping[str, object | None], entry: str
    ) -> _FileRun:
        with self._errors(session_id):
            file = self._opened(session_id)
            file.append(call_key, entry.encode())
        self._running[session_id] = self._running.get(session_id, 0) + 1
        return _FileRun(self, session_id, file, call_key, run, logged)

    async def park(self, session_id: str, call: ParkedCall) -> None:
        """Keep a call that waits; see :meth:`Journal.park`."""
        with self._errors(session_id):
            file = self._opened(session_id)
            file.append(call.call_key, parked_entry(call).encode())
            await self.sync(session_id, file)
        self._release(session_id)

    async def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session."""
        with self._errors(session_id):
            file = self._open.get(session_id)
            if file is not None:
                file.clear()
            else:
                self._path(session_id).unlink(missing_ok=True)

    async def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    async def sync(self, session_id: str, file: EntryFile) -> None:
        """Wait for the disk in a thread, so that the loop goes on; a caller that is cancelled waits, too."""
        await see_out(asyncio.get_running_loop().run_in_executor(None, file.sync))

    def ended(self, session_id: str) -> None:
        """Close the file of a session whose last program has ended."""
        self._running[session_id] -= 1
        self._release(session_id)

    def _release(self, session_id: str) -> None:
        if not self._running.get(session_id):
            self._running.pop(session_id, None)
            file = self._open.pop(session_id, None)
            if file is not None:
                file.close()

    @contextmanager
    def _reading(self, session_id: str) -> Generator[EntryFile | None]:
        """Give out a session's file, without making one."""
        with self._errors(session_id):
            there = session_id in self._open or self._path(session_id).exists()
            try:
                yield self._opened(session_id) if there else None
            finally:
                self._release(session_id)

    def _opened(self, session_id: str) -> EntryFile:
        file = self._open.get(session_id)
        if file is None:
            file = self._open[session_id] = EntryFile(self._path(session_id))
        return file

    def _path(self, session_id: str) -> Path:
        return self._folder / hashlib.sha256(session_id.encode()).hexdigest()[:32]

    @contextmanager
    def _errors(self, session_id: str) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise SessionError(
                f'the journal of session "{session_id}" failed: {error.strerror or error}', "STORE_FAILED"
            ) from error


class _FileRun(OpenRun):
    """The journal of one program in a :class:`FileJournal`."""

    def __init__(
        self,
        journal: FileJournal,
        session_id: str,
        file: EntryFile,
        call_key: int,
        run: JournalRun,
        logged: Mapping[str, object | None],
    ) -> None:
        super().__init__(session_id, call_key, run, logged)
        self._journal = journal
        self._append = file.append
        self._file = file

    def write(self, step: JournalStep) -> asyncio.Future[None] | None:
        try:
            self._append(self.call_key, step_entry(step))
        except OSError as error:
            raise _failed(error) from error
        return None

    async def end(self, state: Literal["suspended", "done"]) -> None:
        try:
            self._append(self.call_key, state_entry(state).encode())
            if state == "suspended":
                await self._journal.sync(self.session_id, self._file)
        except OSError as error:
            raise _failed(error) from error

    def close(self) -> None:
        self._journal.ended(self.session_id)


def _failed(error: OSError) -> SessionError:
    return SessionError(f"the journal of a program failed: {error.strerror or error}", "STORE_FAILED")
