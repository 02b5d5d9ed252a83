"""Resource quantities (`500m`, `1Gi`, `2e3`) of stored objects: exact values and the canonical text.

What a quantity is, is in `quarterdeck.api.quantity`. Here is what a server needs beside that: values of many
objects, fast, and the text the API server shows for what a client sent, including its habit of leaving some
already tidy texts alone (`1.500`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

from quarterdeck.api.quantity import (
    QuantityFormat,
    QuantityParts,
    amount_of,
    canonical_text,
    split_text,
)

NANO: Final = 1_000_000_000
MILLI: Final = 1_000_000  # billionths in a thousandth


class Quantity(NamedTuple):
    """`nanos` billionths in a notation; `text` is what the server shows."""

    nanos: int
    format: QuantityFormat
    text: str

    @property
    def value(self) -> int:
        """Rounded up to a whole number."""
        return -(-self.nanos // NANO)

    @property
    def milli(self) -> int:
        """Rounded up to thousandths."""
        return -(-self.nanos // MILLI)


ZERO: Final = Quantity(0, QuantityFormat.DECIMAL_SI, "0")


def parse(source: Any) -> Quantity:
    """The quantity in a JSON string or number; raises ValueError in the API server's words."""
    if type(source) is str:
        return _parse(source) if len(source) <= 64 else _parse.__wrapped__(source)
    if source is None:
        return ZERO
    return _parse(repr(source))


@lru_cache(maxsize=16384)
def _parse(source: str) -> Quantity:
    text = source.strip()
    parts = split_text(text)
    nanos, form = amount_of(parts)
    return Quantity(nanos, form, text if _is_tidy(parts) else canonical_text(nanos, form))


def is_quick(parts: QuantityParts) -> bool:
    """Whether upstream holds it as a 64-bit number and a scale, not as a number of any length."""
    whole = parts.whole.lstrip("0") or "0"
    if parts.base == 2:
        return not parts.fraction and 15 - len(whole) - int(parts.exponent * 3 / 10) - 1 >= 0
    return len(whole + parts.fraction) <= 18 and parts.exponent - len(parts.fraction) >= -9


def _is_tidy(parts: QuantityParts) -> bool:
    """Whether upstream keeps a text as it is: it fits its quick form and cannot be shortened."""
    if not is_quick(parts):
        return False
    whole = parts.whole.lstrip("0") or "0"
    if parts.base == 2:
        return bool(int(whole) & 7)
    digits = whole + parts.fraction
    return (parts.exponent - len(parts.fraction)) % 3 == 0 and digits[0] != "0" and digits[-3:] != "000"


def canonical(source: Any) -> str:
    """The text the server shows; what is no quantity is returned unchanged."""
    try:
        return parse(source).text
    except ValueError:
        return str(source)


@lru_cache(maxsize=16384)
def _rounded(source: str) -> str:
    try:
        quantity = _parse(source)
    except ValueError:
        return source
    if quantity.nanos % MILLI == 0:
        return quantity.text
    return canonical_text(quantity.milli * MILLI, quantity.format)


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
    except ValueError:
        return 0


def add(left: Any, right: Any) -> str:
    """The sum as text, in the format of the first operand unless that is zero."""
    one, two = parse(left), parse(right)
    return canonical_text(one.nanos + two.nanos, one.format if one.nanos else two.format)
