"""Arguments: ``--podcliques=<name>:<pods>``, as often as there are PodCliques to wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.errors import QuarterdeckError

_FLAG: Final = "--podcliques"


class ArgumentError(QuarterdeckError, ValueError):
    """The arguments make no sense."""


def parse_arguments(arguments: Sequence[str]) -> dict[str, int]:
    """How many pods of which PodClique must be ready; raises ``ArgumentError``."""
    wanted: dict[str, int] = {}
    values: list[str] = []
    given = iter(arguments)
    for argument in given:
        flag, equals, value = argument.partition("=")
        if flag != _FLAG:
            raise ArgumentError(f"unknown argument {argument!r}")
        values += (value if equals else next(given, "")).split(",")
    for value in values:
        parts = [part.strip() for part in value.split(":")]
        if len(parts) != 2:
            raise ArgumentError(f"expected two values per podclique, found {len(parts)}")
        name, text = parts
        if not name:
            raise ArgumentError("podclique name cannot be empty")
        try:
            count = int(text)
        except ValueError as error:
            raise ArgumentError(f"replica count must be a number, got {text!r}") from error
        if count <= 0:
            raise ArgumentError(f"replica count must be positive, got {count}")
        wanted[name] = count
    return wanted
