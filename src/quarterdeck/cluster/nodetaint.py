"""Taints of nodes as controllers read them."""

from __future__ import annotations

import msgspec


class NodeTaint(msgspec.Struct, gc=False, frozen=True):
    """A taint without the time it was added."""

    key: str = ""
    value: str = ""
    effect: str = ""
