"""Rules for names, labels and annotation keys, in the API server's words.

Each check returns the list of complaints, empty when the text is fine, so that callers can accumulate.
"""

import re
from typing import Final

__all__ = [
    "check_dns1035_label",
    "check_dns1123_label",
    "check_dns1123_subdomain",
    "check_label_value",
    "check_qualified_name",
]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = rf"({_NAME})?"
_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)

_label_re: Final = re.compile(_LABEL)
_subdomain_re: Final = re.compile(_SUBDOMAIN)
_dns1035_re: Final = re.compile(_DNS1035)
_name_re: Final = re.compile(_NAME)
_value_re: Final = re.compile(_VALUE)


def _regex_error(message: str, pattern: str, *examples: str) -> str:
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    quoted = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {quoted}regex used for validation is '{pattern}')"


def _size(text: str) -> int:
    return len(text.encode())


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def check_dns1123_label(text: str) -> list[str]:
    """A lower-case name of one part, at most 63 bytes."""
    errors = [_too_long(63)] if _size(text) > 63 else []
    if _label_re.fullmatch(text) is None:
        if _subdomain_re.fullmatch(text) is not None:
            errors.append("must not contain dots")
        else:
            errors.append(
                _regex_error(
                    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
                    "and must start and end with an alphanumeric character",
                    _LABEL,
                    "my-name",
                    "123-abc",
                )
            )
    return errors


def check_dns1123_subdomain(text: str) -> list[str]:
    """A lower-case dotted name, at most 253 bytes: what most object names must be."""
    errors = [_too_long(253)] if _size(text) > 253 else []
    if _subdomain_re.fullmatch(text) is None:
        errors.append(
            _regex_error(
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
                "'.', and must start and end with an alphanumeric character",
                _SUBDOMAIN,
                "example.com",
            )
        )
    return errors


def check_dns1035_label(text: str) -> list[str]:
    """A lower-case name of one part that starts with a letter: what Service names must be."""
    errors = [_too_long(63)] if _size(text) > 63 else []
    if _dns1035_re.fullmatch(text) is None:
        errors.append(
            _regex_error(
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
                "alphabetic character, and end with an alphanumeric character",
                _DNS1035,
                "my-name",
                "abc-123",
            )
        )
    return errors


def check_qualified_name(text: str) -> list[str]:
    """A label or annotation key: an optional DNS prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    errors: list[str] = []
    if slash:
        if "/" in prefix:
            return [
                "a valid label key "
                + _regex_error(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc")
                + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        if not prefix:
            errors.append("prefix part must be non-empty")
        else:
            errors += [f"prefix part {message}" for message in check_dns1123_subdomain(prefix)]
    if not name:
        errors.append("name part must be non-empty")
    elif _size(name) > 63:
        errors.append(f"name part {_too_long(63)}")
    if _name_re.fullmatch(name) is None:
        errors.append("name part " + _regex_error(_NAME_RULE, _NAME, "MyName", "my.name", "123-abc"))
    return errors


def check_label_value(text: str) -> list[str]:
    """A label value: empty, or at most 63 bytes that start and end alphanumeric."""
    errors = [_too_long(63)] if _size(text) > 63 else []
    if _value_re.fullmatch(text) is None:
        errors.append(
            _regex_error(
                "a valid label must be an empty string or consist of alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character",
                _VALUE,
                "MyValue",
                "my_value",
                "12345",
            )
        )
    return errors
