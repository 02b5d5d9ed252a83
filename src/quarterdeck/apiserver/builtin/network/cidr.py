"""Networks in CIDR notation."""

from __future__ import annotations

import ipaddress
from typing import Final

from quarterdeck.wire.fielderror import FieldError, invalid

NOT_A_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse_cidr(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def validate_cidr(text: str, field: str) -> list[FieldError]:
    network = parse_cidr(text)
    if network is None:
        return [invalid(field, text, NOT_A_CIDR)]
    if isinstance(network, ipaddress.IPv6Network) and network.network_address.ipv4_mapped is not None:
        return [invalid(field, text, "must not have an IPv4-mapped IPv6 address")]
    if network.network_address != ipaddress.ip_interface(text).ip:
        return [invalid(field, text, "must not have bits set beyond the prefix length")]
    return []
