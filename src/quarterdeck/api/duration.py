"""Durations in Go's notation: ``4h0m0s``, ``1m30s``, ``250ms``.

Like quantities, durations keep their text while untouched and parse lazily. Amounts are whole
nanoseconds.
"""

import re
from typing import Any, Final, Self

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,  # Go accepts both micro signs (U+00B5 and U+03BC)
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_LIMIT: Final = (1 << 63) - 1


class Duration:
    """A span of time with Go's text form.

    >>> Duration("1h30m").seconds
    5400.0
    >>> str(Duration.of(seconds=14400))
    '4h0m0s'
    """

    __slots__ = ("_nanos", "_text")

    _text: str | None
    _nanos: int | None

    def __init__(self, text: str) -> None:
        self._text = text
        self._nanos = None

    @classmethod
    def of(cls, seconds: float = 0, *, nanoseconds: int = 0) -> Self:
        """A duration from numbers."""
        made = cls.__new__(cls)
        made._text = None
        made._nanos = round(seconds * 1_000_000_000) + nanoseconds
        return made

    @classmethod
    def from_wire(cls, value: Any) -> Self:
        """Read a JSON string; the text is checked when it is first used."""
        if not isinstance(value, str):
            raise ValueError("Expected a duration such as `1m30s`")
        return cls(value)

    def to_wire(self) -> str:
        """The original text if untouched, else Go's form."""
        return str(self)

    @property
    def nanoseconds(self) -> int:
        """The exact length; raises ``ValueError`` for text that is not a duration."""
        if self._nanos is None:
            self._nanos = parse_duration(self._text or "")
        return self._nanos

    @property
    def seconds(self) -> float:
        """The length in seconds."""
        return self.nanoseconds / 1_000_000_000

    def __str__(self) -> str:
        return self._text if self._text is not None else _format(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __hash__(self) -> int:
        return hash(self.nanoseconds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Duration):
            return NotImplemented
        return self._text == other._text if self._text and other._text else _equal(self, other)

    def __lt__(self, other: "Duration") -> bool:
        return self.nanoseconds < other.nanoseconds

    def __le__(self, other: "Duration") -> bool:
        return self.nanoseconds <= other.nanoseconds


def _equal(left: Duration, right: Duration) -> bool:
    return left.nanoseconds == right.nanoseconds


def parse_duration(text: str) -> int:
    """Nanoseconds, as Go's ``time.ParseDuration`` reads them; raises ``ValueError`` in its words."""
    rest, is_negative = text, False
    if rest[:1] in ("+", "-"):
        is_negative = rest[0] == "-"
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f'time: invalid duration "{text}"')
    total, at = 0, 0
    while at < len(rest):
        match = _PART.match(rest, at)
        if match is None or not (match[1] or match[2]):
            raise ValueError(_complaint(text, rest[at:]))
        unit = _UNITS[match[3]]
        whole = match[1].lstrip("0")
        if len(whole) > len(str(_LIMIT)):
            raise ValueError(f'time: invalid duration "{text}"')
        total += int(whole or 0) * unit
        if match[2]:
            total += _fraction(match[2], unit)
        if total > 1 << 63:
            raise ValueError(f'time: invalid duration "{text}"')
        at = match.end()
    if is_negative:
        return -total
    if total > _LIMIT:
        raise ValueError(f'time: invalid duration "{text}"')
    return total


def _fraction(digits: str, unit: int) -> int:
    """The part of a unit behind the point, rounded as Go does: by floating point."""
    number, scale = 0, 1.0
    for digit in digits:
        longer = number * 10 + int(digit)
        if longer > 1 << 63:
            break  # Go leaves out the digits that do not fit
        number, scale = longer, scale * 10
    return int(number * (unit / scale))


def _complaint(text: str, rest: str) -> str:
    number = re.match(r"\d*\.?\d*", rest)
    consumed = number.group(0) if number else ""
    if not consumed or consumed == ".":
        return f'time: invalid duration "{text}"'
    unit = re.match(r"[^0-9.]*", rest[len(consumed) :])
    name = unit.group(0) if unit else ""
    if not name:
        return f'time: missing unit in duration "{text}"'
    return f'time: unknown unit "{name}" in duration "{text}"'


def _format(nanos: int) -> str:
    if nanos == 0:
        return "0s"
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    if nanos < 1_000:
        return f"{sign}{nanos}ns"
    if nanos < 1_000_000:
        return f"{sign}{_decimal(nanos, 1_000)}µs"
    if nanos < 1_000_000_000:
        return f"{sign}{_decimal(nanos, 1_000_000)}ms"
    minutes, rest = divmod(nanos, 60_000_000_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest, 1_000_000_000)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")
