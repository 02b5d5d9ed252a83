"""CIDRs as integers.

A ``Network`` is an address with its host bits cleared, a prefix length, and the width of its family (32 or
128). IPv4 and IPv6 never overlap; ``::ffff:0:0/96`` is IPv6 like any other.

Texts are strict where they are read (no leading zeros, no zone) and canonical where they are written
(RFC 5952). ``ipaddress`` parses addresses but makes no networks: building one costs microseconds, and
its text of IPv4-mapped addresses differs between Python versions.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv6Address
from socket import AF_INET, inet_pton
from typing import Final, NamedTuple

from quarterdeck.errors import QuarterdeckError

IPV4: Final = 32
IPV6: Final = 128
_MAPPED: Final = 0xFFFF << 32


class InvalidCidr(QuarterdeckError, ValueError):
    """A text that is no CIDR; the message says why."""


class Network(NamedTuple):
    """A block of addresses; ``address`` has no bits beyond ``prefix``."""

    address: int
    prefix: int
    width: int

    @property
    def last(self) -> int:
        """Its last address."""
        return self.address | ((1 << (self.width - self.prefix)) - 1)

    @property
    def packed(self) -> int:
        """The whole of it in one number, which takes a fourth of the memory; ``unpacked`` is the way back."""
        return self.address << 16 | self.prefix << 8 | self.width

    def contains(self, other: Network) -> bool:
        """Whether ``other`` lies entirely inside."""
        return (
            self.width == other.width
            and self.prefix <= other.prefix
            and (other.address ^ self.address) >> (self.width - self.prefix) == 0
        )

    def overlaps(self, other: Network) -> bool:
        """Whether they share an address: then one contains the other."""
        return self.contains(other) or other.contains(self)

    def at(self, prefix: int) -> Network:
        """The block of a shorter prefix around it."""
        shift = self.width - prefix
        return Network(self.address >> shift << shift, prefix, self.width)

    def __str__(self) -> str:
        return f"{address_text(self.address, self.width)}/{self.prefix}"


def unpacked(packed: int) -> Network:
    """The network of a number.

    >>> str(unpacked(parse("10.0.1.0/24").packed))
    '10.0.1.0/24'
    """
    return Network(packed >> 16, packed >> 8 & 255, packed & 255)


def parse(text: str) -> Network:
    """Read a CIDR, host bits cleared; raises ``InvalidCidr``.

    >>> str(parse("10.0.1.5/24"))
    '10.0.1.0/24'
    """
    host, slash, length = text.partition("/")
    if not slash:
        raise InvalidCidr(f'invalid CIDR address "{text}": no prefix length')
    if "%" in host:
        raise InvalidCidr(f'invalid CIDR address "{text}": IPv6 zones are not allowed in a prefix')
    width = IPV6 if ":" in host else IPV4
    try:
        address = int(IPv6Address(host)) if width == IPV6 else _ipv4(host)
    except AddressValueError as error:
        raise InvalidCidr(f'invalid CIDR address "{text}": {error}') from error
    plain = length.isascii() and length.isdigit() and (length == "0" or length[0] != "0")
    if not plain or len(length) > 3 or int(length) > width:
        raise InvalidCidr(f'invalid CIDR address "{text}": bad prefix length "{length}"')
    prefix = int(length)
    shift = width - prefix
    return Network(address >> shift << shift, prefix, width)


def _ipv4(host: str) -> int:
    try:
        return int.from_bytes(inet_pton(AF_INET, host), "big")
    except OSError:
        return int(IPv4Address(host))  # ten times as slow, and says what is wrong


def address_text(address: int, width: int) -> str:
    """An address as RFC 5952 writes it; IPv4-mapped ones in mixed notation.

    >>> address_text(0x2001_0db8 << 96, 128), address_text(0xffff0a000000, 128)
    ('2001:db8::', '::ffff:10.0.0.0')
    """
    if width == IPV4:
        return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"
    if address & ~0xFFFFFFFF == _MAPPED:
        return f"::ffff:{address_text(address & 0xFFFFFFFF, IPV4)}"
    groups = [address >> shift & 0xFFFF for shift in range(112, -1, -16)]
    start, length = _longest_zeros(groups)
    if length < 2:
        return ":".join(f"{group:x}" for group in groups)
    before = ":".join(f"{group:x}" for group in groups[:start])
    after = ":".join(f"{group:x}" for group in groups[start + length :])
    return f"{before}::{after}"


def _longest_zeros(groups: list[int]) -> tuple[int, int]:
    """The first of the longest runs of zeros: where it begins, and how long it is."""
    best, length, start = 0, 0, 0
    for place, group in enumerate([*groups, 1]):
        if group:
            if place - start > length:
                best, length = start, place - start
            start = place + 1
    return best, length


def canonical(text: str) -> str:
    """The canonical text of a CIDR; raises ``InvalidCidr``."""
    return str(parse(text))


def last_address(text: str) -> str:
    """The last address of a CIDR; raises ``InvalidCidr``."""
    network = parse(text)
    return address_text(network.last, network.width)


def overlaps(one: str, other: str) -> bool:
    """Whether two CIDRs share an address; no if either is invalid or the families differ."""
    try:
        return parse(one).overlaps(parse(other))
    except InvalidCidr:
        return False
