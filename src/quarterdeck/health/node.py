"""What can be wrong with a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, condition, gpus, of, plural
from .problem import Finding

_PRESSURES: Final = (
    ("MemoryPressure", "node-memory-pressure", "it is short of memory"),
    ("DiskPressure", "node-disk-pressure", "it is short of disk space"),
    ("PIDPressure", "node-pid-pressure", "it is short of process numbers"),
    ("NetworkUnavailable", "node-network-unavailable", "its network is not set up"),
)


def examine_node(obj: Json) -> Iterator[Finding]:
    """What is wrong with a node."""
    node = Examined("Node", obj)
    ready = condition(obj, "Ready")
    since = str(ready.get("lastTransitionTime") or "")
    told = str(ready.get("message") or ready.get("reason") or "")
    if ready.get("status") == "False":
        yield node.found("node-not-ready", told or "it is not ready", since=since)
    elif ready.get("status") != "True":
        yield node.found(
            "node-silent", "it has stopped reporting" if ready else "it has never reported", since=since
        )
    for kind, situation, reason in _PRESSURES:
        found = condition(obj, kind)
        if found.get("status") == "True":
            yield node.found(situation, reason, since=str(found.get("lastTransitionTime") or ""))
    has, usable = gpus(of(node.status, "capacity")), gpus(of(node.status, "allocatable"))
    if usable < has:
        yield node.found(
            "node-gpus-missing", f"{has - usable:g} of {plural(has, 'GPU')} cannot be used", is_dated=False
        )
    if node.spec.get("unschedulable"):
        yield node.found("node-cordoned", "it takes no new pods", is_dated=False)
