"""Objects as a cluster may have them, and what an invariant finds wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from quarterdeck.api import Resource, from_dict
from quarterdeck.api.invariant import Invariant, Objects

R = TypeVar("R", bound=Resource)


def made(kind: type[R], name: str, *, meta: dict[str, Any] | None = None, **parts: Any) -> R:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1} | (meta or {})
    return from_dict({"metadata": metadata, **parts}, kind)


def owned(kind: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "x/v1", "kind": kind, "name": "owner", "uid": uid, "controller": True}
    return {"ownerReferences": [reference]}


def broken(invariants: Iterable[Invariant], name: str, *objects: Resource) -> list[tuple[str, str]]:
    """The objects that break an invariant, each with its problem."""
    by_kind: dict[type[Resource], list[Resource]] = {}
    for each in objects:
        by_kind.setdefault(type(each), []).append(each)
    (wanted,) = (each for each in invariants if each.name == name)
    return [(each.object, each.problem) for each in wanted.broken(Objects(by_kind))]
