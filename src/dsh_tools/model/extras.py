"""Providers' packages, which come with extras."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import ConfigError

__all__ = ["require_extra"]


def require_extra(package: str) -> None:
    """Check that a provider's package is there, without importing it; its extra has the same name.

    Raises:
        ConfigError: it is not; the text says what to install.
    """
    if find_spec(package) is None:
        raise ConfigError(f'models of "{package}" need their extra: pip install "dsh-tools[{package}]"')
