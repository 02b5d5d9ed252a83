"""Defaults of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.schema.lenient import items_of, text

from .internalspec import dig


def default_crd(obj: Json) -> None:
    """Fill in what a client may leave out, in place."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict):
        kind = text(names, "kind")
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    service = dig(spec, "conversion", "webhook", "clientConfig", "service")
    if isinstance(service, dict) and service.get("port") is None:
        service["port"] = 443
    status = obj.get("status")
    if status is None:
        status = obj["status"] = {}
    if isinstance(status, dict) and not status.get("storedVersions"):
        storage = next((name for name in storage_names(spec)), None)
        if storage is not None:
            status["storedVersions"] = [storage]


def storage_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for version in items_of(spec, "versions"):
        if isinstance(version, dict) and version.get("storage") is True:
            yield text(version, "name")
