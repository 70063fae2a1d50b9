"""Which addresses may be connected to, decided on the address itself and not on its name."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from typing import TypeAlias

from .errors import AddressRefusedError, FetchFailedError

__all__ = ["is_public", "resolve"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet; forms that carry another address are judged by that."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = _carried(address)
        if inner is not None:
            return is_public(inner)
        if address in _NAT64_LOCAL or address.is_site_local:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def _carried(address: ipaddress.IPv6Address) -> Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    value = int(address)
    # The deprecated "::1.2.3.4" reads as an IPv4 address, too; :: and ::1 don't.
    if address in _NAT64 or (value >> 32 == 0 and value > 1):
        return ipaddress.IPv4Address(value & 0xFFFFFFFF)
    return None


async def resolve(host: str, port: int, allowed: Sequence[str] | None) -> str:
    """Look a name up and return the address to connect to.

    Parameters:
        host: a name or an address, in any spelling that the system reads.
        port: where to.
        allowed: hosts that may be private all the same; None allows all.

    Raises:
        FetchFailedError: the name is not known.
        AddressRefusedError: one of its addresses is not public; then none of them is used.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchFailedError(f'the name "{host}" cannot be found; check the address') from error
    addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
    if allowed is None or host in allowed or f"{host}:{port}" in allowed:
        return addresses[0]
    for text in addresses:
        if not is_public(ipaddress.ip_address(text)):
            raise AddressRefusedError(
                f'"{host}" is not on the public internet ({text}), and only public pages may be fetched here'
            )
    return addresses[0]
