"""What the adapters over providers' packages share: the client and its settings, the stream, how records are read."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ..kernel.abort import AbortSignal
from .base import Finish, ModelEvent, ModelFailed, ModelFailure, ModelRequest
from .exported import ToolExporter
from .extras import require_extra
from .pump import Emit, pumped

__all__ = ["ProviderModel", "read_text"]


class Client(Protocol):
    """A provider's client, as far as it does not matter whose it is."""

    async def close(self) -> None:
        """Close the connections."""
        ...


_C = TypeVar("_C", bound=Client)


class ProviderModel(ABC, Generic[_C]):
    """An adapter over a provider's package, which is called like the extra that brings it.

    Parameters:
        package: the package.
        model: the model's name.
        exporter: puts tools in the provider's form.
        base_url: the server's address; None is the SDK's own default.
        api_key: the key; None takes the provider's environment variable, and with a ``base_url`` may be absent.
        headers: further headers of each request.
        timeout: how many seconds to wait for a connection, and for each next piece of an answer.
        extra: further fields of each request.

    Raises:
        ConfigError: the extra is not installed.
    """

    def __init__(
        self,
        package: str,
        model: str,
        exporter: ToolExporter,
        *,
        base_url: str | None,
        api_key: str | None,
        headers: Mapping[str, str] | None,
        timeout: float,
        extra: Mapping[str, Any] | None,
    ) -> None:
        require_extra(package)
        self.model = model
        self._package = package
        self._exporter = exporter
        self._base_url = base_url
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._extra = dict(extra or {})
        self._client: _C | None = None

    @property
    def name(self) -> str:
        """The provider's and the model's name, with a colon between them."""
        return f"{self._package}:{self.model}"

    def stream(self, request: ModelRequest, signal: AbortSignal) -> AsyncGenerator[ModelEvent, None]:
        """Ask the model; see :meth:`ModelAdapter.stream`."""
        return pumped(partial(self._ask, request), signal, self._describe)

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @abstractmethod
    async def _ask(self, request: ModelRequest, emit: Emit) -> Finish | ModelFailed:
        """Ask once, and say how the answer ended."""

    @abstractmethod
    def _describe(self, error: Exception) -> ModelFailure:
        """Put what the SDK raised in our words."""

    @abstractmethod
    def _connect(self, settings: dict[str, Any]) -> _C:
        """Make the provider's client."""

    def _connected(self) -> _C:
        if self._client is None:
            key = self._api_key or os.environ.get(f"{self._package.upper()}_API_KEY")
            self._client = self._connect(
                {
                    # A local server mostly wants no key, but the SDK does.
                    "api_key": key or ("none" if self._base_url else None),
                    "base_url": self._base_url,
                    "default_headers": self._headers,
                    "timeout": self._timeout,
                    "max_retries": 0,
                }
            )
        return self._client


def read_text(record: Any, field: str) -> str:
    """Read a text of a record that a server sent; ``""`` where it is not there, or is something else."""
    value = getattr(record, field, None)
    return value if isinstance(value, str) else ""
