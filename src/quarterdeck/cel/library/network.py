"""IP addresses and CIDRs."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import ClassVar, Final, TypeAlias

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import BOOL, INT, STRING, opaque_type
from quarterdeck.cel.value.operators import no_such_overload
from quarterdeck.cel.value.value import Opaque
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gostyle import quote

IP: Final = opaque_type("net.IP")
CIDR: Final = opaque_type("net.CIDR")
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_HEX: Final = frozenset("0123456789abcdefABCDEF")


class AddressError(QuarterdeckError, ValueError):
    """Text that is no address, in the words of Go's netip."""


class IPValue(Opaque):
    """An address."""

    __slots__ = ("address",)
    type_name: ClassVar[str] = "net.IP"

    def __init__(self, address: Address) -> None:
        self.address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IPValue) and self.address == other.address

    def __hash__(self) -> int:
        return hash(self.address)

    def __str__(self) -> str:
        return str(self.address)

    def cost_size(self) -> int:
        return self.address.max_prefixlen // 8


class CIDRValue(Opaque):
    """An address with a prefix length; host bits are kept."""

    __slots__ = ("address", "bits")
    type_name: ClassVar[str] = "net.CIDR"

    def __init__(self, address: Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CIDRValue) and (self.address, self.bits) == (other.address, other.bits)

    def __hash__(self) -> int:
        return hash((self.address, self.bits))

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def cost_size(self) -> int:
        return -(-self.bits // 8)

    def prefix(self, bits: int) -> int:
        """Leading bits as a number."""
        return int(self.address) >> (self.address.max_prefixlen - bits)


def parse_address(text: str) -> tuple[Address, str]:
    """Address and zone as netip.ParseAddr reads them; AddressError in its words."""
    for c in text:
        if c == ".":
            return ipaddress.IPv4Address(bytes(_ipv4_fields(text, text))), ""
        if c == ":":
            return _ipv6(text)
        if c == "%":
            raise _problem(text, "missing IPv6 address")
    raise _problem(text, "unable to parse IP")


def _problem(text: str, message: str, at: str = "") -> AddressError:
    where = f" (at {quote(at)})" if at else ""
    return AddressError(f"ParseAddr({quote(text)}): {message}{where}")


def _ipv4_fields(whole: str, part: str) -> list[int]:
    fields: list[int] = []
    value = digits = 0
    for i, c in enumerate(part):
        if "0" <= c <= "9":
            if digits == 1 and value == 0:
                raise _problem(whole, "IPv4 field has octet with leading zero")
            value = value * 10 + int(c)
            digits += 1
            if value > 255:
                raise _problem(whole, "IPv4 field has value >255")
        elif c == ".":
            if i in (0, len(part) - 1) or part[i - 1] == ".":
                raise _problem(whole, "IPv4 field must have at least one digit", part[i:])
            if len(fields) == 3:
                raise _problem(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _problem(whole, "unexpected character", part[i:])
    if len(fields) < 3:
        raise _problem(whole, "IPv4 address too short")
    return [*fields, value]


def _ipv6(text: str) -> tuple[Address, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _problem(text, "zone must be a non-empty string")
    octets: list[int] = []
    gap = -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
        if not rest:
            return ipaddress.IPv6Address(0), zone
    while len(octets) < 16:
        digits = 0
        while digits < len(rest) and rest[digits] in _HEX:
            digits += 1
            if digits > 4:
                raise _problem(text, "each group must have 4 or less digits", rest)
        if digits == 0:
            raise _problem(text, "each colon-separated field must have at least one digit", rest)
        if rest[digits : digits + 1] == ".":
            octets += _embedded_ipv4(text, rest, gap, len(octets))
            rest = ""
            break
        octets += divmod(int(rest[:digits], 16), 256)
        rest = rest[digits:]
        if not rest:
            break
        if rest[0] != ":":
            raise _problem(text, "unexpected character, want colon", rest)
        if len(rest) == 1:
            raise _problem(text, "colon must be followed by more characters", rest)
        rest = rest[1:]
        if rest[0] == ":":
            if gap >= 0:
                raise _problem(text, "multiple :: in address", rest)
            gap, rest = len(octets), rest[1:]
            if not rest:
                break
    if rest:
        raise _problem(text, "trailing garbage after address", rest)
    if len(octets) < 16:
        if gap < 0:
            raise _problem(text, "address string too short")
        octets[gap:gap] = [0] * (16 - len(octets))
    elif gap >= 0:
        raise _problem(text, "the :: must expand to at least one field of zeros")
    return ipaddress.IPv6Address(bytes(octets)), zone


def _embedded_ipv4(text: str, rest: str, gap: int, used: int) -> list[int]:
    if gap < 0 and used != 12:
        raise _problem(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if used + 4 > 16:
        raise _problem(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return _ipv4_fields(text, rest)


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def parse_ip(text: str) -> IPValue:
    """`ip(text)`: no zone, no IPv4-mapped IPv6."""
    try:
        address, zone = parse_address(text)
    except AddressError as problem:
        raise EvalError(
            f"IP Address {quote(text)} parse error during conversion from string: {problem}"
        ) from problem
    if zone:
        raise EvalError(f"IP address {quote(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvalError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return IPValue(address)


def _prefix(text: str) -> CIDRValue:
    def bad(message: str) -> EvalError:
        return EvalError(
            "network address parse error during conversion from string: "
            f"netip.ParsePrefix({quote(text)}): {message}"
        )

    head, slash, bits = text.rpartition("/")
    if not slash:
        raise bad("no '/'")
    try:
        address, zone = parse_address(head)
    except AddressError as problem:
        raise bad(str(problem)) from problem
    if zone:
        raise bad("IPv6 zones cannot be present in a prefix")
    if not (bits.isascii() and bits.isdigit()) or (len(bits) > 1 and bits[0] == "0"):
        raise bad(f"bad bits after slash: {quote(bits)}")
    if len(bits) > 4 or int(bits) > address.max_prefixlen:
        raise bad("prefix length out of range")
    if _is_mapped(address):
        raise EvalError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return CIDRValue(address, int(bits))


def parse_cidr(text: str) -> CIDRValue:
    """`cidr(text)`."""
    try:
        return _prefix(text)
    except EvalError as problem:
        raise EvalError(
            f"network address parse error during conversion from string: {problem.message}"
        ) from problem


def _is_ip(text: str) -> bool:
    try:
        parse_ip(text)
    except EvalError:
        return False
    return True


def _is_cidr(text: str) -> bool:
    try:
        _prefix(text)
    except EvalError:
        return False
    return True


def _is_link_local_multicast(ip: IPValue) -> bool:
    packed = ip.address.packed
    if len(packed) == 4:
        return packed[:3] == b"\xe0\x00\x00"
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02


def _is_global_unicast(ip: IPValue) -> bool:
    address = ip.address
    if len(address.packed) == 4 and (int(address) in (0, 0xFFFFFFFF)):
        return False
    return int(address) != 0 and not (address.is_loopback or address.is_multicast or _is_link_local(ip))


def _is_link_local(ip: IPValue) -> bool:
    packed = ip.address.packed
    if len(packed) == 4:
        return packed[:2] == b"\xa9\xfe"
    return packed[0] == 0xFE and packed[1] & 0xC0 == 0x80


def _contains_ip(cidr: CIDRValue, ip: IPValue) -> bool:
    return cidr.address.version == ip.address.version and cidr.prefix(cidr.bits) == CIDRValue(
        ip.address, 0
    ).prefix(cidr.bits)


def _contains_cidr(cidr: CIDRValue, other: CIDRValue) -> bool:
    if cidr.address.version != other.address.version or cidr.bits > other.bits:
        return False
    return cidr.prefix(cidr.bits) == other.prefix(cidr.bits)


def _masked(cidr: CIDRValue) -> CIDRValue:
    shift = cidr.address.max_prefixlen - cidr.bits
    return CIDRValue(type(cidr.address)(cidr.prefix(cidr.bits) << shift), cidr.bits)


def _parse_member(text: str) -> IPValue:
    """Upstream does not pass on why the text of a `containsIP` call is no address."""
    try:
        return parse_ip(text)
    except EvalError:
        no_such_overload()


def functions() -> Iterable[Function]:
    """All functions of the library."""
    yield Function(
        "ip",
        [
            Overload("string_to_ip", [STRING], IP, parse_ip),
            Overload("cidr_ip", [CIDR], IP, lambda c: IPValue(c.address), is_member=True),
        ],
    )
    yield Function("isIP", [Overload("is_ip", [STRING], BOOL, _is_ip)])
    yield Function(
        "ip.isCanonical", [Overload("ip_is_canonical", [STRING], BOOL, lambda s: str(parse_ip(s)) == s)]
    )
    yield Function("family", [Overload("ip_family", [IP], INT, lambda i: i.address.version, is_member=True)])
    for name, id, test in (
        ("isUnspecified", "ip_is_unspecified", lambda i: i.address.is_unspecified),
        ("isLoopback", "ip_is_loopback", lambda i: i.address.is_loopback),
        ("isLinkLocalMulticast", "ip_is_link_local_multicast", _is_link_local_multicast),
        ("isLinkLocalUnicast", "ip_is_link_local_unicast", _is_link_local),
        ("isGlobalUnicast", "ip_is_global_unicast", _is_global_unicast),
    ):
        yield Function(name, [Overload(id, [IP], BOOL, test, is_member=True)])
    yield Function(
        "string",
        [
            Overload("ip_to_string", [IP], STRING, str),
            Overload("cidr_to_string", [CIDR], STRING, str),
        ],
    )
    yield Function("cidr", [Overload("string_to_cidr", [STRING], CIDR, parse_cidr)])
    yield Function("isCIDR", [Overload("is_cidr", [STRING], BOOL, _is_cidr)])
    yield Function(
        "containsIP",
        [
            Overload(
                "cidr_contains_ip_string",
                [CIDR, STRING],
                BOOL,
                lambda c, s: _contains_ip(c, _parse_member(s)),
                is_member=True,
            ),
            Overload("cidr_contains_ip_ip", [CIDR, IP], BOOL, _contains_ip, is_member=True),
        ],
    )
    yield Function(
        "containsCIDR",
        [
            Overload(
                "cidr_contains_cidr_string",
                [CIDR, STRING],
                BOOL,
                lambda c, s: _contains_cidr(c, parse_cidr(s)),
                is_member=True,
            ),
            Overload("cidr_contains_cidr", [CIDR, CIDR], BOOL, _contains_cidr, is_member=True),
        ],
    )
    yield Function(
        "prefixLength", [Overload("cidr_prefix_length", [CIDR], INT, lambda c: c.bits, is_member=True)]
    )
    yield Function("masked", [Overload("cidr_masked", [CIDR], CIDR, _masked, is_member=True)])
