"""Moving from client-side to server-side apply: kubectl's last-applied-configuration annotation.

Only for the manager named `kubectl`. Its first server-side apply finds its own earlier work owned by
other entries; fields that the annotation states and that still have that value may be taken without
force. Where the annotation exists, each server-side apply by kubectl refreshes it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire import gostyle

from . import fieldset
from .compare import TypedError, compare, field_set
from .fieldset import FieldSet
from .typed import TypeModel
from .validate import validate

MANAGER: Final = "kubectl"
ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS: Final = 256 * 1024


def owned_fields(model: TypeModel, live: Json, api_version: str) -> FieldSet | None:
    """What the annotation states and the live object still has; None without a usable annotation."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return None
    try:
        applied = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(applied, dict) or applied.get("apiVersion") != api_version or validate(model, applied):
        return None
    try:
        fields = field_set(model, applied)
        for changed in compare(model, applied, live):
            fields = fieldset.difference(fields, changed)
    except TypedError:
        return None
    return fields


def refresh(merged: Json, config: Json) -> None:
    """Write `config` into the annotation of `merged`, if it has one; without it if it gets too large."""
    annotations = _annotations(merged)
    if not annotations.get(ANNOTATION):
        return
    own = {name: text for name, text in _annotations(config).items() if name != ANNOTATION}
    metadata = {key: value for key, value in config.get("metadata", {}).items() if key != "annotations"}
    if own:
        metadata["annotations"] = own
    annotations[ANNOTATION] = gostyle.json_text({**config, "metadata": metadata}) + "\n"
    size = sum(len(str(name).encode()) + len(str(text).encode()) for name, text in annotations.items())
    if size > _MAX_ANNOTATIONS:
        del annotations[ANNOTATION]


def _annotations(obj: Json) -> dict[str, Any]:
    annotations = (obj.get("metadata") or {}).get("annotations")
    return annotations if isinstance(annotations, dict) else {}
