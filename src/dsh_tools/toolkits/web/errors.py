"""What goes wrong on the web. The **model** reads each message, and what to do next."""

from __future__ import annotations

from ...errors import HarnessError

__all__ = [
    "AddressRefusedError",
    "BadUrlError",
    "FetchFailedError",
    "FetchTimeoutError",
    "NotTextPageError",
    "ProviderFailedError",
    "ProviderMissingError",
    "RedirectError",
    "WebError",
]


class WebError(HarnessError):
    """Something on the web failed; seen by the **model**."""

    default_code = "WEB_ERROR"


class BadUrlError(WebError):
    """The text is no address of a page; caused by the **model**, or by a page that redirects to it."""

    default_code = "WEB_BAD_URL"


class AddressRefusedError(WebError):
    """The address belongs to a private network or to this machine, and those are off limits."""

    default_code = "WEB_ADDRESS_REFUSED"


class RedirectError(WebError):
    """The page redirects too often, or in a circle."""

    default_code = "WEB_TOO_MANY_REDIRECTS"


class NotTextPageError(WebError):
    """The page is an image, an archive, or other bytes that are not text."""

    default_code = "WEB_NOT_TEXT"


class FetchFailedError(WebError):
    """The name is not known, nobody answers, or the answer breaks off."""

    default_code = "WEB_FETCH_FAILED"


class FetchTimeoutError(WebError):
    """The page took too long."""

    default_code = "WEB_TIMEOUT"


class ProviderMissingError(WebError):
    """Nobody provides searching or fetching here; the **operator** has to (HOST-228)."""

    default_code = "WEB_PROVIDER_MISSING"


class ProviderFailedError(WebError):
    """The search provider failed or answered with nonsense."""

    default_code = "WEB_PROVIDER_FAILED"
