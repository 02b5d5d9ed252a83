"""Values that are an integer or a string: ports, percentages, counts.

On the wire and in Python they are just an ``int`` or a ``str``, so they round-trip by nature.
``IntOrString`` is the annotation that also gives the right CRD schema.
"""

import re
from typing import Annotated, Final

from quarterdeck.api.marker import XIntOrString

IntOrString = Annotated[int | str, XIntOrString()]
"""An integer or a string; the schema says ``x-kubernetes-int-or-string``."""

_PERCENT: Final = re.compile(r"(\d+)%")


def resolve_percent(value: int | str, total: int, *, round_up: bool) -> int:
    """``"25%"`` of ``total``, or the integer itself.

    Raises ``ValueError`` for a string that is no percentage.

    >>> resolve_percent("25%", 10, round_up=True)
    3
    """
    if isinstance(value, int):
        return value
    match = _PERCENT.fullmatch(value)
    if match is None:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    product = total * int(match.group(1))
    return -(-product // 100) if round_up else product // 100
