"""What the other version cannot hold, kept in an annotation.

A conversion may change labels and annotations. A field that one version has and the other lacks survives the
way there and back if it is stashed on the way there and taken out on the way back::

    def from_hub(hub: v1.Pool) -> v1alpha1.Pool:
        metadata = stash(hub.metadata, {"zone": hub.spec.zone})
        ...

    def to_hub(old: v1alpha1.Pool) -> v1.Pool:
        metadata, kept = unstash(old.metadata)
        zone = kept.get("zone", "")
        ...

Users can edit annotations: treat what comes out like input, and do not rely on it being there.
"""

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import ObjectMeta, encode
from quarterdeck.api.codec import decode_json
from quarterdeck.errors import SchemaError

STASH_ANNOTATION: Final = "quarterdeck.io/conversion-data"
MAX_STASH: Final = 200 * 1024
"""Bytes; all annotations of an object together may have 256 KiB."""


def stash(metadata: ObjectMeta, data: Mapping[str, Any], *, key: str = STASH_ANNOTATION) -> ObjectMeta:
    """Metadata that carries ``data``; without it when there is none, or too much to carry."""
    annotations = {name: value for name, value in metadata.annotations.items() if name != key}
    if data:
        text = encode(dict(sorted(data.items()))).decode()
        if len(text) <= MAX_STASH:
            annotations[key] = text
    if annotations == metadata.annotations:
        return metadata
    return metadata.evolve(annotations=annotations)


def unstash(metadata: ObjectMeta, *, key: str = STASH_ANNOTATION) -> tuple[ObjectMeta, dict[str, Any]]:
    """Metadata without the stash, and what was in it; nothing when it is absent or no JSON object."""
    text = metadata.annotations.get(key)
    if text is None:
        return metadata, {}
    annotations = {name: value for name, value in metadata.annotations.items() if name != key}
    cleaned = metadata.evolve(annotations=annotations)
    try:
        data = decode_json(text)
    except SchemaError:
        return cleaned, {}
    return cleaned, data if isinstance(data, dict) else {}
