"""Resource quantities: exact decimal arithmetic with the representations Kubernetes keeps.

A quantity is an int64 times a power of ten while that is enough, else a big decimal; `isInteger` and
`asInteger` look at the representation, so `quantity("1.0")` is no integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import ClassVar, Final

from quarterdeck.cel.declaration import Function, Overload
from quarterdeck.cel.error import EvalError
from quarterdeck.cel.type.celtype import BOOL, DOUBLE, INT, STRING, object_type
from quarterdeck.cel.value.value import MAX_INT, MIN_INT, Opaque
from quarterdeck.errors import QuarterdeckError

QUANTITY: Final = object_type("kubernetes.Quantity")

_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_NUMERIC: Final = "unable to parse numeric part of quantity"
_SUFFIX: Final = "unable to parse quantity's suffix"
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MAX_DIGITS: Final = 18
_DIGITS: Final = frozenset("0123456789")
_MAX_EXPONENT: Final = 10_000


class Quantity(Opaque):
    """`value` is exact; `scaled` is (int64, power of ten) while that representation is kept."""

    __slots__ = ("scaled", "value")
    type_name: ClassVar[str] = "kubernetes.Quantity"

    def __init__(self, value: Fraction, scaled: tuple[int, int] | None) -> None:
        self.value = value
        self.scaled = scaled

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __str__(self) -> str:
        return str(self.value)

    @classmethod
    def of_scaled(cls, value: int, scale: int) -> Quantity:
        """An int64 times a power of ten."""
        return cls(Fraction(value) * Fraction(10) ** scale, (value, scale))


class _Unparsable(QuarterdeckError):
    pass


def parse(text: str) -> Quantity:
    """Quantity of a text such as `500m` or `2Gi`; EvalError when it is none."""
    try:
        return _parse(text)
    except _Unparsable as problem:
        raise EvalError(str(problem)) from problem


def _parse(text: str) -> Quantity:
    if not text:
        raise _Unparsable(_FORMAT)
    if text == "0":
        return Quantity.of_scaled(0, 0)
    positive, number, fraction, suffix, shown = _split(text)
    if suffix in _DECIMAL:
        base, exponent, is_binary = 10, _DECIMAL[suffix], False
    elif suffix in _BINARY:
        base, exponent, is_binary = 2, _BINARY[suffix], True
    else:
        base, exponent, is_binary = 10, _exponent(suffix), False
    scaled = _small(positive, number, fraction, exponent, is_binary)
    if scaled is not None:
        return Quantity.of_scaled(*scaled)
    return _big(shown, fraction, base, exponent, is_binary)


def _exponent(suffix: str) -> int:
    if len(suffix) < 2 or suffix[0] not in "eE":
        raise _Unparsable(_SUFFIX)
    digits = suffix[1:].removeprefix("+") if suffix[1] == "+" else suffix[1:]
    if not digits.removeprefix("-").isdigit() or abs(int(digits)) > _MAX_EXPONENT:
        raise _Unparsable(_SUFFIX)
    return int(digits)


def _split(text: str) -> tuple[bool, str, str, str, str]:
    """Sign, numerator without leading zeros, fraction digits, suffix, and the text before the suffix."""
    at = 1 if text[0] in "+-" else 0
    positive = text[0] != "-"
    end = len(text)
    while at < end and text[at] == "0":
        at += 1
    if at >= end:
        return positive, "0", "", "", "0"
    start = at
    while at < end and text[at] in _DIGITS:
        at += 1
    number = text[start:at] or "0"
    if at >= end:
        return positive, number, "", "", text
    fraction = ""
    if text[at] == ".":
        start = at + 1
        at = start
        while at < end and text[at] in _DIGITS:
            at += 1
        fraction = text[start:at]
        if at >= end:
            return positive, number, fraction, "", text
    shown, start = text[:at], at
    while at < end and text[at] in "eEinumkKMGTP":
        at += 1
    if at < end and text[at] in "+-":
        at += 1
    while at < end and text[at] in _DIGITS:
        at += 1
    if at < end:
        raise _Unparsable(_FORMAT)
    return positive, number, fraction, text[start:], shown


def _small(
    positive: bool, number: str, fraction: str, exponent: int, is_binary: bool
) -> tuple[int, int] | None:
    """The int64 representation, when there is room for it."""
    factor, scale = 1, exponent
    if is_binary:
        if fraction:
            return None
        factor, scale = 1 << exponent, 0
        precision = 15 - len(number) - int(exponent * 3 / 10) - 1
    else:
        precision = _MAX_DIGITS - len(number) - len(fraction)
    scale -= len(fraction)
    if precision < 0 or scale < -9:
        return None
    value = int(number + fraction) * factor
    if value > MAX_INT:
        return None
    return (value if positive else -value), scale


def _big(shown: str, fraction: str, base: int, exponent: int, is_binary: bool) -> Quantity:
    digits = shown.lstrip("+-")
    if not digits.replace(".", "", 1).isdigit():
        raise _Unparsable(_NUMERIC)
    amount = Fraction(int(digits.replace(".", "")), 10 ** len(fraction)) * Fraction(base) ** exponent
    nanos = amount * 10**9
    rounded = Fraction(-(-nanos.numerator // nanos.denominator), 10**9)
    if is_binary and rounded > MAX_INT:
        rounded = Fraction(MAX_INT)
    return Quantity(-rounded if shown.startswith("-") else rounded, None)


def _is_quantity(text: str) -> bool:
    try:
        _parse(text)
    except _Unparsable:
        return False
    return True


def _integer(quantity: Quantity) -> int | None:
    if quantity.scaled is None or quantity.scaled[1] < 0:
        return None
    value = int(quantity.value)
    return value if MIN_INT <= value <= MAX_INT else None


def _as_integer(quantity: Quantity) -> int:
    value = _integer(quantity)
    if value is None:
        raise EvalError("cannot convert value to integer")
    return value


def _as_float(quantity: Quantity) -> float:
    if quantity.scaled is not None:
        value, scale = quantity.scaled
        if scale == 0:
            return float(value)
        try:
            return float(value) * 10.0**scale
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return float(quantity.value)


def _compare(left: Quantity, right: Quantity) -> int:
    return (left.value > right.value) - (left.value < right.value)


def _add(left: Quantity, right: Quantity) -> Quantity:
    scaled = None
    if left.scaled is not None and right.scaled is not None:
        scaled = _add_scaled(left.scaled, right.scaled)
    return Quantity(left.value + right.value, scaled)


def _add_scaled(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int] | None:
    if right[0] == 0:
        return left
    if left[0] == 0:
        return right
    scale = min(left[1], right[1])
    if max(left[1], right[1]) - scale > 40:
        return None
    parts = [value * 10 ** (own - scale) for value, own in (left, right)]
    total = sum(parts)
    if any(not MIN_INT <= part <= MAX_INT for part in (*parts, total)):
        return None
    return total, scale


def _sub(left: Quantity, right: Quantity) -> Quantity:
    scaled = None if right.scaled is None else (-right.scaled[0], right.scaled[1])
    return _add(left, Quantity(-right.value, scaled))


def _of_int(number: int) -> Quantity:
    return Quantity.of_scaled(number, 0)


def functions() -> Iterable[Function]:
    """All functions of the library."""
    both = [QUANTITY, QUANTITY]
    yield Function("quantity", [Overload("string_to_quantity", [STRING], QUANTITY, parse)])
    yield Function("isQuantity", [Overload("is_quantity_string", [STRING], BOOL, _is_quantity)])
    yield Function("sign", [Overload("quantity_sign", [QUANTITY], INT, lambda q: _compare(q, _of_int(0)))])
    for name, id, result, run in (
        ("isGreaterThan", "quantity_is_greater_than", BOOL, lambda a, b: a.value > b.value),
        ("isLessThan", "quantity_is_less_than", BOOL, lambda a, b: a.value < b.value),
        ("compareTo", "quantity_compare_to", INT, _compare),
    ):
        yield Function(name, [Overload(id, both, result, run, is_member=True)])
    yield Function(
        "asApproximateFloat", [Overload("quantity_get_float", [QUANTITY], DOUBLE, _as_float, is_member=True)]
    )
    yield Function("asInteger", [Overload("quantity_get_int", [QUANTITY], INT, _as_integer, is_member=True)])
    yield Function(
        "isInteger",
        [
            Overload(
                "quantity_is_integer", [QUANTITY], BOOL, lambda q: _integer(q) is not None, is_member=True
            )
        ],
    )
    for name, run in (("add", _add), ("sub", _sub)):
        with_int = _with_int(run)
        yield Function(
            name,
            [
                Overload(f"quantity_{name}", both, QUANTITY, run, is_member=True),
                Overload(f"quantity_{name}_int", [QUANTITY, INT], QUANTITY, with_int, is_member=True),
            ],
        )


def _with_int(run: Callable[[Quantity, Quantity], Quantity]) -> Callable[[Quantity, int], Quantity]:
    return lambda quantity, number: run(quantity, _of_int(number))
