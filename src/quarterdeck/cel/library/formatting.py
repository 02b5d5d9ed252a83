"""`string.format`: clauses, their checks, and how values print in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final, NamedTuple

from quarterdeck.cel.error import CostLimitExceeded, EvalError
from quarterdeck.cel.library.conversion import to_string
from quarterdeck.cel.value.value import (
    MOST_TEXT,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    check_extent,
    type_name,
)
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire.gostyle import quote

_PRECISION: Final = 6


class Clause(NamedTuple):
    """One `%` clause of a format string."""

    letter: str
    precision: int | None


class FormatProblem(QuarterdeckError):
    """A malformed clause."""


def clauses(text: str) -> Iterator[str | Clause]:
    """Literal pieces and clauses in order; FormatProblem at a malformed clause."""
    at, end = 0, len(text)
    while at < end:
        if text[at] != "%":
            stop = text.find("%", at)
            stop = end if stop < 0 else stop
            yield text[at:stop]
            at = stop
            continue
        if text.startswith("%%", at):
            yield "%"
            at += 2
            continue
        yield _Need()
        if at + 1 >= end:
            raise FormatProblem("unexpected end of string")
        at += 1
        precision = None
        if text[at] == ".":
            stop = at + 1
            while stop < end and text[stop] in "0123456789":
                stop += 1
            if stop >= end:
                raise FormatProblem(
                    "could not parse formatting clause: error while parsing precision: "
                    "could not find end of precision specifier"
                )
            digits = text[at + 1 : stop]
            if not digits:
                raise FormatProblem(
                    "could not parse formatting clause: error while parsing precision: error while "
                    "converting "
                    'precision to integer: strconv.Atoi: parsing "": invalid syntax'
                )
            precision, at = min(int(digits), 1000), stop
        letter = text[at]
        if letter not in "sdfebxXo":
            raise FormatProblem(
                f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
            )
        yield Clause(letter, precision)
        at += 1


class _Need(str):
    """Marks that an argument is about to be taken: it must exist before the clause is looked at."""

    __slots__ = ()


def is_need(piece: str | Clause) -> bool:
    """Whether a piece only says that an argument comes next."""
    return isinstance(piece, _Need)


def format_string(text: str, args: list[Value]) -> str:
    """`text.format(args)`."""
    pieces: list[str] = []
    index = length = 0
    check_extent(args)
    try:
        for piece in clauses(text):
            if isinstance(piece, _Need):
                if index >= len(args):
                    raise EvalError(f"index {index} out of range")
            elif isinstance(piece, Clause):
                try:
                    pieces.append(_FORMATTERS[piece.letter](args[index], piece))
                except EvalError as problem:
                    raise EvalError(f"error during formatting: {problem.message}") from problem
                index += 1
                length += len(pieces[-1])
                if length > MOST_TEXT:
                    raise CostLimitExceeded
            else:
                pieces.append(piece)
    except FormatProblem as problem:
        raise EvalError(str(problem)) from problem
    return "".join(pieces)


def complaint(letter: str, given: str) -> str:
    """Text for an argument of a type the clause does not take."""
    return f"{_COMPLAINTS[letter]}, was given {given}"


_COMPLAINTS: Final = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}


def _refuse(value: Value, clause: Clause) -> EvalError:
    return EvalError(complaint(clause.letter, type_name(value)))


def _string(value: Value, clause: Clause) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return _list(value)
    if isinstance(value, dict):
        return _map(value)
    if isinstance(value, TypeValue):
        return value.name
    if type(value) in (str, bool, int, UInt, float, bytes, Timestamp, Duration):
        return to_string(value)
    raise _refuse(value, clause)


def _list(items: list[Value]) -> str:
    return "[" + ", ".join(_nested(item) for item in items) + "]"


def _map(entries: dict[Value, Value]) -> str:
    pairs = []
    for key, value in entries.items():
        if type(key) not in (str, bool, int, UInt):
            raise EvalError(f"no formatting function for map key of type {type_name(key)}")
        pairs.append((_nested(key), _nested(value)))
    return "{" + ", ".join(f"{key}:{value}" for key, value in sorted(pairs, key=lambda p: p[0])) + "}"


def _nested(value: Value) -> str:
    """A value inside a list or map."""
    kind = type(value)
    if kind is str:
        return quote(value)
    if kind is bytes:
        return "b" + quote(to_string(value))
    if kind is Timestamp:
        return f'timestamp("{value}")'
    if kind is Duration:
        return f'duration("{value}")'
    if kind is float:
        if math.isnan(value) or math.isinf(value):
            return quote({math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN"))
        return f"{value:.6f}"
    if kind is bool or value is None or kind in (int, UInt, TypeValue) or isinstance(value, (list, dict)):
        return _string(value, Clause("s", None))
    raise EvalError(f"no formatting function for {type_name(value)}")


def _decimal(value: Value, clause: Clause) -> str:
    if type(value) in (int, UInt):
        return str(int(value))
    raise _refuse(value, clause)


_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _number(value: Value, clause: Clause) -> float:
    if type(value) is float:
        return float(value)
    if type(value) is str and value in _SPECIAL:
        return _SPECIAL[value]
    raise _refuse(value, clause)


def _unusual(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return None


def _fixed(value: Value, clause: Clause) -> str:
    number = _number(value, clause)
    places = _PRECISION if clause.precision is None else clause.precision
    return _unusual(number) or f"{number:,.{places}f}"


_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(value: Value, clause: Clause) -> str:
    number = _number(value, clause)
    unusual = _unusual(number)
    if unusual is not None:
        return _padded(unusual, clause)
    exact = Decimal(number)
    exponent = exact.adjusted() if exact else 0
    mantissa = exact.scaleb(-exponent).quantize(Decimal(1).scaleb(-_PRECISION), rounding=ROUND_HALF_EVEN)
    if abs(mantissa) >= 10:
        exponent += 1
        mantissa = exact.scaleb(-exponent).quantize(Decimal(1).scaleb(-_PRECISION), rounding=ROUND_HALF_EVEN)
    power = f"{'-' if exponent < 0 else ''}{abs(exponent):02d}".translate(_SUPERSCRIPT)
    return _padded(f"{mantissa}×10{power}", clause)


def _padded(text: str, clause: Clause) -> str:
    # Upstream passes the precision on as the width.
    return text.rjust(_PRECISION if clause.precision is None else clause.precision)


def _binary(value: Value, clause: Clause) -> str:
    if type(value) is bool:
        return "1" if value else "0"
    if type(value) in (int, UInt):
        return format(int(value), "b")
    raise _refuse(value, clause)


def _hex(value: Value, clause: Clause) -> str:
    if type(value) in (int, UInt):
        return format(int(value), clause.letter)
    if type(value) is str:
        value = value.encode("utf-8", "surrogatepass")
    if type(value) is bytes:
        text = value.hex()
        return text.upper() if clause.letter == "X" else text
    raise _refuse(value, clause)


def _octal(value: Value, clause: Clause) -> str:
    if type(value) in (int, UInt):
        return format(int(value), "o")
    raise _refuse(value, clause)


_FORMATTERS: Final[dict[str, Callable[[Value, Clause], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _hex,
    "o": _octal,
}
