"""Label and field selectors of list, watch and deletecollection."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from quarterdeck.apiserver import gostyle, status
from quarterdeck.apiserver.metadata import label_value_errors, qualified_name_errors
from quarterdeck.apiserver.resource import Resource
from quarterdeck.apiserver.storage import Entry

Json = dict[str, Any]


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label: key, operator (`in`, `notin`, `exists`, `!`, `gt`, `lt`) and values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator == "in":
            return value is not None and value in self.values
        if operator == "notin":
            return value is None or value not in self.values
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if operator == "gt" else int(value) < bound


_REQUIREMENT = "unable to parse requirement: "
_INTEGER = re.compile(r"[+-]?\d+")
_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|>|<|[^\s,()=!<>]+)")


class _Tokens:
    def __init__(self, text: str) -> None:
        self._text = text
        self._items: list[str] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:  # only white space can be left over, and rstrip removed it
                break
            self._items.append(found[1])
            position = found.end()
        self._next = 0

    def peek(self) -> str:
        return self._items[self._next] if self._next < len(self._items) else ""

    def pop(self) -> str:
        token = self.peek()
        self._next += 1
        return token


_OPERATORS = frozenset(("=", "==", "!=", ",", "(", ")", ">", "<", "!"))


class SelectorError(ValueError):
    """A selector that cannot be parsed."""


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a label selector; raises SelectorError."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    if not tokens.peek():
        return ()
    while True:
        requirements.append(_requirement(tokens))
        token = tokens.pop()
        if not token:
            break
        if token != ",":
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        if not tokens.peek():
            raise SelectorError("found '', expected: identifier after ','")
    requirements.sort(key=lambda requirement: requirement.key)
    return tuple(requirements)


def _requirement(tokens: _Tokens) -> Requirement:
    negated = tokens.peek() == "!"
    if negated:
        tokens.pop()
    key = tokens.pop()
    if negated and not key:
        raise SelectorError(f"{_REQUIREMENT}found '', expected: identifier")
    if not key or key in _OPERATORS:
        raise SelectorError(f"found '{key}', expected: !, identifier, or 'end of string'")
    if problems := qualified_name_errors(key):
        raise SelectorError(
            f"{_REQUIREMENT}<nil>: Invalid value: {gostyle.quote(key)}: {'; '.join(problems)}"
        )
    if negated:
        return Requirement(key, "!")
    operator = tokens.peek()
    if operator in ("", ","):
        return Requirement(key, "exists")
    tokens.pop()
    if operator in ("=", "==", "!="):
        value = "" if tokens.peek() in ("", ",") else tokens.pop()
        return Requirement(key, "notin" if operator == "!=" else "in", frozenset([_checked(key, value)]))
    if operator in ("in", "notin"):
        return Requirement(key, operator, frozenset(_checked(key, value) for value in _values(tokens)))
    if operator in (">", "<"):
        value = tokens.pop()
        if value in _OPERATORS:
            raise SelectorError(f"{_REQUIREMENT}found '{value}', expected: identifier")
        if not _INTEGER.fullmatch(value):
            raise SelectorError(
                f"{_REQUIREMENT}values[0]: Invalid value: "
                f"{gostyle.quote(value)}: for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return Requirement(key, "gt" if operator == ">" else "lt", frozenset([_checked(key, value)]))
    raise SelectorError(f"{_REQUIREMENT}found '{operator}', expected: in, notin, =, ==, !=, gt, lt")


def _values(tokens: _Tokens) -> list[str]:
    token = tokens.pop()
    if token != "(":
        raise SelectorError(f"{_REQUIREMENT}found '{token}' expected: '('")
    values: list[str] = []
    expects_value = True
    while True:
        token = tokens.pop()
        if token == ")":
            if expects_value:
                values.append("")
            return values
        if token == ",":
            if expects_value:
                values.append("")
            expects_value = True
            continue
        if not token or not expects_value:
            raise SelectorError(f"{_REQUIREMENT}found '{token}', expected: ',' or ')'")
        values.append(token)
        expects_value = False


def _checked(key: str, value: str) -> str:
    if problems := label_value_errors(value):
        raise SelectorError(
            f"{_REQUIREMENT}values[0][{key}]: Invalid value: {gostyle.quote(value)}: {'; '.join(problems)}"
        )
    return value


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """(path, wanted to be equal, value) of each term of a field selector; raises SelectorError."""
    terms: list[tuple[str, bool, str]] = []
    for term in _split_escaped(text):
        if not term:
            continue
        for operator, equal in (("!=", False), ("==", True), ("=", True)):
            path, found, value = term.partition(operator)
            if found:
                terms.append((path, equal, _unescape(value)))
                break
        else:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
    return terms


def _split_escaped(text: str) -> list[str]:
    parts: list[str] = []
    current: list[str] = []
    escaped = False
    for char in text:
        if char == "," and not escaped:
            parts.append("".join(current))
            current = []
            continue
        escaped = char == "\\" and not escaped
        current.append(char)
    parts.append("".join(current))
    return parts


def _unescape(value: str) -> str:
    if "\\" not in value and "=" not in value:
        return value
    out: list[str] = []
    escaped = False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == "=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)


class Selection:
    """A compiled pair of selectors for one resource."""

    __slots__ = ("_fields", "_labels", "_resource", "name", "namespace")

    def __init__(self, resource: Resource, label_selector: str, field_selector: str) -> None:
        self._resource = resource
        self.name = ""
        self.namespace = ""
        try:
            self._labels = parse_labels(label_selector) if label_selector else ()
        except SelectorError as error:
            raise status.bad_request(str(error)) from None
        self._fields: list[tuple[str, bool, str]] = []
        if not field_selector:
            return
        try:
            terms = parse_fields(field_selector)
        except SelectorError as error:
            raise status.bad_request(str(error)) from None
        for path, equal, value in terms:
            self._check_supported(path)
            if equal and path == "metadata.name":
                if self.name and self.name != value:
                    self._fields.append((path, True, self.name))  # two names: nothing can match
                self.name = value
            if equal and path == "metadata.namespace" and resource.namespaced:
                self.namespace = value
            self._fields.append((path, equal, value))

    def _check_supported(self, path: str) -> None:
        resource = self._resource
        known = resource.strategy.selectable_fields
        if path == "metadata.name" or path in known:
            return
        if path == "metadata.namespace" and (resource.namespaced or not (known or resource.is_custom)):
            return
        if resource.kind == "Job" and known:  # the only kind that words it differently
            raise status.bad_request(f"field label {gostyle.quote(path)} not supported for Job")
        if resource.is_custom or known:
            raise status.bad_request(f"field label not supported: {path}")
        raise status.bad_request(
            f'{gostyle.quote(path)} is not a known field selector: only "metadata.name", "metadata.namespace"'
        )

    @property
    def is_empty(self) -> bool:
        return not self._labels and not self._fields

    def matches(self, entry: Entry) -> bool:
        if self._labels:
            labels = entry.labels
            for requirement in self._labels:
                if not requirement.matches(labels):
                    return False
        return all((self._field(entry, path) == value) is equal for path, equal, value in self._fields)

    def _field(self, entry: Entry, path: str) -> str:
        if path == "metadata.name":
            return entry.name
        if path == "metadata.namespace":
            return entry.namespace
        fields = entry.fields
        if fields is None or path not in fields:
            fields = self._resource.selectable(self._resource.read(entry)) or {}
            entry.remember_fields(fields)
        return fields.get(path, "")


def label_selector_matcher(selector: Json | None) -> Callable[[Mapping[str, str]], bool]:
    """A LabelSelector object (`matchLabels`, `matchExpressions`) as a predicate; None and {} match all."""
    if not selector:
        return lambda labels: True
    requirements = [
        Requirement(key, "in", frozenset([value]))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for expression in selector.get("matchExpressions") or ():
        requirements.append(
            Requirement(
                expression["key"],
                operators[expression["operator"]],
                frozenset(expression.get("values") or ()),
            )
        )
    return lambda labels: all(requirement.matches(labels) for requirement in requirements)
