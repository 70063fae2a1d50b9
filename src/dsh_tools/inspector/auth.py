"""Who may use the page: a token turned into a cookie, and checks against pages of other sites.

The address that is printed ends in ``#token=…``. Browsers keep what stands behind the ``#`` to themselves; the page
sends it once, gets a cookie for it, and drops it from its address. From then on every request needs the cookie, and
every change needs a second secret, which only a page of this site can read.

The ``Host`` header must be a name that leads here, so that a foreign name pointed at the loopback (DNS rebinding)
gets nothing; and a browser that says a request comes from elsewhere is believed. Pages on other ports of this machine
count as elsewhere.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

__all__ = ["SECURITY_HEADERS", "Doorkeeper", "Keys"]

SECURITY_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}

_SAFE_METHODS = ("GET", "HEAD")


class Keys:
    """The secrets of one inspector; new in every process, kept when its server restarts."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.cookie = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)

    def fits_token(self, given: object) -> bool:
        """Whether this is the token of the printed address."""
        return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def cookie_name(self, port: int) -> str:
        """Return the cookie's name; browsers share cookies between ports, so it tells them apart."""
        return f"dsh_inspect_{port}"

    def set_cookie(self, port: int) -> str:
        """Return the value of the header that sets the cookie."""
        return f"{self.cookie_name(port)}={self.cookie}; Path=/; HttpOnly; SameSite=Strict"

    def fits_cookie(self, header: str, port: int) -> bool:
        """Whether a ``Cookie`` header holds our cookie."""
        try:
            morsel = SimpleCookie(header).get(self.cookie_name(port))
        except CookieError:
            return False
        return morsel is not None and hmac.compare_digest(morsel.value.encode(), self.cookie.encode())


class Doorkeeper:
    """Checks every request before the routes see it, and adds the security headers to every answer.

    Parameters:
        app: the routes.
        keys: the secrets.
        hosts: accepted values of the ``Host`` header, port included.
        port: where we listen.
    """

    def __init__(self, app: Callable[..., Awaitable[None]], keys: Keys, hosts: frozenset[str], port: int) -> None:
        self._app = app
        self._keys = keys
        self._hosts = hosts
        self._port = port

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request through, or answer it with a refusal."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                added = [
                    (name.encode(), value.encode())
                    for name, value in SECURITY_HEADERS.items()
                    if name.encode() not in given
                ]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope["method"], scope["path"], headers)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
            return
        status, text = refusal
        answer = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(text)).encode())]
        await send_with_headers({"type": "http.response.start", "status": status, "headers": answer})
        await send_with_headers({"type": "http.response.body", "body": text.encode()})

    def _refusal(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if host not in self._hosts:
            return 421, "this host name does not lead here"
        if not path.startswith("/api/"):
            return None if method in _SAFE_METHODS else (405, "only GET")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "requests of other pages are refused"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return 403, "requests of other pages are refused"
        changes = method not in _SAFE_METHODS
        if changes and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "send JSON"
        if path == "/api/login":
            return None
        if not self._keys.fits_cookie(headers.get("cookie", ""), self._port):
            return 401, "open the address that was printed at the start"
        given = headers.get("x-csrf-token", "")
        if changes and not hmac.compare_digest(given.encode("latin-1"), self._keys.csrf.encode()):
            return 403, "the second secret is missing or wrong"
        return None
