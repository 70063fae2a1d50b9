"""A process that kills itself at one point after the other: the other half of test_kill.py.

``python -m tests.e2e.journal.kill_child FOLDER LANGUAGE PHASE MODE KIND``

For each point of a kind that a run passes, in order, it forks a child that runs in a folder of its own and dies there,
kill -9, having written down where it was. The last child passes no further point, and ends by itself. The points of the
kind ``entry`` are the moments before and after each entry of the journal and each effect of a body, those of the kind
``batch`` the moments before and after each batch of the session's log, which is written beside the program.

The phase ``start`` runs the program until it waits; ``resume`` goes on from a copy of what waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tests.support.journal as support
from tests.support.journal import answer_all, application, go_on, start
from tests.support.journal_programs import model_for

from dsh_tools.session.entry_file import EntryFile
from dsh_tools.session.sqlite_file import SqliteFile

WAITING = "waiting"


class Points:
    """Counts the points that are passed, and dies at one of them."""

    def __init__(self, kind: str, last: int, folder: Path) -> None:
        self._kind = kind
        self._left = last
        self._file = folder / "point"
        self._armed = False

    def arm(self) -> None:
        self._armed = True

    def at(self, name: str) -> None:
        if not self._armed or ("batch" in name) != (self._kind == "batch"):
            return
        self._left -= 1
        if self._left == 0:
            self._file.write_text(name)
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, function: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        def watched(*args: Any) -> Any:
            label = name(*args)
            self.at("before " + label)
            outcome = function(*args)
            self.at("after " + label)
            return outcome

        return watched


def watch(points: Points) -> None:
    """Put points around whatever is kept, and around the effects of bodies."""
    EntryFile.append = points.around(EntryFile.append, _entry)
    SqliteFile.append = points.around(SqliteFile.append, _batch)
    support.note = points.around(support.note, lambda _path, line: f"effect {line}")


def _entry(_file: object, _number: int, text: bytes) -> str:
    kind, *values = json.loads(text)
    if kind != 2:
        return f"entry {kind} {values[-1] if kind and values else ''}"
    number, _, name, _, state, *_ = values
    return f"entry {name} {number} {state}"


def _batch(_file: object, _session: str, events: Sequence[Any]) -> str:
    return "batch " + " ".join(event.type for event in events)


async def begin(folder: Path, language: str, mode: str, points: Points) -> None:
    async with application(folder, language, mode=mode) as ctx:
        points.arm()
        await start(ctx, model_for(language, mode))


async def resume(folder: Path, language: str, mode: str, points: Points) -> None:
    async with application(folder, language, mode=mode) as ctx:
        await answer_all(ctx)
        points.arm()
        await (await go_on(ctx)).resume()


def main(folder: Path, language: str, phase: str, mode: str, kind: str) -> None:
    number = 0
    while True:
        number += 1
        place = folder / f"{number:03}"
        if phase == "resume":
            shutil.copytree(folder / WAITING, place)
        else:
            place.mkdir()
        child = os.fork()
        if child == 0:
            points = Points(kind, number, place)
            watch(points)
            work = begin if phase == "start" else resume
            try:
                asyncio.run(work(place, language, mode, points))
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
