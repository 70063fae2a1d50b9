"""The built-in fetcher: every hop is checked, every amount is bounded."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import httpx

from ...kernel import AbortSignal
from .addresses import resolve
from .config import WebConfig
from .decoding import ENCODINGS, inflated
from .errors import BadUrlError, FetchFailedError, FetchTimeoutError, RedirectError
from .providers import FetchedPage

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HttpFetcher"]

_REDIRECTS = (301, 302, 303, 307, 308)
_ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5"


class HttpFetcher:
    """Fetches pages by HTTP, without cookies, credentials or proxies.

    A name is looked up once for each hop, the address is checked, and the connection goes to that very
    address: so a name that leads elsewhere a moment later changes nothing.

    Parameters:
        config: the limits.
    """

    def __init__(self, config: WebConfig) -> None:
        self._config = config
        self._allowed: Sequence[str] | None = None if config.allow_private else tuple(config.allowed_hosts)

    async def fetch(self, url: str, *, signal: AbortSignal) -> FetchedPage:
        """Return a page, following redirects.

        Raises:
            WebError: see the classes of it.
        """
        seconds = self._config.fetch_timeout_ms / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise FetchTimeoutError(f"{url} took longer than {seconds:g} s") from error
        except httpx.InvalidURL as error:
            raise BadUrlError(f"{url[:200]} is no address: {error}") from error
        except httpx.HTTPError as error:
            raise FetchFailedError(f"{url} cannot be fetched: {_reason(error)}") from error

    async def _follow(self, url: str) -> FetchedPage:
        target = _parse(url)
        timeout = httpx.Timeout(self._config.fetch_timeout_ms / 1000)
        # The environment's proxies would look names up for us, behind the check.
        async with httpx.AsyncClient(timeout=timeout, trust_env=False, follow_redirects=False) as client:
            for _ in range(self._config.fetch_max_redirects + 1):
                found = await self._hop(client, target)
                if isinstance(found, FetchedPage):
                    return found
                target = found
        raise RedirectError(f"{url} redirects more than {self._config.fetch_max_redirects} times, at last to {target}")

    async def _hop(self, client: httpx.AsyncClient, target: httpx.URL) -> FetchedPage | httpx.URL:
        port = target.port or (443 if target.scheme == "https" else 80)
        host = target.raw_host.decode("ascii")
        address = await resolve(host, port, self._allowed)
        headers = {
            "Host": target.netloc.decode("ascii"),
            "User-Agent": self._config.user_agent,
            "Accept": _ACCEPT,
            "Accept-Encoding": ENCODINGS,
        }
        direct = target.copy_with(host=address, fragment=None)
        async with client.stream("GET", direct, headers=headers, extensions={"sni_hostname": host}) as response:
            location = response.headers.get("location")
            if response.status_code in _REDIRECTS and location:
                return _parse(str(target.join(location)))
            body, truncated = await inflated(
                response.aiter_raw(), response.headers.get("content-encoding", ""), self._config.fetch_max_bytes
            )
            return FetchedPage(
                str(target), response.status_code, response.headers.get("content-type", ""), body, truncated
            )


def _parse(text: str) -> httpx.URL:
    url = httpx.URL(text.strip())
    if url.scheme not in ("http", "https") or not url.host:
        raise BadUrlError(f"{text[:200]} is no address of a page; it must begin with http:// or https://")
    if url.userinfo:
        raise BadUrlError("addresses with a user name or password in them are not fetched")
    return url


def _reason(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
