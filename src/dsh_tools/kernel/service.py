"""Services: values that one plugin provides under a name and others look up (HOST-36 to 43)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from ..errors import ServiceConflictError
from .activity import is_inside
from .state import Changes

if TYPE_CHECKING:
    from .effect import Disposer
    from .plugin import Fiber

__all__ = ["ServiceKey", "ServiceRecord", "ServiceRegistry", "Slot"]

_T = TypeVar("_T")

Slot: TypeAlias = tuple[str, object]
"""A service's name and its isolation realm; the realm is None where nothing was isolated."""


class ServiceKey(Generic[_T]):
    """A service's name together with its type, so that a look-up is typed.

    Two keys of one name are the same service, and so is the bare name.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ServiceKey({self.name!r})"


class ServiceRecord:
    """One provided service: its value, who provides it, and the fibers that were loaded with it."""

    __slots__ = ("_released", "disposer", "provider", "retired", "slot", "users", "value")

    disposer: Disposer
    """What takes the service back."""

    def __init__(self, slot: Slot, value: object, provider: Fiber) -> None:
        self.slot = slot
        self.value = value
        self.provider = provider
        self.retired = False
        self.users: dict[Fiber, None] = {}
        self._released = Changes()

    @property
    def available(self) -> bool:
        """Whether dependents may start with it: its provider is active and keeps it (HOST-37)."""
        return self.provider.is_active and not self.retired

    def release(self, user: Fiber) -> None:
        """Note that a dependent has unloaded."""
        self.users.pop(user, None)
        self._released.announce()

    @property
    def in_use(self) -> bool:
        """Whether dependents have still to unload before the service can go.

        Those that wait for the provider themselves don't count: its own ancestors, and fibers
        whose unload brought this about.
        """
        lineage = self.provider.lineage
        return any(user not in lineage and not is_inside(user) for user in self.users)

    async def released(self) -> None:
        """Wait until no dependent uses the service any more, also if cancelled meanwhile (HOST-39)."""
        while self.in_use:
            await self._released.next_surely()


class ServiceRegistry:
    """All services of one root context, and the fibers that want to hear about them."""

    __slots__ = ("_interested", "_records")

    def __init__(self) -> None:
        self._records: dict[Slot, ServiceRecord] = {}
        self._interested: dict[Slot, dict[Fiber, None]] = {}

    @property
    def service_count(self) -> int:
        """How many services are provided; for leak checks."""
        return len(self._records)

    def provide(self, slot: Slot, value: object, provider: Fiber) -> ServiceRecord:
        """Take a service in.

        Raises:
            ServiceConflictError: it is provided already; the message names the holder (HOST-36).
        """
        holder = self._records.get(slot)
        if holder is not None:
            raise ServiceConflictError(
                f'service "{slot[0]}" is already provided by {holder.provider.label}; '
                f"{provider.label} cannot provide it too"
            )
        record = self._records[slot] = ServiceRecord(slot, value, provider)
        self._notify([slot])
        return record

    def owned(self, slot: Slot, provider: Fiber) -> ServiceRecord | None:
        """Return the record that ``provider`` holds in this slot, if it does."""
        record = self._records.get(slot)
        return record if record is not None and record.provider is provider and not record.retired else None

    def find(self, slot: Slot, asker: Fiber) -> ServiceRecord | None:
        """Look a service up for ``asker``.

        Beside the available ones that is what the asker or an ancestor provides itself (HOST-37),
        and, until their unload is over, what they were loaded with (HOST-39).
        """
        record = self._records.get(slot)
        if record is not None and (record.available or record.provider in asker.lineage):
            return record
        for fiber in asker.lineage:
            bound = fiber.bindings.get(slot)
            if bound is not None:
                return bound
        return None

    def bindings(self, slots: Iterable[Slot]) -> dict[Slot, ServiceRecord] | None:
        """Return the records of all these slots, or None while one is not available (HOST-38)."""
        found: dict[Slot, ServiceRecord] = {}
        for slot in slots:
            record = self._records.get(slot)
            if record is None or not record.available:
                return None
            found[slot] = record
        return found

    def retire(self, record: ServiceRecord) -> Coroutine[Any, Any, None] | None:
        """Take a service back: dependents unload first, and reach it while they do (HOST-39).

        Returns:
            What waits for them, or None if there are none and the service is gone.
        """
        record.retired = True
        self._notify([record.slot])
        if record.in_use:
            return self._retire_later(record)
        self._records.pop(record.slot, None)
        return None

    async def _retire_later(self, record: ServiceRecord) -> None:
        await record.released()
        self._records.pop(record.slot, None)

    def watch(self, fiber: Fiber, slots: Iterable[Slot]) -> None:
        """Wake ``fiber`` whenever one of these services may have come or gone."""
        for slot in slots:
            self._interested.setdefault(slot, {})[fiber] = None

    def unwatch(self, fiber: Fiber, slots: Iterable[Slot]) -> None:
        """Undo :meth:`watch`."""
        for slot in slots:
            fibers = self._interested.get(slot)
            if fibers is not None:
                fibers.pop(fiber, None)
                if not fibers:
                    del self._interested[slot]

    def provider_changed(self, provider: Fiber) -> list[ServiceRecord]:
        """Tell dependents that a provider became active or stopped being so; return its services."""
        records = [record for record in self._records.values() if record.provider is provider]
        self._notify([record.slot for record in records])
        return records

    def _notify(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            for fiber in list(self._interested.get(slot, ())):
                fiber.wake()
