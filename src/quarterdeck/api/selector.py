"""Label and field selectors: parse, print, match.

``Selector`` understands the text form (``app=web,tier in (a,b),!canary``) with the API server's grammar
and words of complaint, and the ``LabelSelector`` objects that live inside other objects. An absent
object selects nothing, an empty one everything: that is the API's rule, so ``Selector.of(None)`` and
``Selector.of(LabelSelector())`` differ.

``FieldSelector`` is the smaller sibling: exact and not-equal terms on field paths. What fields exist is
up to who evaluates it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from quarterdeck.api.label import check_label_value, check_qualified_name
from quarterdeck.api.meta import LabelSelector
from quarterdeck.errors import SchemaError

Operator = Literal["=", "==", "!=", "in", "notin", "exists", "!", "gt", "lt"]

_NEGATIVE: Final = frozenset({"!=", "notin"})
_SIGN: Final = {"=": "=", "==": "==", "!=": "!=", "in": " in ", "notin": " notin ", "gt": ">", "lt": "<"}
_OBJECT_OPERATORS: Final[dict[str, Operator]] = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def _is_integer(text: str) -> bool:
    """Whether a text is a number of 64 bits."""
    return _INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class Requirement(msgspec.Struct, frozen=True):
    """One condition on one label; build it with ``Requirement.checked`` to have it validated."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Iterable[str] = ()) -> "Requirement":
        """A valid requirement; raises ``SchemaError`` listing everything wrong with it."""
        texts = tuple(values)
        complaints = [
            f"key: Invalid value: {_quoted(key)}: {'; '.join(e)}" for e in (check_qualified_name(key),) if e
        ]
        complaint = _count_complaint(operator, texts)
        if complaint:
            complaints.append(f"values: Invalid value: {_go_list(texts)}: {complaint}")
        for i, text in enumerate(texts):
            if operator in ("gt", "lt") and not _is_integer(text):
                complaints.append(
                    f"values[{i}]: Invalid value: {_quoted(text)}: "
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
            errors = check_label_value(text)
            if errors:
                complaints.append(f"values[{i}][{key}]: Invalid value: {_quoted(text)}: {'; '.join(errors)}")
        if complaints:
            text = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
            raise SchemaError(text)
        return cls(key, operator, texts)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a set of labels fulfils the requirement."""
        value = labels.get(self.key)
        operator = self.operator
        if operator == "exists":
            return value is not None
        if operator == "!":
            return value is None
        if value is None:
            return operator in _NEGATIVE
        if operator in ("gt", "lt"):
            return self._compare(value)
        return (value in self.values) != (operator in _NEGATIVE)

    def _compare(self, value: str) -> bool:
        if not _is_integer(value):
            return False
        mine, theirs = int(self.values[0]), int(value)
        return theirs > mine if self.operator == "gt" else theirs < mine

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        joined = ",".join(sorted(self.values))
        if self.operator in ("in", "notin"):
            joined = f"({joined})"
        return f"{self.key}{_SIGN[self.operator]}{joined}"


def _count_complaint(operator: Operator, values: tuple[str, ...]) -> str:
    if operator in ("in", "notin") and not values:
        return "for 'in', 'notin' operators, values set can't be empty"
    if operator in ("=", "==", "!=") and len(values) != 1:
        return "exact-match compatibility requires one single value"
    if operator in ("exists", "!") and values:
        return "values set must be empty for exists and does not exist"
    if operator in ("gt", "lt") and len(values) != 1:
        return "for 'Gt', 'Lt' operators, exactly one value is required"
    return ""


def _go_list(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"


class Selector:
    """A label selector: all requirements must hold.

    >>> Selector.parse("app=web,!canary").matches({"app": "web"})
    True
    >>> str(Selector.parse("b in (y,x), a"))
    'a,b in (x,y)'
    """

    __slots__ = ("_nothing", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements: Final = tuple(sorted(requirements, key=_by_key))
        self._nothing: Final = nothing

    @classmethod
    def everything(cls) -> "Selector":
        """Matches every object."""
        return cls()

    @classmethod
    def nothing(cls) -> "Selector":
        """Matches no object."""
        return cls(nothing=True)

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Read the text form; raises ``SchemaError`` in the API server's words."""
        return cls(_Parser(text).parse())

    @classmethod
    def of(cls, selector: "LabelSelector | Selector | str | Mapping[str, str] | None") -> "Selector":
        """From whatever says which labels: an object, a text, a map of exact values, another selector.

        ``None`` selects nothing, as a missing ``selector`` field does; an empty object, text or map
        selects everything.
        """
        if selector is None:
            return cls.nothing()
        if isinstance(selector, Selector):
            return selector
        if isinstance(selector, str):
            return cls.parse(selector)
        if isinstance(selector, LabelSelector):
            return cls._of_object(selector)
        return cls(Requirement.checked(key, "=", (value,)) for key, value in selector.items())

    @classmethod
    def _of_object(cls, selector: LabelSelector) -> "Selector":
        requirements = [Requirement.checked(k, "=", (v,)) for k, v in selector.match_labels.items()]
        for expression in selector.match_expressions:
            operator = _OBJECT_OPERATORS.get(expression.operator)
            if operator is None:
                raise SchemaError(f'"{expression.operator}" is not a valid label selector operator')
            requirements.append(Requirement.checked(expression.key, operator, expression.values))
        return cls(requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self._nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110  mostly there is none: a generator costs more
            if not requirement.matches(labels):
                return False
        return True

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything."""
        return not self.requirements and not self._nothing

    @property
    def is_nothing(self) -> bool:
        """Whether it is the selector of nothing."""
        return self._nothing

    def exact_value(self, key: str) -> str | None:
        """The one value a label must have, if the selector demands one."""
        for requirement in self.requirements:
            if requirement.key == key:
                exact = requirement.operator in ("=", "==", "in") and len(requirement.values) == 1
                return requirement.values[0] if exact else None
        return None

    def __and__(self, other: "Selector") -> "Selector":
        if self._nothing or other._nothing:
            return Selector.nothing()
        return Selector((*self.requirements, *other.requirements))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self._nothing == other._nothing and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash((self._nothing, self.requirements))

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)

    def __repr__(self) -> str:
        return "Selector.nothing()" if self._nothing else f"Selector.parse({str(self)!r})"


def _by_key(requirement: Requirement) -> str:
    return requirement.key


_SPECIAL: Final = frozenset("=!(),><")
_SYMBOLS: Final = frozenset({")", ",", "!", "==", "=", ">", "<", "!=", "("})
_END: Final = ""
_BINARY: Final = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    """Recursive descent over the tokens, branch for branch as upstream (its messages are visible)."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self._peek()
            if kind == "end":
                return found
            if kind not in ("identifier", "in", "notin") and text != "!":
                raise SchemaError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SchemaError as error:
                raise SchemaError(f"unable to parse requirement: {error}") from error
            kind, text = self._next()
            if kind == "end":
                return found
            if text != ",":
                raise SchemaError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._peek()
            if kind not in ("identifier", "in", "notin") and text != "!":
                raise SchemaError(f"found '{text}', expected: identifier after ','")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> Requirement:
        kind, text = self._next()
        absent = text == "!" and kind == "symbol"
        if absent:
            kind, text = self._next()
        if kind not in ("identifier", "in", "notin"):
            raise SchemaError(f"found '{text}', expected: identifier")
        errors = check_qualified_name(text)
        if errors:
            raise SchemaError(f"<nil>: Invalid value: {_quoted(text)}: {'; '.join(errors)}")
        after = self._peek()
        if absent:
            return Requirement.checked(text, "!")
        if after[0] == "end" or after[1] == ",":
            return Requirement.checked(text, "exists")
        operator = self._operator()
        values = self._values() if operator in ("in", "notin") else self._exact()
        return Requirement.checked(text, operator, values)

    def _operator(self) -> Operator:
        kind, text = self._next()
        if kind == "in":
            return "in"
        if kind == "notin":
            return "notin"
        operators: dict[str, Operator] = {"=": "=", "==": "==", "!=": "!=", ">": "gt", "<": "lt"}
        if kind == "symbol" and text in operators:
            return operators[text]
        raise SchemaError(f"found '{text}', expected: {_BINARY}")

    def _exact(self) -> tuple[str, ...]:
        kind, text = self._peek()
        if kind == "end" or text == ",":
            return ("",)
        kind, text = self._next()
        if kind in ("identifier", "in", "notin"):
            return (text,)
        raise SchemaError(f"found '{text}', expected: identifier")

    def _values(self) -> tuple[str, ...]:
        _, text = self._next()
        if text != "(":
            raise SchemaError(f"found '{text}' expected: '('")
        kind, first = self._peek()
        if first == ")" and kind == "symbol":
            self._next()
            return ("",)
        if kind not in ("identifier", "in", "notin") and first != ",":
            raise SchemaError(f"found '{first}', expected: ',', ')' or identifier")
        values = self._identifiers()
        _, text = self._next()
        if text != ")":
            raise SchemaError(f"found '{first}', expected: ')'")
        return tuple(sorted(values))

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            kind, text = self._next()
            following = self._peek()[1]
            if kind in ("identifier", "in", "notin"):
                values.add(text)
                if following == ",":
                    continue
                if following == ")":
                    return values
                raise SchemaError(f"found '{following}', expected: ',' or ')'")
            if text != ",":
                raise SchemaError(f"found '{text}', expected: ',', or identifier")
            if not values:
                values.add("")
            if following == ")":
                values.add("")
                return values
            if following == ",":
                values.add("")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at, end = 0, len(text)
    while at < end:
        if text[at] in " \t\r\n":
            at += 1
            continue
        start = at
        if text[at] in _SPECIAL:
            at += 2 if text[at : at + 2] in _SYMBOLS else 1
            yield "symbol", text[start:at]
            continue
        while at < end and text[at] not in _SPECIAL and text[at] not in " \t\r\n":
            at += 1
        word = text[start:at]
        yield (word if word in ("in", "notin") else "identifier"), word
    yield "end", _END


class FieldTerm(msgspec.Struct, frozen=True):
    """One condition on one field."""

    field: str
    value: str
    equal: bool = True

    def matches(self, value: str) -> bool:
        """Whether the field's value fulfils the term."""
        return (value == self.value) == self.equal

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


class FieldSelector(msgspec.Struct, frozen=True):
    """A field selector: all terms must hold.

    >>> FieldSelector.parse("spec.nodeName=n1,status.phase!=Failed").exact_value("spec.nodeName")
    'n1'
    """

    terms: tuple[FieldTerm, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        """Read the text form; raises ``SchemaError`` in the API server's words."""
        terms = []
        for part in sorted(_split_terms(text)):
            if not part:
                continue
            match = _FIELD_TERM.match(part)
            if match is None:
                raise SchemaError(f"invalid selector: '{text}'; can't understand '{part}'")
            value = _unescape(part[match.end() :])
            terms.append(FieldTerm(match.group(1), value, match.group(2) != "!="))
        return cls(tuple(terms))

    @classmethod
    def of(cls, selector: "FieldSelector | str | Mapping[str, str]") -> "FieldSelector":
        """From a text, a map of exact values, or another selector."""
        if isinstance(selector, FieldSelector):
            return selector
        if isinstance(selector, str):
            return cls.parse(selector)
        return cls(tuple(FieldTerm(field, selector[field]) for field in sorted(selector)))

    def matches(self, lookup: Callable[[str], str]) -> bool:
        """Whether an object matches; ``lookup`` gives the text of a field, empty when absent."""
        return all(term.matches(lookup(term.field)) for term in self.terms)

    def exact_value(self, field: str) -> str | None:
        """The value a field must have, if the selector demands one."""
        for term in self.terms:
            if term.field == field and term.equal:
                return term.value
        return None

    def __str__(self) -> str:
        return ",".join(str(term) for term in self.terms)


_FIELD_TERM: Final = re.compile(r"(.*?)(!=|==|=)", re.DOTALL)


def _split_terms(text: str) -> Iterator[str]:
    if not text:
        return
    start, escaped = 0, False
    for i, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            yield text[start:i]
            start = i + 1
    yield text[start:]


def _unescape(value: str) -> str:
    out, escaped = [], False
    for char in value:
        if escaped:
            if char not in "\\,=":
                raise SchemaError(f"invalid field selector: invalid escape sequence: \\{char}")
            out.append(char)
            escaped = False
        elif char == "\\":
            escaped = True
        elif char in ",=":
            raise SchemaError(f"invalid field selector: unescaped character in value: {ord(char)}")
        else:
            out.append(char)
    if escaped:
        raise SchemaError("invalid field selector: invalid escape sequence: \\")
    return "".join(out)
