"""Numbers the way Go reads and writes them."""

from __future__ import annotations

import math
import re
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


def float_text(value: float) -> str:
    """A float64 under `%v`: shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if 1e-4 <= value < 1e6:
        return repr(value).removesuffix(".0")
    if not math.isfinite(value):
        return _special(value)
    sign, digits, exponent = _digits(value)
    if -4 <= exponent < 6:
        return _positional(sign, digits, exponent)
    return _exponential(sign, digits, exponent, 2)


def fixed_text(value: float) -> str:
    """A float64 under `%f` with as many digits as it takes to read it back."""
    return _positional(*_digits(value)) if math.isfinite(value) else _special(value)


def json_float(value: float) -> str:
    """A float64 as Go's JSON encoder writes it: positional from 1e-6 up to 1e21."""
    if not math.isfinite(value):
        return _special(value)
    sign, digits, exponent = _digits(value)
    if -6 <= exponent < 21:
        return _positional(sign, digits, exponent)
    return _exponential(sign, digits, exponent, 1 if exponent < 0 else 2)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"


def _digits(value: float) -> tuple[str, str, int]:
    """Sign, shortest decimal digits and decimal exponent: `-d.ddd` times ten to the exponent."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + fraction
    stripped = digits.lstrip("0")
    shift = len(whole) - 1 - (len(digits) - len(stripped))
    return sign, stripped.rstrip("0") or "0", shift + int(exponent or 0) if stripped else 0


def _exponential(sign: str, digits: str, exponent: int, width: int) -> str:
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{str(abs(exponent)).zfill(width)}"


def _positional(sign: str, digits: str, exponent: int) -> str:
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole
