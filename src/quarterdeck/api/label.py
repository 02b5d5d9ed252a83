"""Rules for names, labels and annotation keys, in the API server's words.

Each check returns the list of complaints, empty when the text is fine, so that callers can accumulate.
"""

import re
from functools import lru_cache
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_NAME})?"

_is_label: Final = re.compile(_LABEL).fullmatch
_is_subdomain: Final = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035: Final = re.compile(_DNS1035).fullmatch
_is_name: Final = re.compile(_NAME).fullmatch
_is_value: Final = re.compile(_VALUE).fullmatch


def byte_length(text: str) -> int:
    """Length as Go counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def regex_error(message: str, pattern: str, *examples: str) -> str:
    """The complaint about a text that does not match ``pattern``."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    quoted = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {quoted}regex used for validation is '{pattern}')"


def max_length_error(limit: int, unit: str = "bytes") -> str:
    """The complaint about a text that is too long; upstream counts bytes, whatever it calls them."""
    return f"must be no more than {limit} {unit}"


_LABEL_TEXT: Final = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT: Final = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_DNS1035_TEXT: Final = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _DNS1035,
    "my-name",
    "abc-123",
)
_NAME_TEXT: Final = regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_TEXT: Final = regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def check_dns1123_label(text: str, *, unit: str = "bytes") -> list[str]:
    """A lower-case name of one part, at most 63 bytes; ``unit`` is what a complaint calls those."""
    if len(text) <= 63 and _is_label(text):
        return []
    errors = [max_length_error(63, unit)] if byte_length(text) > 63 else []
    if not _is_label(text):
        errors.append("must not contain dots" if _is_subdomain(text) else _LABEL_TEXT)
    return errors


def check_dns1123_subdomain(text: str, *, unit: str = "bytes") -> list[str]:
    """A lower-case dotted name, at most 253 bytes: what most object names must be."""
    if len(text) <= 253 and _is_subdomain(text):
        return []
    errors = [max_length_error(253, unit)] if byte_length(text) > 253 else []
    if not _is_subdomain(text):
        errors.append(_SUBDOMAIN_TEXT)
    return errors


def check_dns1035_label(text: str, *, unit: str = "bytes") -> list[str]:
    """A lower-case name of one part that starts with a letter: what Service names must be."""
    errors = [max_length_error(63, unit)] if byte_length(text) > 63 else []
    if not _is_dns1035(text):
        errors.append(_DNS1035_TEXT)
    return errors


@lru_cache(maxsize=4096)
def _is_plain_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _is_subdomain(prefix)):
        return False
    return len(name) <= 63 and _is_name(name) is not None


def check_qualified_name(text: str) -> list[str]:
    """A label or annotation key, a finalizer, a taint's key: an optional DNS prefix, a slash, a name."""
    if len(text) <= 317 and _is_plain_key(text):
        return []
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_TEXT} {optional}"]
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        errors += [f"prefix part {message}" for message in check_dns1123_subdomain(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif byte_length(name) > 63:
        errors.append(f"name part {max_length_error(63)}")
    if not _is_name(name):
        errors.append(f"name part {_NAME_TEXT}")
    return errors


def check_label_value(text: str) -> list[str]:
    """A label value: empty, or at most 63 bytes that start and end alphanumeric."""
    if len(text) <= 63 and _is_value(text):
        return []
    errors = [max_length_error(63)] if byte_length(text) > 63 else []
    if not _is_value(text):
        errors.append(_VALUE_TEXT)
    return errors
