"""Semantic versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import total_ordering
from typing import ClassVar, Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import BOOL, INT, STRING, object_type
from quarterdeck.cel.value.value import MAX_UINT, Opaque
from quarterdeck.wire.gostyle import quote

SEMVER: Final = object_type("kubernetes.Semver")
_NUMBERS: Final = re.compile(r"[0-9]*")
_WORD: Final = re.compile(r"[0-9A-Za-z-]*")


@total_ordering
class Semver(Opaque):
    """A version; build metadata plays no part in comparison."""

    __slots__ = ("major", "minor", "order", "patch", "text")
    type_name: ClassVar[str] = "kubernetes.Semver"

    def __init__(self, numbers: tuple[int, int, int], prerelease: tuple[str, ...], text: str) -> None:
        self.major, self.minor, self.patch = numbers
        self.text = text
        # Numbers sort before words, no prerelease after any.
        pieces = tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in prerelease)
        self.order = (*numbers, 0 if prerelease else 1, pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.order == other.order

    def __lt__(self, other: Semver) -> bool:
        return self.order < other.order

    def __hash__(self) -> int:
        return hash(self.order)

    def __str__(self) -> str:
        return self.text


def _number(text: str, what: str) -> int:
    if not _NUMBERS.fullmatch(text):
        raise EvalError(f"Invalid character(s) found in {what.lower()} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise EvalError(f"{what} number must not contain leading zeroes {quote(text)}")
    if not text:
        raise EvalError('strconv.ParseUint: parsing "": invalid syntax')
    if len(text) > 20 or int(text) > MAX_UINT:
        raise EvalError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return int(text)


def parse(text: str, normalize: bool = False) -> Semver:
    """Version of a text; EvalError when it is none. `normalize` admits `v`, leading zeros and short forms."""
    if normalize:
        text = _normalized(text)
    if not text:
        raise EvalError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise EvalError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "Major"), _number(parts[1], "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, dash, prerelease = rest.partition("-")
    number = _number(patch, "Patch")
    pieces = tuple(prerelease.split(".")) if dash else ()
    for piece in pieces:
        _check_prerelease(piece)
    for piece in build.split(".") if plus else ():
        if not piece:
            raise EvalError("Build meta data is empty")
        if not _WORD.fullmatch(piece):
            raise EvalError(f"Invalid character(s) found in build meta data {quote(piece)}")
    return Semver((major, minor, number), pieces, text)


def _check_prerelease(piece: str) -> None:
    if not piece:
        raise EvalError("Prerelease is empty")
    if _NUMBERS.fullmatch(piece):
        if len(piece) > 1 and piece[0] == "0":
            raise EvalError(f"Numeric PreRelease version must not contain leading zeroes {quote(piece)}")
        if len(piece) > 20 or int(piece) > MAX_UINT:
            raise EvalError(f"strconv.ParseUint: parsing {quote(piece)}: value out of range")
    elif not _WORD.fullmatch(piece):
        raise EvalError(f"Invalid character(s) found in prerelease {quote(piece)}")


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for at, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            if not stripped or stripped[0] not in "0123456789":
                stripped = "0" + stripped
            parts[at] = stripped
    if len(parts) < 3:
        if "+" in parts[-1] or "-" in parts[-1]:
            raise EvalError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        parse(text, normalize)
    except EvalError:
        return False
    return True


def functions() -> Iterable[Function]:
    """All functions of the library."""
    both = [SEMVER, SEMVER]
    yield Function(
        "semver",
        [
            Overload("string_to_semver", [STRING], SEMVER, parse),
            Overload("string_bool_to_semver", [STRING, BOOL], SEMVER, parse),
        ],
    )
    yield Function(
        "isSemver",
        [
            Overload("is_semver_string", [STRING], BOOL, _is_semver),
            Overload("is_semver_string_bool", [STRING, BOOL], BOOL, _is_semver),
        ],
    )
    for name, id, result, run in (
        ("isGreaterThan", "semver_is_greater_than", BOOL, lambda a, b: a > b),
        ("isLessThan", "semver_is_less_than", BOOL, lambda a, b: a < b),
        ("compareTo", "semver_compare_to", INT, lambda a, b: (a > b) - (a < b)),
    ):
        yield Function(name, [Overload(id, both, result, run, is_member=True)])
    for name, read in (
        ("major", lambda v: v.major),
        ("minor", lambda v: v.minor),
        ("patch", lambda v: v.patch),
    ):
        yield Function(name, [Overload(f"semver_{name}", [SEMVER], INT, read, is_member=True)])
