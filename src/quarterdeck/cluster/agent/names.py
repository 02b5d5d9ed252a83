"""Names of a local node on the wire."""

from __future__ import annotations

from typing import Final

RUNTIME: Final = "quarterdeck.dev/runtime"
"""Label of nodes that run pods: the runtime of pods that name none. With ``-<runtime>`` behind it: one that
the node has."""
LOCAL_TAINT: Final = "quarterdeck.dev/local"
"""Taint of such a node, if it was asked for."""
