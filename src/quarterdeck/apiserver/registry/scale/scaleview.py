"""The scale subresource: a small autoscaling/v1 Scale in front of replicas fields."""

from __future__ import annotations

from typing import Protocol

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.jsonpath import JsonPath
from quarterdeck.wire import fielderror


class ScaleView(Protocol):
    """How a kind shows its scale."""

    def read(self, obj: Json) -> Json:
        """The Scale of an object; raises where it has no replicas."""
        ...

    def shown(self, obj: Json) -> Json:
        """The Scale a write starts from; missing replicas are 0."""
        ...

    def write(self, obj: Json, replicas: int) -> None:
        """Set the wanted replicas in the object."""
        ...


def scale_document(obj: Json, replicas: int, current: int, selector: str) -> Json:
    meta = obj["metadata"]
    shown = {
        key: meta[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in meta
    }
    state: Json = {"replicas": current}
    if selector:
        state["selector"] = selector
    spec: Json = {"replicas": replicas} if replicas else {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": shown,
        "spec": spec,
        "status": state,
    }


class PathScale:
    """The scale of a custom resource: paths from its CRD version."""

    def __init__(self, declared: Json) -> None:
        self._spec_text: str = declared["specReplicasPath"]
        self._spec = JsonPath(self._spec_text)
        self._status = JsonPath(declared["statusReplicasPath"])
        selector = declared.get("labelSelectorPath")
        self._selector = JsonPath(selector) if selector else None

    def read(self, obj: Json) -> Json:
        if self._spec.first(obj) is None:
            raise status.internal(f'the spec replicas field "{self._spec_text}" does not exist')
        return self.shown(obj)

    def shown(self, obj: Json) -> Json:
        replicas = self._spec.first(obj) or 0
        current = self._status.first(obj)
        selector = self._selector.first(obj) if self._selector else ""
        return scale_document(
            obj,
            replicas,
            current if isinstance(current, int) else 0,
            selector if isinstance(selector, str) else "",
        )

    def write(self, obj: Json, replicas: int) -> None:
        node = obj
        *parents, last = self._spec_text.lstrip(".").split(".")
        for key in parents:
            child = node.get(key)
            if not isinstance(child, dict):
                child = node[key] = {}
            node = child
        node[last] = replicas


def check_replicas(replicas: int, name: str) -> None:
    """The replicas a client asks for may not be negative."""
    if replicas < 0:
        raise status.invalid(
            "Scale",
            "autoscaling",
            name,
            [fielderror.invalid("spec.replicas", replicas, "must be greater than or equal to 0")],
        )


class ReplicaScale:
    """Deployment, ReplicaSet, StatefulSet, ReplicationController: spec.replicas and status.replicas."""

    def __init__(self, *, plain_selector: bool = False) -> None:
        self._plain_selector = plain_selector

    def read(self, obj: Json) -> Json:
        spec = obj.get("spec") or {}
        selector = spec.get("selector") or {}
        if self._plain_selector:
            text = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        else:
            text = selector_text(selector)
        current = (obj.get("status") or {}).get("replicas", 0)
        return scale_document(obj, spec.get("replicas", 0), current, text)

    shown = read

    def write(self, obj: Json, replicas: int) -> None:
        obj["spec"]["replicas"] = replicas


def selector_text(selector: Json) -> str:
    """A LabelSelector as the text of a query: requirements sorted by key."""
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        forms = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, forms[expression["operator"]]))
    return ",".join(text for _, text in sorted(parts))


def scale_for(group: str, plural: str) -> ScaleView:
    return ReplicaScale(plain_selector=plural == "replicationcontrollers")
