"""The part of jq that Stages are written in: paths, pipes, ``select``, comparisons, ``and``, ``or``, ``//``.

A program gives any number of values for one. What goes wrong while it runs (a path into a text, say) is told
from no value at all: KWOK takes it for absent.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.cluster.stage.error import StageError

Filter: TypeAlias = Callable[[Any], Iterator[Any]]

_TOKEN: Final = re.compile(
    r"""\s*(?: (?P<field>\.[A-Za-z_]\w*) | (?P<text>"(?:[^"\\]|\\.)*") | (?P<number>-?\d+(?:\.\d+)?)
        | (?P<word>[A-Za-z_]\w*) | (?P<mark>==|!=|<=|>=|//|\.\.|[][().|<>?,]) )""",
    re.VERBOSE,
)
_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


class _RunError(StageError):
    """The value is not what the program expects."""


class Query:
    """A program."""

    def __init__(self, text: str) -> None:
        """Raises ``StageError`` for what is not understood."""
        self._filter: Final = _Parser(text).program()

    def values(self, document: Any) -> list[Any] | None:
        """What it gives for a document, nulls left out; none if it fails."""
        try:
            return [each for each in self._filter(document) if each is not None]
        except (_RunError, TypeError):
            return None


@lru_cache(maxsize=512)
def query(text: str) -> Query:
    """A program, compiled once."""
    return Query(text)


def _is_true(value: Any) -> bool:
    return value is not None and value is not False


class _Parser:
    def __init__(self, text: str) -> None:
        self._text: Final = text
        self._tokens: list[tuple[str, str]] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                raise self._refusal(text[place:].split()[0])
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            place = found.end()
        self._place = 0

    def program(self) -> Filter:
        found = self._pipe()
        if self._place < len(self._tokens):
            raise self._refusal(self._tokens[self._place][1])
        return found

    def _refusal(self, word: str) -> StageError:
        return StageError(f"jq {self._text!r}: {word!r} is not available here")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._place] if self._place < len(self._tokens) else ("", "")

    def _after(self) -> tuple[str, str]:
        return self._tokens[self._place + 1] if self._place + 1 < len(self._tokens) else ("", "")

    def _take(self, *words: str) -> str:
        """The next token if it is one of these; empty otherwise."""
        kind, word = self._peek()
        if kind in ("mark", "word") and word in words:
            self._place += 1
            return word
        return ""

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise StageError(f"jq {self._text!r}: {word!r} is missing")

    def _pipe(self) -> Filter:
        left = self._alternative()
        while self._take("|"):
            left = _piped(left, self._alternative())
        return left

    def _alternative(self) -> Filter:
        left = self._either()
        while self._take("//"):
            left = _alternative(left, self._either())
        return left

    def _either(self) -> Filter:
        left = self._both()
        while self._take("or"):
            left = _combined(left, self._both(), lambda one, other: _is_true(one) or _is_true(other))
        return left

    def _both(self) -> Filter:
        left = self._comparison()
        while self._take("and"):
            left = _combined(left, self._comparison(), lambda one, other: _is_true(one) and _is_true(other))
        return left

    def _comparison(self) -> Filter:
        left = self._path()
        sign = self._take(*_COMPARISONS)
        return _combined(left, self._path(), _COMPARISONS[sign]) if sign else left

    def _path(self) -> Filter:
        found = self._term()
        while True:
            kind, word = self._peek()
            if kind == "field":
                self._place += 1
                found = _piped(found, _item(word[1:]))
            elif word == "[":
                found = _piped(found, self._bracket())
            elif word == "." and self._after() == ("mark", "["):
                self._place += 1
            elif word == "." and self._after()[0] == "text":
                self._place += 2
                found = _piped(found, _item(_text(self._tokens[self._place - 1][1])))
            elif word == "?":
                self._place += 1
                found = _forgiving(found)
            else:
                return found

    def _term(self) -> Filter:
        kind, word = self._peek()
        self._place += 1
        match kind, word:
            case "field", _:
                return _item(word[1:])
            case "mark", ".":
                if self._peek()[0] == "text":
                    self._place += 1
                    return _item(_text(self._tokens[self._place - 1][1]))
                return lambda value: iter((value,))
            case "mark", "(":
                found = self._pipe()
                self._expect(")")
                return found
            case (("text" | "number"), _):
                constant = msgspec.json.decode(word)
                return lambda _: iter((constant,))
            case "word", ("true" | "false" | "null"):
                known = _CONSTANTS[word]
                return lambda _: iter((known,))
            case "word", "not":
                return lambda value: iter((not _is_true(value),))
            case "word", "length":
                return lambda value: iter((len(value or ()),))
            case "word", "select":
                self._expect("(")
                condition = self._pipe()
                self._expect(")")
                return _select(condition)
        raise self._refusal(word or "an end")

    def _bracket(self) -> Filter:
        self._expect("[")
        kind, word = self._peek()
        if self._take("]"):
            return _each
        self._place += 1
        if kind not in ("text", "number"):
            raise self._refusal(word)
        self._expect("]")
        return _item(msgspec.json.decode(word))


def _text(word: str) -> str:
    found: str = msgspec.json.decode(word)
    return found


def _item(key: str | int) -> Filter:
    def found(value: Any) -> Iterator[Any]:
        if value is None:
            yield None
        elif isinstance(value, dict) and isinstance(key, str):
            yield value.get(key)
        elif isinstance(value, list) and isinstance(key, int):
            yield value[key] if -len(value) <= key < len(value) else None
        else:
            raise _RunError(f"{key!r} of {type(value).__name__}")

    return found


def _each(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
    else:
        raise _RunError(f"elements of {type(value).__name__}")


def _piped(left: Filter, right: Filter) -> Filter:
    return lambda value: (found for each in left(value) for found in right(each))


def _alternative(left: Filter, right: Filter) -> Filter:
    def found(value: Any) -> Iterator[Any]:
        try:
            good = [each for each in left(value) if _is_true(each)]
        except _RunError:
            good = []
        yield from good or right(value)

    return found


def _combined(left: Filter, right: Filter, combine: Callable[[Any, Any], bool]) -> Filter:
    return lambda value: (combine(one, other) for one in left(value) for other in right(value))


def _forgiving(inner: Filter) -> Filter:
    def found(value: Any) -> Iterator[Any]:
        try:
            yield from inner(value)
        except _RunError:
            return

    return found


def _select(condition: Filter) -> Filter:
    return lambda value: (value for verdict in condition(value) if _is_true(verdict))
