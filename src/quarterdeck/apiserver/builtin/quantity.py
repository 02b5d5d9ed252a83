"""Resource quantities (`500m`, `1Gi`, `2e3`): exact values and the canonical text.

A quantity is kept as an integer number of billionths, the finest step Kubernetes knows; sums and
comparisons are then plain integer arithmetic. `canonical` gives the text the API server shows for
what a client sent, including its habit of leaving some already tidy texts alone (`1.500`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

NANO: Final = 1_000_000_000
MILLI: Final = 1_000_000  # billionths in a thousandth

_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()}
_LARGEST_BINARY: Final = (2**63 - 1) * NANO

_match = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[+-]?\d*)", re.ASCII).fullmatch

SI: Final = "DecimalSI"
BINARY: Final = "BinarySI"
EXPONENT: Final = "DecimalExponent"


class Quantity(NamedTuple):
    """`nanos` billionths; `format` is one of SI, BINARY, EXPONENT; `text` what the server shows."""

    nanos: int
    format: str
    text: str

    @property
    def value(self) -> int:
        """Rounded up to a whole number."""
        return -(-self.nanos // NANO)

    @property
    def milli(self) -> int:
        """Rounded up to thousandths."""
        return -(-self.nanos // MILLI)


ZERO: Final = Quantity(0, SI, "0")


class QuantityError(ValueError):
    """The text is not a quantity; the message is the API server's."""


WRONG_FORMAT: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


def parse(source: Any) -> Quantity:
    """The quantity in a JSON string or number; raises QuantityError."""
    if type(source) is str:
        return _parse(source) if len(source) <= 64 else _parse.__wrapped__(source)
    if source is None:
        return ZERO
    return _parse(repr(source))


@lru_cache(maxsize=16384)
def _parse(source: str) -> Quantity:
    text = source.strip()
    if text == "0":
        return ZERO
    if text.isdecimal() and text.isascii() and len(text) <= 18 and text[0] != "0":
        # the fast path: a plain whole number
        nanos = int(text) * NANO
        return Quantity(nanos, SI, format_text(nanos, SI) if text.endswith("000") else text)
    found = _match(text)
    if not found or not text:
        raise QuantityError(WRONG_FORMAT)
    sign, whole, fraction, suffix = found.groups()
    interpreted = _interpret(suffix)
    if interpreted is None:
        raise QuantityError(_WRONG_SUFFIX)
    base, exponent, form = interpreted
    return _from_parts(text, sign == "-", whole.lstrip("0") or "0", fraction or "", (base, exponent, form))


def _interpret(suffix: str) -> tuple[int, int, str] | None:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], BINARY
    if suffix[:1] in ("e", "E"):
        digits = suffix[1:]
        unsigned = digits.lstrip("+-")
        if unsigned.isdecimal() and len(digits) - len(unsigned) <= 1 and len(unsigned) <= 9:
            return 10, int(digits), EXPONENT
    return None


def _from_parts(
    text: str, negative: bool, whole: str, fraction: str, suffix: tuple[int, int, str]
) -> Quantity:
    base, exponent, form = suffix
    digits = whole + fraction
    number = int(digits)
    if base == 2:
        scaled = (number << exponent) * NANO
        places = len(fraction)
    else:
        places = len(fraction) - exponent - 9
        scaled = number
        if places < 0:
            scaled *= 10 ** min(-places, 400)
            places = 0
    nanos = -(-scaled // 10**places) if places else scaled
    tidy = False
    if base == 2:
        if not fraction and 15 - len(whole) - int(exponent * 3 / 10) - 1 >= 0:
            tidy = bool(number & 7)
        elif nanos > _LARGEST_BINARY:
            nanos = _LARGEST_BINARY
        elif 0 < nanos < NANO:
            form = SI
    elif len(digits) <= 18:
        scale = exponent - len(fraction)
        tidy = scale >= -9 and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if negative:
        nanos = -nanos
    return Quantity(nanos, form, text if tidy else format_text(nanos, form))


def format_text(nanos: int, form: str) -> str:
    """The canonical text of a value."""
    if nanos == 0:
        return "0"
    if form == BINARY and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        value = nanos // NANO
        exponent = 0
        while value % 1024 == 0 and exponent < 60:
            value //= 1024
            exponent += 10
        return f"{value}{_BINARY_SUFFIX[exponent] if exponent else ''}"
    exponent = -9
    while nanos % 1000 == 0 and exponent < 18:
        nanos //= 1000
        exponent += 3
    if form == EXPONENT:
        while nanos % 1000 == 0:
            nanos //= 1000
            exponent += 3
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def canonical(source: Any) -> str:
    """The text the server shows; what is no quantity is returned unchanged."""
    try:
        return parse(source).text
    except QuantityError:
        return str(source)


@lru_cache(maxsize=16384)
def _rounded(source: str) -> str:
    try:
        quantity = _parse(source)
    except QuantityError:
        return source
    if quantity.nanos % MILLI == 0:
        return quantity.text
    return format_text(quantity.milli * MILLI, quantity.format)


def round_list(resources: dict[str, Any]) -> None:
    """Canonicalise a resource list in place; fractions below a thousandth are rounded up."""
    for name, source in resources.items():
        text = source if type(source) is str else ("0" if source is None else repr(source))
        text = _rounded(text) if len(text) <= 64 else _rounded.__wrapped__(text)
        if text is not source:
            resources[name] = text


def nanos_of(source: Any) -> int:
    """The exact value in billionths; what is no quantity counts as 0."""
    try:
        return parse(source).nanos
    except QuantityError:
        return 0


def add(left: Any, right: Any) -> str:
    """The sum as text, in the format of the first operand unless that is zero."""
    one, two = parse(left), parse(right)
    return format_text(one.nanos + two.nanos, one.format if one.nanos else two.format)


def sum_lists(lists: Iterable[Mapping[str, Any]]) -> dict[str, Quantity]:
    """Resource lists added up name by name."""
    total: dict[str, Quantity] = {}
    for resources in lists:
        for name, source in resources.items():
            quantity = parse(source)
            if (seen := total.get(name)) is None:
                total[name] = quantity
            else:
                form = seen.format if seen.nanos else quantity.format
                nanos = seen.nanos + quantity.nanos
                total[name] = Quantity(nanos, form, format_text(nanos, form))
    return total
