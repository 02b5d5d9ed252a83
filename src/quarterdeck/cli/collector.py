"""How often a process looks for reference cycles."""

from __future__ import annotations

import atexit
import gc
from typing import Final

_ALLOCATIONS: Final = 50_000
"""Containers made and kept since the last look; Python's own choice is 700."""
_YOUNG, _MIDDLE = 20, 100
"""Looks at young objects per look at older ones, and of those per look at everything."""


def relax_collector() -> None:
    """Leave more of it to reference counts, and the rest at the end to the system.

    Objects of the API and what is made of them have no cycles, and there may be hundreds of thousands of
    them: walking them again and again takes a tenth of a busy server's time and finds next to nothing. When
    Python ends it walks everything once more, which takes a quarter of a second; what is frozen it leaves.
    """
    gc.set_threshold(_ALLOCATIONS, _YOUNG, _MIDDLE)
    atexit.register(gc.freeze)
