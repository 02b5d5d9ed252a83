"""Number texts the way Go reads and writes them."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

_INT: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEX: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_SPECIAL: Final = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}


def parse_int(text: str, low: int, high: int) -> int | None:
    """strconv.ParseInt base 10 with bounds."""
    if len(text) > 40 or not _INT.fullmatch(text):
        return None
    number = int(text)
    return number if low <= number <= high else None


def parse_uint(text: str, high: int) -> int | None:
    """strconv.ParseUint base 10: no sign."""
    if len(text) > 40 or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number <= high else None


def parse_float(text: str) -> float | None:
    """strconv.ParseFloat; None when malformed or out of range."""
    if _DECIMAL.fullmatch(text):
        number = float(text)
        return None if math.isinf(number) else number
    body, sign = text, 1.0
    if text[:1] in ("+", "-"):
        body, sign = text[1:], -1.0 if text[0] == "-" else 1.0
    special = _SPECIAL.get(body.lower())
    if special is not None:
        return sign * special
    if _HEX.fullmatch(text):
        try:
            return float.fromhex(text)
        except OverflowError:
            return None
    return None


def _special(number: float) -> str | None:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    return None


def format_general(number: float) -> str:
    """`%g` with the shortest digits that read back."""
    special = _special(number)
    if special is not None:
        return special
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    scale = len(text) + exponent - 1
    lead = "-" if sign else ""
    if scale < -4 or scale >= 6:
        mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
        return f"{lead}{mantissa}e{'-' if scale < 0 else '+'}{abs(scale):02d}"
    return format_fixed(number)


def format_fixed(number: float) -> str:
    """`%f` with as many digits as needed to read back."""
    special = _special(number)
    if special is not None:
        return special
    text = format(Decimal(repr(number)), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text or "0"
