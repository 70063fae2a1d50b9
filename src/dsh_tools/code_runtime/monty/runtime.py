"""Python programs in Monty, a sandboxed interpreter in processes of its own (CODE-183 to 189, D4, D5)."""

from __future__ import annotations

import asyncio
import atexit
import time
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import ConfigError
from ..base import PooledRuntime
from ..budgets import RuntimeConfig
from ..pool import WorkerPool
from ..run import Run
from ..versions import version_text
from .worker import MontyWorker

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty

__all__ = ["PYTHON_SUBSET", "MontyRuntime"]

PYTHON_SUBSET = (
    "The interpreter knows a part of Python. Not there: class inheritance (so no exception classes of your own), "
    "@property, @staticmethod and @classmethod, generators and `yield`, `del`, `async with`, `async for`, "
    "`except*`, `import *`. Exceptions take one string at most. Of asyncio there are gather (without keyword "
    "arguments) and sleep. Modules that are there: asyncio, base64, bisect, collections, copy, dataclasses, datetime, "
    "decimal, functools, hashlib, itertools, json, math, os.path, pathlib, random, re, time. There is no file system "
    "and no network."
)
"""What a program may use of Python, for whoever writes one; part of the SDK text of Code Mode."""

_INSTALL = 'Python programs run in Monty, which is not installed: pip install "dsh-tools[code-python]"'
_SOURCES = [
    Path(__file__).with_name(f"{name}.py") for name in ("answers", "moment", "prelude", "scanner", "source", "worker")
]
_PROCESSES = 1_000_000
_LINGER_SECONDS = 0.05


class MontyRuntime(PooledRuntime[MontyWorker]):
    """Runs Python programs, each in an interpreter process of its own.

    The interpreter knows a part of Python, see :data:`PYTHON_SUBSET`. A program that uses more fails
    with an error that names what is missing. It has no files, no network, no environment and no
    subprocess.

    Parameters:
        config: budgets and pool sizes; the defaults where None.

    Raises:
        ConfigError: Monty is not installed.
    """

    language = "python"
    isolation = "interpreter"

    def __init__(self, config: RuntimeConfig | None = None) -> None:
        super().__init__(config)
        _check_installed()
        self._client: AsyncMonty | None = None
        self._opening = asyncio.Lock()
        # An interpreter learns at its start whose clock it reads. The first run that needs one fills this pool.
        self._repeatable: WorkerPool[MontyWorker] = self._make_pool(self._start_repeatable)

    @property
    def version(self) -> str:
        """Monty's version, the machine, and a digest of what programs are wrapped in; see :class:`CodeRuntime`."""
        return _version()

    async def _start_worker(self) -> MontyWorker:
        return await MontyWorker.start(await self._open(), self.config)

    async def _start_repeatable(self) -> MontyWorker:
        return await MontyWorker.start(await self._open(), self.config, repeatable=True)

    async def _open(self) -> AsyncMonty:
        async with self._opening:
            if self._client is None:
                self._client = await _open_client()
            return self._client

    def _pool_for(self, run: Run) -> WorkerPool[MontyWorker]:
        return self._pool if run.request.determinism is None else self._repeatable

    async def _release(self) -> None:
        await self._repeatable.dispose()
        client, self._client = self._client, None
        if client is not None:
            await client.__aexit__(None, None, None)


@cache
def _version() -> str:
    return version_text(f"monty {version('pydantic-monty-runtime')}", _SOURCES)


@cache
def _linger_at_exit() -> None:
    """Give the client's threads a moment before the interpreter ends.

    The one that has told us that the last process is gone may still be on its way out of that call. A thread that
    comes back into an interpreter which is being taken down is unwound, which native code does not survive.
    """
    atexit.register(time.sleep, _LINGER_SECONDS)


async def _open_client() -> AsyncMonty:
    from pydantic_monty import AsyncMonty

    _linger_at_exit()
    client = AsyncMonty(min_processes=0, max_processes=_PROCESSES, max_checkouts_per_worker=1)
    await client.__aenter__()
    return client


def _check_installed() -> None:
    try:
        # The extra is optional, so it is looked for only when a runtime is made.
        import pydantic_monty  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError:
        raise ConfigError(_INSTALL) from None
