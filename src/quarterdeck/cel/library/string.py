"""String extension functions (version 2 of the library): charAt, indexOf, join, split, substring ..."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.cel.declaration import Function, Implementation, Overload
from quarterdeck.cel.error import CostLimitExceeded, EvalError
from quarterdeck.cel.library.formatting import format_string
from quarterdeck.cel.type.celtype import DYN, INT, STRING, CelType, list_type
from quarterdeck.cel.value.value import MOST_TEXT, Value, display
from quarterdeck.wire.gostyle import ESCAPES, trim_space

_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_QUOTED: Final = str.maketrans(ESCAPES)


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise EvalError(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(text: str, part: str, start: int = 0) -> int:
    if part == "":
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    return text.find(part, start) if start < len(text) else -1


def _last_index_of(text: str, part: str, start: int | None = None) -> int:
    if start is None:
        if part == "":
            return len(text)
        if len(text.encode("utf-8", "surrogatepass")) < len(part.encode("utf-8", "surrogatepass")):
            return -1
        start = len(text) - 1
    if part == "":
        return start
    if start < 0:
        raise EvalError(f"index out of range: {start}")
    if start >= len(text):
        return -1
    return text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    # Long texts in long texts grow quadratically: refuse before memory does.
    hits = len(text) + 1 if old == "" else len(text) // len(old) + 1
    if len(text) + (hits if count < 0 else min(hits, count)) * len(new) > MOST_TEXT:
        raise CostLimitExceeded
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator == "":
        if count < 0 or len(text) <= count:
            return list(text)
        return [*text[: count - 1], text[count - 1 :]]
    return text.split(separator, -1 if count < 0 else count - 1)


def _join(items: list[Value], separator: str = "") -> str:
    for item in items:
        if type(item) is not str:
            raise EvalError(f"join: invalid input: {display(item)}")
    if sum(map(len, items)) + len(separator) * len(items) > MOST_TEXT:
        raise CostLimitExceeded
    return separator.join(items)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvalError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvalError(f"index out of range: {start}")
    if end is not None and not 0 <= end <= len(text):
        raise EvalError(f"index out of range: {end}")
    return text[start:end]


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def functions() -> Iterable[Function]:
    """All functions of the library."""
    strings = list_type(STRING)

    def member(name: str, *rows: tuple[str, list[CelType], CelType, Implementation]) -> Function:
        return Function(
            name, [Overload(id, args, result, run, is_member=True) for id, args, result, run in rows]
        )

    yield member("charAt", ("string_char_at_int", [STRING, INT], STRING, _char_at))
    yield member(
        "indexOf",
        ("string_index_of_string", [STRING, STRING], INT, _index_of),
        ("string_index_of_string_int", [STRING, STRING, INT], INT, _index_of),
    )
    yield member(
        "lastIndexOf",
        ("string_last_index_of_string", [STRING, STRING], INT, _last_index_of),
        ("string_last_index_of_string_int", [STRING, STRING, INT], INT, _last_index_of),
    )
    yield member("lowerAscii", ("string_lower_ascii", [STRING], STRING, lambda s: s.translate(_LOWER)))
    yield member("upperAscii", ("string_upper_ascii", [STRING], STRING, lambda s: s.translate(_UPPER)))
    yield member(
        "replace",
        ("string_replace_string_string", [STRING, STRING, STRING], STRING, _replace),
        ("string_replace_string_string_int", [STRING, STRING, STRING, INT], STRING, _replace),
    )
    yield member(
        "split",
        ("string_split_string", [STRING, STRING], strings, _split),
        ("string_split_string_int", [STRING, STRING, INT], strings, _split),
    )
    yield member(
        "substring",
        ("string_substring_int", [STRING, INT], STRING, _substring),
        ("string_substring_int_int", [STRING, INT, INT], STRING, _substring),
    )
    yield member("trim", ("string_trim", [STRING], STRING, trim_space))
    yield member("format", ("string_format", [STRING, list_type(DYN)], STRING, format_string))
    yield member(
        "join",
        ("list_join", [strings], STRING, _join),
        ("list_join_string", [strings, STRING], STRING, _join),
    )
    yield Function("strings.quote", [Overload("strings_quote", [STRING], STRING, _quote)])
