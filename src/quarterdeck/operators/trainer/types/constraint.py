"""Constraints that several types share."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.marker import Cel, Len

IMMUTABLE: Final = Cel("self == oldSelf", message="field is immutable")
NAME: Final = Len(1)
LABEL: Final = Len(1, 253)
"""Names as objects have them."""
FEW: Final = Len(max=128)
"""The longest lists of variables, commands and arguments that are taken."""
