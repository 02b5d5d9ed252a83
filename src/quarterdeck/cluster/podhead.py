"""The few fields of a pod that several controllers ask for at every event, read without the rest of it.

Words in the text of a pod say nothing: a label, an annotation or an argument may read like a status.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from quarterdeck.runtime.cache import Entry

_ENDED: Final = ("Succeeded", "Failed")


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str | None = None
    scheduler_name: str | None = None
    scheduling_gates: tuple[Any, ...] | None = None
    priority: int | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode: Final = msgspec.json.Decoder(_Pod).decode


class PodHead(msgspec.Struct, frozen=True, gc=False):
    """Where a pod is in its life."""

    node: str
    """The node it is bound to, or empty."""
    has_ended: bool
    """Whether its containers have ended for good."""
    scheduler: str
    is_gated: bool
    priority: int


@lru_cache(maxsize=256)  # all controllers look at an event one after the other
def pod_head(entry: Entry) -> PodHead:
    """The head of a cached pod."""
    pod = _decode(entry.raw)
    spec = pod.spec
    return PodHead(
        spec.node_name or "",
        pod.status.phase in _ENDED,
        spec.scheduler_name or "",
        bool(spec.scheduling_gates),
        spec.priority or 0,
    )
