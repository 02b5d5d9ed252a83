"""Formats of single values in built-in kinds: keys, ports, environment names, addresses, percentages.

Each function returns what is wrong with a value, in the API server's words, or an empty list.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final

from quarterdeck.apiserver.metadata import (
    EMPTY,
    byte_length,
    label_errors,
    max_length_error,
    regex_error,
)
from quarterdeck.wire.fielderror import FieldError, invalid
from quarterdeck.wire.gostyle import quote

_is_config_key = re.compile(r"[-._a-zA-Z0-9]+").fullmatch
_is_port_name_charset = re.compile("[-a-z0-9]+").fullmatch
_has_letter = re.compile("[a-z]").search
_is_percent = re.compile("[0-9]+%").fullmatch
_is_header_name = re.compile("[-A-Za-z0-9]+").fullmatch
_UNDERSCORE = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORE_SUBDOMAIN = _UNDERSCORE + r"(\." + _UNDERSCORE + ")*"
_is_underscore_subdomain = re.compile(_UNDERSCORE_SUBDOMAIN).fullmatch
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_is_wildcard = re.compile(_WILDCARD).fullmatch

_CONFIG_KEY_TEXT: Final = regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    "[-._a-zA-Z0-9]+",
    "key.name",
    "KEY_NAME",
    "key-name",
)
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
MAX_INT32: Final = 2147483647


def config_key_errors(key: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    if len(key) <= 253 and _is_config_key(key) and not key.startswith("."):
        return []
    errors = []
    if byte_length(key) > 253:
        errors.append(max_length_error(253))
    if not _is_config_key(key):
        errors.append(_CONFIG_KEY_TEXT)
    return errors + _dot_errors(key)


def _dot_errors(key: str) -> list[str]:
    if key in (".", ".."):
        return [f"must not be '{key}'"]
    return ["must not start with '..'"] if key.startswith("..") else []


def env_name_errors(name: str) -> list[str]:
    if not name:
        return [f"environment variable name {EMPTY}"]
    if name.isascii() and name.isprintable() and "=" not in name:
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
    ]


def port_name_errors(name: str) -> list[str]:
    errors = []
    if byte_length(name) > 15:
        errors.append(max_length_error(15))
    if not _is_port_name_charset(name):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _has_letter(name):
        errors.append("must contain at least one letter (a-z)")
    if "--" in name:
        errors.append("must not contain consecutive hyphens")
    if name.startswith("-") or name.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def range_error(low: int, high: int) -> str:
    return f"must be between {low} and {high}, inclusive"


def port_errors(port: int) -> list[str]:
    return [] if 1 <= port <= 65535 else [range_error(1, 65535)]


def port_or_name(port: Any, field: str) -> list[FieldError]:
    """An int-or-string port."""
    if isinstance(port, str):
        return [invalid(field, port, text) for text in port_name_errors(port)]
    port = port or 0
    return [] if 1 <= port <= 65535 else [invalid(field, port, range_error(1, 65535))]


def user_id_errors(identifier: int) -> list[str]:
    """User and group ids."""
    return [] if 0 <= identifier <= MAX_INT32 else [range_error(0, MAX_INT32)]


def percent_errors(value: str) -> list[str]:
    if _is_percent(value):
        return []
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_error(text, "[0-9]+%", "1%", "93%")]


def header_name_errors(name: str) -> list[str]:
    if _is_header_name(name):
        return []
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_error(text, "[-A-Za-z0-9]+", "X-Header-Name")]


def underscore_subdomain_errors(value: str) -> list[str]:
    errors = []
    if byte_length(value) > 253:
        errors.append(max_length_error(253))
    if not _is_underscore_subdomain(value):
        text = (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'_', '-' or '.', and must start and end with an alphanumeric character"
        )
        errors.append(regex_error(text, _UNDERSCORE_SUBDOMAIN, "example.com"))
    return errors


def wildcard_subdomain_errors(value: str) -> list[str]:
    errors = []
    if byte_length(value) > 253:
        errors.append(max_length_error(253))
    if not _is_wildcard(value):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
            "which must consist of lower case alphanumeric characters, '-' or '.' "
            "and end with an alphanumeric character"
        )
        errors.append(regex_error(text, _WILDCARD, "*.example.com"))
    return errors


def parse_ip(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address as Go's lenient legacy parser takes it (leading zeros allowed), or None."""
    try:
        return ipaddress.ip_address(value)
    except ValueError:
        pass
    parts = value.split(".")
    if len(parts) == 4 and all(part.isdecimal() and part.isascii() and len(part) <= 3 for part in parts):
        try:
            return ipaddress.ip_address(".".join(str(int(part)) for part in parts))
        except ValueError:
            return None
    return None


NOT_AN_IP: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def validate_ip(value: str, field: str) -> list[FieldError]:
    """An address in a form that everybody reads alike."""
    address = parse_ip(value)
    if address is None:
        return [invalid(field, value, NOT_AN_IP)]
    if ":" not in value and str(address) != value:
        return [invalid(field, value, "must not have leading 0s")]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return [invalid(field, value, "must not be an IPv4-mapped IPv6 address")]
    return []


def ip_warnings(value: str, field: str) -> list[str]:
    """IPv6 addresses that are written in an unusual way."""
    if ":" not in value:
        return []
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return []
    if (mapped := address.ipv4_mapped) is not None:
        return [f"{field}: non-standard IP address {quote(value)} is invalid: use {quote(str(mapped))}"]
    if str(address) == value:
        return []
    shown = quote(str(address))
    return [f"{field}: IPv6 address {quote(value)} should be in RFC 5952 canonical format ({shown})"]


def validate_label(value: str, field: str) -> list[FieldError]:
    return [invalid(field, value, text) for text in label_errors(value)]


def non_negative(value: Any, field: str) -> list[FieldError]:
    return [invalid(field, value, NOT_NEGATIVE)] if (value or 0) < 0 else []
