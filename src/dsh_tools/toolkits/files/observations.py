"""Who has seen which version of which file (HOST-214)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ..file_errors import MissingFileError, NotObservedError, StaleVersionError
from .bytes_io import Version

if TYPE_CHECKING:
    from ...tools.execution import AgentLike
    from ..places import Place

__all__ = ["Observations"]

_MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a caller last saw of one file; ``version`` is None where nothing was there."""

    version: Version | None


class Observations:
    """Remembers what each caller saw, until the caller goes, and checks changes against it.

    Calls without an agent share one memory, and so do agents that cannot be referred to weakly. Safe to use from
    several threads.

    Parameters:
        required: whether a file must have been read before it is changed. Without it nothing is checked.
    """

    def __init__(self, required: bool) -> None:
        self._required = required
        self._lock = threading.Lock()
        self._of_agents: WeakKeyDictionary[AgentLike, OrderedDict[str, _Seen]] = WeakKeyDictionary()
        self._of_nobody: OrderedDict[str, _Seen] = OrderedDict()

    def note(self, agent: AgentLike | None, path: str, version: Version | None) -> None:
        """Remember that a caller saw this version, or that nothing was there."""
        with self._lock:
            seen = self._memory(agent)
            seen[path] = _Seen(version)
            seen.move_to_end(path)
            if len(seen) > _MAX_FILES:
                seen.popitem(last=False)

    def moved(self, agent: AgentLike | None, source: str, destination: str) -> None:
        """Remember that what a caller saw at one path is at another one now."""
        with self._lock:
            memory = self._memory(agent)
            seen = memory.pop(source, None)
            memory[source] = _Seen(None)
            if seen is None:
                memory.pop(destination, None)
            else:
                memory[destination] = seen

    def check_write(self, agent: AgentLike | None, place: Place, current: Version | None) -> None:
        """Let a caller write only over what it has seen; something unseen is never overwritten.

        Parameters:
            current: the version that is there now, None where nothing is.

        Raises:
            NotObservedError: the file exists and the caller has not read it.
            StaleVersionError: it has changed, come or gone since.
        """
        if not self._required:
            return
        seen = self._seen(agent, place)
        if seen is None:
            if current is not None:
                raise NotObservedError(
                    f"{place.shown} exists, and you have not read it; read it first, then write it if you still want to"
                )
        elif seen.version is None:
            if current is not None:
                raise StaleVersionError(
                    f"{place.shown} was not there when you looked, and is now; read it before you write it"
                )
        else:
            self._require_same(seen.version, current, place)

    def check_edit(self, agent: AgentLike | None, place: Place, current: Version) -> None:
        """Let a caller edit only what it has read as it is now.

        Raises:
            NotObservedError: the caller has not read the file.
            StaleVersionError: it has changed since.
        """
        if not self._required:
            return
        seen = self._seen(agent, place)
        if seen is None:
            raise NotObservedError(f"{place.shown} has not been read; read it first, then edit what you saw")
        if seen.version is None:
            raise StaleVersionError(f"{place.shown} was not there when you looked, and is now; read it, then edit")
        self._require_same(seen.version, current, place)

    def check_unchanged(self, agent: AgentLike | None, place: Place, current: Version) -> None:
        """Refuse to delete or move a file that a caller has read in another version; unread ones pass.

        Raises:
            StaleVersionError: it has changed since the caller read it.
        """
        seen = self._seen(agent, place) if self._required else None
        if seen is not None and seen.version is not None:
            self._require_same(seen.version, current, place)

    def has_seen(self, agent: AgentLike | None, place: Place) -> bool:
        """Whether a caller has read some version of the file, so that its version matters."""
        seen = self._seen(agent, place)
        return self._required and seen is not None and seen.version is not None

    def _require_same(self, seen: Version, current: Version | None, place: Place) -> None:
        if current is None:
            raise MissingFileError(f"{place.shown} has gone since you read it; look again before you go on")
        if seen != current:
            raise StaleVersionError(f"{place.shown} has changed since you read it; read it again, then make the change")

    def _seen(self, agent: AgentLike | None, place: Place) -> _Seen | None:
        with self._lock:
            return self._memory(agent).get(place.real)

    def _memory(self, agent: AgentLike | None) -> OrderedDict[str, _Seen]:
        if agent is None:
            return self._of_nobody
        try:
            return self._of_agents.setdefault(agent, OrderedDict())
        except TypeError:
            return self._of_nobody
