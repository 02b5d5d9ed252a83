"""Resource quantities: ``100m``, ``1.5Gi``, ``2e3``.

A ``Quantity`` is an exact number with a preferred notation. It keeps the text it was read from and
writes that text back while it is untouched; arithmetic gives a new quantity in canonical form. Numbers
are held as integers of 10⁻⁹, the smallest amount Kubernetes knows; anything finer is rounded away from
zero when parsed, as upstream does. Parsing is lazy: decoding a Pod does not pay for quantities that
nobody looks at, and malformed text raises when it is first used.

Equality and order are by value: ``Quantity("1") == Quantity("1000m")``.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from fractions import Fraction
from typing import Any, Final, NamedTuple, Self

from quarterdeck.api.frozen import FrozenMap

_NANO: Final = 10**9
_MAX_BINARY: Final = ((1 << 63) - 1) * _NANO
_MAX_EXPONENT: Final = 1000  # keeps hostile input such as 1e999999999 from filling memory
_NUMBER: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_SUFFIX: Final = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]+)")

_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_BY_POWER: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX_WRONG: Final = "unable to parse quantity's suffix"


class QuantityFormat(Enum):
    """The notation a quantity prefers when it is written."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity:
    """An exact amount of some resource.

    >>> str(Quantity("1500m") + Quantity("0.5"))
    '2'
    >>> str(Quantity("1Gi") + "512Mi")
    '1536Mi'
    >>> Quantity("2500m").value
    3
    """

    __slots__ = ("_format", "_nano", "_text")

    _text: str | int | float | None
    _nano: int | None
    _format: QuantityFormat

    def __init__(self, text: "str | int | float | Quantity" = 0) -> None:
        if isinstance(text, Quantity):
            self._text, self._nano, self._format = text._text, text._parsed(), text._format
            return
        self._text = text
        self._nano = None

    @classmethod
    def from_wire(cls, value: Any) -> Self:
        """Read a JSON string or number; the text is checked when it is first used."""
        if type(value) not in (str, int, float):
            raise ValueError("Expected a quantity")
        made = cls.__new__(cls)
        made._text = value
        made._nano = None
        return made

    @classmethod
    def of_nano(cls, nano: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Self:
        """A quantity of so many 10⁻⁹."""
        made = cls.__new__(cls)
        made._text, made._nano, made._format = None, nano, format
        return made

    @classmethod
    def of_milli(cls, milli: int, format: QuantityFormat = QuantityFormat.DECIMAL_SI) -> Self:
        """A quantity of so many thousandths."""
        return cls.of_nano(milli * 10**6, format)

    @classmethod
    def of_bytes(cls, count: int) -> Self:
        """A whole number that prefers binary suffixes."""
        return cls.of_nano(count * _NANO, QuantityFormat.BINARY_SI)

    def to_wire(self) -> str | int | float:
        """What is written: the original text if untouched, else the canonical form."""
        return self._text if self._text is not None else self.canonical()

    def _parsed(self) -> int:
        if self._nano is None:
            self._nano, self._format = _parse(str(self._text))
        return self._nano

    @property
    def format(self) -> QuantityFormat:
        """The notation it was written in."""
        self._parsed()
        return self._format

    @property
    def nano(self) -> int:
        """The exact amount in 10⁻⁹."""
        return self._parsed()

    @property
    def value(self) -> int:
        """The amount rounded up to a whole number (away from zero, as upstream's ``Value()``)."""
        return _scale_up(self._parsed(), _NANO)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded up."""
        return _scale_up(self._parsed(), 10**6)

    def as_fraction(self) -> Fraction:
        """The exact value as a fraction."""
        return Fraction(self._parsed(), _NANO)

    def is_valid(self) -> bool:
        """Whether the text is a quantity at all."""
        try:
            self._parsed()
        except ValueError:
            return False
        return True

    def canonical(self) -> str:
        """The form the API server stores: no fraction, the largest suffix that keeps the value exact."""
        return canonical_text(self._parsed(), self._format)

    def __str__(self) -> str:
        return str(self.to_wire())

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __bool__(self) -> bool:
        return self._parsed() != 0

    def __hash__(self) -> int:
        return hash(self._parsed())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity | int | str) or isinstance(other, bool):
            return NotImplemented
        try:
            return self._parsed() == _nano_of(other)
        except ValueError:
            # Malformed text equals only the same malformed text.
            return isinstance(other, Quantity) and self._text == other._text

    def __lt__(self, other: "Quantity | int | str") -> bool:
        return self._parsed() < _nano_of(other)

    def __le__(self, other: "Quantity | int | str") -> bool:
        return self._parsed() <= _nano_of(other)

    def __gt__(self, other: "Quantity | int | str") -> bool:
        return self._parsed() > _nano_of(other)

    def __ge__(self, other: "Quantity | int | str") -> bool:
        return self._parsed() >= _nano_of(other)

    def __add__(self, other: "Quantity | int | str") -> "Quantity":
        return self._combine(Quantity(other), 1)

    __radd__ = __add__

    def __sub__(self, other: "Quantity | int | str") -> "Quantity":
        return self._combine(Quantity(other), -1)

    def _combine(self, other: "Quantity", sign: int) -> "Quantity":
        mine, theirs = self._parsed(), other._parsed()
        # Upstream: a zero takes over the notation of what is added to it.
        format = self._format if mine else other._format
        return Quantity.of_nano(mine + sign * theirs, format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity.of_nano(self._parsed() * factor, self._format)

    __rmul__ = __mul__

    def __neg__(self) -> "Quantity":
        return Quantity.of_nano(-self._parsed(), self._format)


def _nano_of(value: "Quantity | int | str") -> int:
    return value._parsed() if isinstance(value, Quantity) else Quantity(value)._parsed()


def _scale_up(nano: int, unit: int) -> int:
    return -(-nano // unit) if nano >= 0 else nano // unit


def _parse(text: str) -> tuple[int, QuantityFormat]:
    return amount_of(split_text(text))


class QuantityParts(NamedTuple):
    """A quantity's text taken apart: ``whole.fraction`` times ``base`` to the power of ``exponent``."""

    negative: bool
    whole: str
    fraction: str
    base: int
    exponent: int
    format: QuantityFormat


def split_text(text: str) -> QuantityParts:
    """Take a text apart; raises ``ValueError`` in the API server's words."""
    match = _NUMBER.fullmatch(text)
    if not text or match is None:
        raise ValueError(FORMAT_WRONG)
    sign, whole, fraction, suffix = match.group(1), match.group(2), match.group(3) or "", match.group(4)
    if suffix and _SUFFIX.fullmatch(suffix) is None:
        raise ValueError(FORMAT_WRONG)
    return QuantityParts(sign == "-", whole, fraction, *_interpret(suffix))


def amount_of(parts: QuantityParts) -> tuple[int, QuantityFormat]:
    """The amount in 10⁻⁹, rounded away from zero, and the notation it is kept in."""
    format = parts.format
    digits = int(parts.whole + parts.fraction or "0")  # upstream's scanner takes missing digits for zero
    numerator, denominator = digits * _NANO, 10 ** len(parts.fraction)
    if parts.base == 2:
        numerator <<= parts.exponent
    elif parts.exponent >= 0:
        numerator *= 10**parts.exponent
    else:
        denominator *= 10**-parts.exponent
    nano = -(-numerator // denominator)
    if format is QuantityFormat.BINARY_SI:
        nano = min(nano, _MAX_BINARY)
        if 0 < nano < _NANO:
            format = QuantityFormat.DECIMAL_SI
    return (-nano if parts.negative else nano), format


def canonical_text(nano: int, format: QuantityFormat) -> str:
    """An amount of 10⁻⁹ in the form the API server stores."""
    if nano == 0:
        return "0"
    if format is QuantityFormat.BINARY_SI and abs(nano) >= 1024 * _NANO and nano % _NANO == 0:
        number, power = nano // _NANO, 0
        while number % 1024 == 0 and power < len(_BINARY_BY_POWER) - 1:
            number //= 1024
            power += 1
        return f"{number}{_BINARY_BY_POWER[power]}"
    number, exponent = nano, -9
    highest = 18 if format is not QuantityFormat.DECIMAL_EXPONENT else None
    while number % 1000 == 0 and (highest is None or exponent < highest):
        number //= 1000
        exponent += 3
    if format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_BY_EXPONENT[exponent]}"


def _interpret(suffix: str) -> tuple[int, int, QuantityFormat]:
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], QuantityFormat.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], QuantityFormat.BINARY_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match.group(1)) > 6:
        raise ValueError(_SUFFIX_WRONG)
    exponent = int(match.group(1))
    if abs(exponent) > _MAX_EXPONENT:
        raise ValueError(_SUFFIX_WRONG)
    return 10, exponent, QuantityFormat.DECIMAL_EXPONENT


def sum_quantities(lists: Iterable[Mapping[str, Quantity]]) -> FrozenMap[str, Quantity]:
    """Sum of many resource lists, name by name, in order of first appearance."""
    total: dict[str, Quantity] = {}
    for resources in lists:
        for name, amount in resources.items():
            total[name] = total[name] + amount if name in total else amount
    return FrozenMap(total)


def max_quantities(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> FrozenMap[str, Quantity]:
    """The larger amount of each name, as init containers and containers combine."""
    total = dict(left)
    for name, amount in right.items():
        if name not in total or amount > total[name]:
            total[name] = amount
    return FrozenMap(total)
