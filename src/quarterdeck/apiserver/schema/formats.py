"""String formats of schemas: what `format: date-time` and its relatives accept.

Each checker accepts what upstream's Go function accepts, quirks included: the empty string is no
base64, `PT1H` is a duration because "1H" is found in it, 010.0.0.1 is an IPv4 address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Final

from quarterdeck.apiserver import gourl
from quarterdeck.cel.value import gotime

from . import mailaddress
from .regex import compile_regex

_HOSTNAME: Final = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_COLOR: Final = r"[\t\n\f\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*"


def _matcher(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    match = re.compile(pattern, re.ASCII | flags).fullmatch
    return lambda value: match(value) is not None


def _uuid(third: str = "[0-9a-f]{4}", fourth: str = "[0-9a-f]{4}") -> Callable[[str], bool]:
    return _matcher(f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}", re.IGNORECASE)


def is_date(value: str) -> bool:
    return gotime.parse_date(value) is not None


def is_duration(value: str) -> bool:
    """Go's `1h30m`, or anything with a number and a unit in words such as `3 days`."""
    return gotime.parse_wordy_duration(value) is not None


def _sloppy_ipv4(value: str) -> str | None:
    """A dotted quad without its leading zeros, or None if it is none."""
    octets = value.split(".")
    if len(octets) != 4 or not all(octet.isascii() and octet.isdigit() for octet in octets):
        return None
    stripped = [octet.lstrip("0") or "0" for octet in octets]
    return ".".join(stripped) if all(len(o) <= 3 and int(o) <= 255 for o in stripped) else None


def _is_sloppy_ipv6(value: str) -> bool:
    head, colon, tail = value.rpartition(":")
    if colon and "." in tail:
        plain = _sloppy_ipv4(tail)
        if plain is None:
            return False
        value = f"{head}:{plain}"
    return is_ipv6(value)


def is_ipv4(value: str) -> bool:
    """Any address with a dot in it, so an IPv6 address that ends in a dotted quad counts too."""
    if "." not in value:
        return False
    colon = value.find(":")
    if 0 <= colon < value.find("."):
        return _is_sloppy_ipv6(value)
    return _sloppy_ipv4(value) is not None


def is_ipv6(value: str) -> bool:
    if "%" in value or ":" not in value:
        return False
    try:
        ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return True


def is_cidr(value: str) -> bool:
    address, slash, prefix = value.partition("/")
    if not slash or not prefix.isascii() or not prefix.isdigit() or len(prefix.lstrip("0")) > 3:
        return False
    if _sloppy_ipv4(address) is not None:
        return int(prefix) <= 32
    return _is_sloppy_ipv6(address) and int(prefix) <= 128


_mac_forms = [
    _matcher(f"[0-9a-fA-F]{{2}}(?:{separator}[0-9a-fA-F]{{2}}){{{count - 1}}}")
    for separator in (":", "-", "")
    for count in (6, 8, 20)
] + [_matcher(rf"[0-9a-fA-F]{{4}}(?:\.[0-9a-fA-F]{{4}}){{{count - 1}}}") for count in (3, 4, 10)]


def is_mac(value: str) -> bool:
    return any(form(value) for form in _mac_forms)


def is_hostname(value: str) -> bool:
    if not compile_regex(_HOSTNAME)(value):
        return False
    encoded = value.encode("utf-8", "replace")
    return len(encoded) <= 255 and all(len(label) <= 63 for label in encoded.split(b"."))


_separators = re.compile(r"[\t\n\f\r -]+")
_isbn10 = _matcher("[0-9]{9}X|[0-9]{10}")
_isbn13 = _matcher("[0-9]{13}")


def is_isbn10(value: str) -> bool:
    digits = _separators.sub("", value)
    if not _isbn10(digits):
        return False
    total = sum((index + 1) * int(digits[index]) for index in range(9))
    return (total + 10 * (10 if digits[9] == "X" else int(digits[9]))) % 11 == 0


def is_isbn13(value: str) -> bool:
    digits = _separators.sub("", value)
    if not _isbn13(digits):
        return False
    total = sum((1, 3)[index % 2] * int(digits[index]) for index in range(12))
    return int(digits[12]) == (10 - total % 10) % 10


_card = _matcher(
    "4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_no_digits = re.compile("[^0-9]+")


def is_credit_card(value: str) -> bool:
    digits = _no_digits.sub("", value)
    if not _card(digits):
        return False
    total = 0
    for index, digit in enumerate(reversed(digits)):
        amount = int(digit) * (2 if index % 2 else 1)
        total += amount - 9 if amount > 9 else amount
    return total % 10 == 0


_ssn = _matcher("[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_short_name = _matcher(_LABEL)
_long_name = _matcher(rf"{_LABEL}(\.{_LABEL})*")

#: by normalized name (no dashes)
CHECKERS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matcher("[0-9a-fA-F]{24}"),
    "byte": _matcher("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": is_date,
    "datetime": gotime.is_date_time,
    "duration": is_duration,
    "email": mailaddress.is_address,
    "hexcolor": _matcher("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda value: is_isbn10(value) or is_isbn13(value),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8sshortname": lambda value: len(value) <= 63 and _short_name(value),
    "k8slongname": lambda value: len(value) <= 253 and _long_name(value),
    "mac": is_mac,
    "password": lambda value: True,
    "rgbcolor": _matcher(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "ssn": lambda value: len(value) == 11 and _ssn(value),
    "uri": gourl.is_request_uri,
    "uuid": _uuid(),
    "uuid3": _uuid("3[0-9a-f]{3}"),
    "uuid4": _uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
    "uuid5": _uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"),
}
_OF_TYPE: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("integer",): ("int32", "int64"),
    ("number",): ("float", "double"),
}


def formats_of_type(types: tuple[str, ...]) -> tuple[str, ...]:
    """The formats that numbers of a type can have."""
    return _OF_TYPE.get(types, ())


def checker(format_name: str) -> Callable[[str], bool] | None:
    """The check of a string format, or None for a format that is not checked."""
    return CHECKERS.get(format_name.replace("-", ""))


def checked(format_name: str, types: tuple[str, ...]) -> str:
    """`format_name` if it means something for values of these types, else ""."""
    if not format_name:
        return ""
    if len(types) != 1 or types == ("string",):
        return format_name if checker(format_name) is not None else ""
    return format_name if format_name in formats_of_type(types) else ""
