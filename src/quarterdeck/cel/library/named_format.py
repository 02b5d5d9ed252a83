"""Named formats: `format.dns1123Label().validate(s)`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from quarterdeck.api.label import (
    check_dns1035_label,
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)
from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.library.url import request_problem
from quarterdeck.cel.type.celtype import STRING, list_type, object_type, optional_type
from quarterdeck.cel.value import gotime
from quarterdeck.cel.value.value import Opaque, OptionalValue

FORMAT: Final = object_type("kubernetes.NamedFormat")

_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")


class FormatValue(Opaque):
    """A named format; `regex_size` is what its check counts for in cost."""

    __slots__ = ("check", "name", "regex_size")
    type_name: ClassVar[str] = "kubernetes.NamedFormat"

    def __init__(self, name: str, check: Callable[[str], list[str]], regex_size: int) -> None:
        self.name = name
        self.check = check
        self.regex_size = regex_size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Names used for generation may end in a dash."""
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    problem = request_problem(text)
    return [] if problem is None else [problem]


def _test(accepts: Callable[[str], bool], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if accepts(text) else [complaint]


def _is_base64(text: str) -> bool:
    if not _BASE64.fullmatch(text):
        return False
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


FORMATS: Final = {
    "dns1123Label": FormatValue("DNS1123Label", check_dns1123_label, 30),
    "dns1123Subdomain": FormatValue("DNS1123Subdomain", check_dns1123_subdomain, 60),
    "dns1035Label": FormatValue("DNS1035Label", check_dns1035_label, 30),
    "qualifiedName": FormatValue("QualifiedName", check_qualified_name, 60),
    "dns1123LabelPrefix": FormatValue("DNS1123LabelPrefix", _prefix(check_dns1123_label), 30),
    "dns1123SubdomainPrefix": FormatValue("DNS1123SubdomainPrefix", _prefix(check_dns1123_subdomain), 60),
    "dns1035LabelPrefix": FormatValue("DNS1035LabelPrefix", _prefix(check_dns1035_label), 30),
    "labelValue": FormatValue("LabelValue", check_label_value, 40),
    "uri": FormatValue("URI", _uri, 1103),
    "uuid": FormatValue(
        "uuid", _test(lambda s: _UUID.fullmatch(s) is not None, "does not match the UUID format"), 70
    ),
    "byte": FormatValue("byte", _test(_is_base64, "invalid base64"), 84),
    "date": FormatValue("date", _test(lambda s: gotime.parse_date(s) is not None, "invalid date"), 71),
    "datetime": FormatValue("datetime", _test(gotime.is_date_time, "invalid datetime"), 71),
}


def _validate(named: FormatValue, text: str) -> OptionalValue:
    problems = named.check(text)
    return OptionalValue(problems) if problems else OptionalValue.NONE


def _named(name: str) -> OptionalValue:
    found = FORMATS.get(name)
    return OptionalValue.NONE if found is None else OptionalValue(found)


def functions() -> Iterable[Function]:
    """All functions of the library."""
    problems = optional_type(list_type(STRING))
    yield Function(
        "validate", [Overload("format-validate", [FORMAT, STRING], problems, _validate, is_member=True)]
    )
    yield Function("format.named", [Overload("format-named", [STRING], optional_type(FORMAT), _named)])
    for name, named in FORMATS.items():
        yield Function(f"format.{name}", [Overload(f"format.{name}", [], FORMAT, _constant(named))])


def _constant(named: FormatValue) -> Callable[[], FormatValue]:
    return lambda: named
