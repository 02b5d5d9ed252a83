"""Conversion of NodeGroups between versions, lossless, over the hub v1.

It is pure: which v1 type an old ``Hybrid`` group means may depend on a Secret, so groups that need it are
left open in ``unresolved``; the caller reads the Secret only if there are any, and calls ``resolve``. A
broken Secret therefore never breaks a conversion that does not need it.

The caller's documents are not changed; results may share parts with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.nodegroup import names

from .mapping import translate
from .roundtrip import Difference, Memory, differences, put_memory, restore, take_memory
from .shape import ShapeError, fit
from .validity import Violation, violations

Document = dict[str, Any]

_KNOWN = frozenset(names.VERSIONS)
_UNTYPED_CRI: Violation = ("spec.cri", "oneOf")
_HYBRID_RULES: frozenset[Violation] = frozenset({("spec", "oneOf"), ("spec.nodeType", "enum")})


class ConversionError(QuarterdeckError):
    """Why an object cannot be converted, in the words of the webhook protocol."""


def convert_with(document: Any, target: str, permanent: Callable[[], Collection[str]]) -> Any:
    """One document in version ``target``; ``permanent`` is asked only if it matters."""
    unresolved: list[Document] = []
    converted = convert(document, target, unresolved)
    for group in unresolved:
        resolve(group, permanent())
    return converted


def resolve(document: Document, permanent: Collection[str]) -> None:
    """Decide an open group: CloudPermanent if the provider configuration lists it."""
    is_permanent = document["metadata"].get("name", "") in permanent
    document["spec"]["nodeType"] = names.CLOUD_PERMANENT if is_permanent else names.CLOUD_STATIC


def convert(document: Any, target: str, unresolved: list[Document]) -> Any:
    """One document in version ``target``; added to ``unresolved`` if its node type is still open."""
    source = check_head(document)
    if source == target:
        return document
    fitted = fit_to_version(document, source)
    if target not in _KNOWN:
        raise ConversionError(f"unsupported desired version: {target}")
    return _convert(fitted, source, target, unresolved)


def fit_to_version(document: Document, source: str) -> Document:
    """A NodeGroup without unknown fields; raises ``ConversionError`` for any other document."""
    check_metadata(document)
    if document.get("kind") != names.KIND:
        raise ConversionError(f"unsupported kind: {document.get('kind', '')}")
    if source not in _KNOWN:
        raise ConversionError(f"convert to hub: unsupported source version: {source}")
    try:
        return fit(source, document)
    except ShapeError as error:
        version = source.rpartition("/")[2]
        raise ConversionError(f"convert to hub: failed to unmarshal {version}: {error}") from error


def check_head(document: Any) -> str:
    """The apiVersion; raises ``ConversionError`` for what is no API object at all."""
    if type(document) is not dict:
        raise ConversionError("parse object metadata: not a JSON object")
    for key in ("apiVersion", "kind"):
        if type(document.get(key, "")) is not str:
            raise ConversionError(f"parse object metadata: {key}: not a string")
    source: str = document.get("apiVersion", "")
    return source


def check_metadata(document: Document) -> None:
    """Raises ``ConversionError`` unless name and annotations can be used; the rest is only copied."""
    metadata = document.get("metadata")
    if metadata is None:
        return
    if type(metadata) is not dict:
        raise ConversionError("parse object metadata: metadata: not a JSON object")
    if type(metadata.get("name") or "") is not str:
        raise ConversionError("parse object metadata: metadata.name: not a string")
    annotations = metadata.get("annotations")
    if annotations is None:
        return
    if type(annotations) is not dict or not all(type(value) is str for value in annotations.values()):
        raise ConversionError("parse object metadata: metadata.annotations: not a map of strings")


def _convert(document: Document, source: str, target: str, unresolved: list[Document]) -> Document:
    """Source → v1 → target; what either end cannot hold is kept in the memory.

    Between two old versions, too, the hub is the whole v1 object: what both of them can hold must not get
    lost on a way through v1, and what v1 holds must be reachable from the new version.
    """
    document, memory = take_memory(document)
    memory.pop(source, None)  # stale: what an object of this version holds is the object itself
    hub = _restored(translate(document, source, names.V1), memory.pop(names.V1, None), names.V1)
    result = _restored(translate(hub, names.V1, target), memory.pop(target, None), target)
    if target == names.V1:
        result = _decide_hybrid(result, unresolved)
    _keep(memory, document, translate(result, target, source))
    if names.V1 not in (source, target):
        _keep(memory, hub, translate(result, target, names.V1))
    return _remember(result, memory, unresolved)


def _keep(memory: Memory, truth: Document, returned: Document) -> None:
    lost = differences(truth, returned)
    if lost:
        memory[truth["apiVersion"]] = lost


def _remember(result: Document, memory: Memory, unresolved: list[Document]) -> Document:
    stored = put_memory(result, memory)
    if unresolved and unresolved[-1] is result:
        unresolved[-1] = stored
    return stored


def _decide_hybrid(document: Document, unresolved: list[Document]) -> Document:
    """Settle ``Hybrid`` by name or annotation, or leave it for the provider configuration."""
    spec = document.get("spec")
    if type(spec) is not dict or spec.get("nodeType") != names.HYBRID:
        return document
    metadata = document.get("metadata") or {}
    document = {**document, "metadata": metadata, "spec": dict(spec)}
    annotations = metadata.get("annotations") or {}
    if metadata.get("name") == names.MASTER or annotations.get(names.PERMANENT_NODE_GROUP) == "true":
        document["spec"]["nodeType"] = names.CLOUD_PERMANENT
    else:
        unresolved.append(document)
    return document


def _restored(plain: Document, entries: list[Difference] | None, target: str) -> Document:
    """``plain`` with the entries applied, unless that would break the schema of the target.

    A crafted annotation must not smuggle in what the API server would have refused. Objects may break the
    schema without any annotation (stored under an older one, or converted from an old version), so only
    rules that the entries break count. A ``cri`` without type is let through: v1 objects with one exist,
    and it means no more than the cluster's default.
    """
    if not entries:
        return plain
    restored = restore(plain, entries)
    if target == names.V1 and not violations(restored, plain):
        return restored
    try:
        restored = fit(target, restored)
    except ShapeError:
        return plain
    if target != names.V1:
        return restored
    broken = violations(restored, plain)
    spec = restored.get("spec") or {}
    if not (spec.get("cri") or {}).get("type"):
        broken.discard(_UNTYPED_CRI)
    if spec.get("nodeType") == names.HYBRID:
        broken -= _HYBRID_RULES
    return plain if broken else restored
