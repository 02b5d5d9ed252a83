"""How much of what is wrong with an object its answer shows.

Upstream shows everything, even where each of many errors repeats a whole list, so a few kilobytes can ask for
gigabytes. Here an answer ends after a few megabytes of errors, far beyond what anybody reads; rules whose
errors grow faster than the object ask how many of them fit, and make no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.wire.fielderror import FieldError

#: characters
_LIMIT: Final = 4 << 20


def fitting(length: int) -> int:
    """How many errors of so many characters are worth making: one more than is shown."""
    return _LIMIT // max(length, 1) + 1


def repeated(error: FieldError, count: int) -> list[FieldError]:
    """The same error once for each of its reasons, as far as an answer shows them."""
    return [error] * min(count, fitting(len(error.body)))


def shown(errors: Sequence[FieldError]) -> Sequence[FieldError]:
    """The errors an answer has room for: the first, and those that fit."""
    room = _LIMIT
    for count, error in enumerate(errors):
        room -= len(error.field) + len(error.body)
        if room < 0 and count:
            return errors[:count]
    return errors
