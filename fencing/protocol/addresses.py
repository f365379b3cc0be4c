"""Addresses that nothing is sent to unless the operator allows it: no call of a push tool (L9), and no message.

Asked twice: of an endpoint that names an address, when it is registered, and of each address that a name resolves to,
at the moment of the call. What is not a public unicast address is refused, however it is spelt.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK: Final = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))

# Forms that a resolver reads as an IPv4 address and `ipaddress` does not: 2852039166, 0x7f.1, 0177.0.0.1.
_NUMERIC: Final = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}\.?", re.IGNORECASE)
# Carrier-grade addresses and the translations of IPv4 inside IPv6, which lead to what they hold.
_CLOSED: Final = (
    ipaddress.ip_network("100.64.0.0/10"),
    ipaddress.ip_network("64:ff9b:1::/48"),
    ipaddress.ip_network("2001:db8::/32"),
)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_TEREDO: Final = ipaddress.ip_network("2001::/32")
_LOCAL_NAMES: Final = ("localhost", "localdomain")


def fault_of_address(text: str) -> str | None:
    """Say why an address that a call would go to is closed, None where it is a public one."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "It is no address."
    inner = _inside(address)
    if inner is not None:
        return fault_of_address(str(inner))
    closed = (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or any(address in network for network in _CLOSED if network.version == address.version)
    )
    return "It is a loopback, link-local, private or reserved address." if closed else None


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read networks (`10.1.0.0/16`, or a lone address).

    Raises:
        ValueError: one is none.
    """
    return tuple(ipaddress.ip_network(text) for text in texts)


def may_reach(text: str, allowed: Iterable[Network] = ()) -> bool:
    """Whether a message may go to an address: a public one, or one of the networks that the operator named."""
    text = text.partition("%")[0].strip("[]")
    if fault_of_address(text) is None:
        return True
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    inner = _inside(address) or address
    return any(inner in network for network in allowed)


def fault_of_host(host: str) -> str | None:
    """Say why an endpoint may not name this host, None where its addresses must be asked when it is called."""
    name = host.rstrip(".").lower()
    if name in _LOCAL_NAMES or name.endswith(tuple(f".{local}" for local in _LOCAL_NAMES)):
        return "It is a name of this machine."
    if ":" in name or re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", name):
        return fault_of_address(name)
    if _NUMERIC.fullmatch(name):
        return "It is an address in an unusual form: write it as four decimal numbers."
    return None


def _inside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Give the IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _TEREDO and address.teredo is not None:
        return address.teredo[1]
    return address.ipv4_mapped or address.sixtofour
