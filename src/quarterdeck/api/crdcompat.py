"""Is a new definition of a kind safe for objects and clients of the old one?

``compare_crds(old, new)`` lists what breaks: versions and fields that vanish, types that change, values
that were legal and no longer are. It errs on the side of naming a change: a new CEL rule or another
pattern may be harmless, but somebody should look. An empty list means every object accepted by the old
definition is accepted by the new one, field by field.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

Doc = dict[str, Any]

_LOWER_BOUNDS: Final = ("minimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS: Final = ("maximum", "maxLength", "maxItems", "maxProperties")
_EXACT: Final = ("pattern", "format", "multipleOf", "oneOf", "anyOf", "allOf", "not")
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_TOPOLOGY: Final = (
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
)


class Incompatibility(msgspec.Struct, frozen=True):
    """One breaking change: where, and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def compare_crds(old: Doc, new: Doc) -> list[Incompatibility]:
    """Everything in ``new`` that can break users of ``old``, in the order of the old document."""
    return list(_definitions(old["spec"], new["spec"]))


def _definitions(old: Doc, new: Doc) -> Iterator[Incompatibility]:
    for path, before, after in (
        ("group", old["group"], new["group"]),
        ("scope", old["scope"], new["scope"]),
        ("names.kind", old["names"]["kind"], new["names"]["kind"]),
        ("names.plural", old["names"]["plural"], new["names"]["plural"]),
    ):
        if before != after:
            yield Incompatibility(path, f"changed from {before} to {after}")
    versions = {version["name"]: version for version in new["versions"]}
    for version in old["versions"]:
        yield from _versions(version, versions.get(version["name"]))


def _versions(old: Doc, new: Doc | None) -> Iterator[Incompatibility]:
    path = old["name"]
    if new is None:
        yield Incompatibility(path, "version removed")
        return
    if old.get("served") and not new.get("served"):
        yield Incompatibility(path, "version is no longer served")
    for name in old.get("subresources") or {}:
        if name not in (new.get("subresources") or {}):
            yield Incompatibility(path, f"subresource {name} removed")
    yield from _schemas(_root(old), _root(new), path)


def _root(version: Doc) -> Doc:
    schema: Doc = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    return schema


def _schemas(old: Doc, new: Doc, path: str) -> Iterator[Incompatibility]:
    if old.get("type") != new.get("type"):
        yield Incompatibility(path, f"type changed from {old.get('type', 'any')} to {new.get('type', 'any')}")
        return
    yield from _bounds(old, new, path)
    yield from _values(old, new, path)
    yield from _properties(old, new, path)
    for key, suffix in (("items", "[]"), ("additionalProperties", "[*]")):
        if isinstance(old.get(key), dict) and isinstance(new.get(key), dict):
            yield from _schemas(old[key], new[key], f"{path}{suffix}")
        elif isinstance(old.get(key), dict) and key not in new:
            yield Incompatibility(path, f"{key} removed")


def _bounds(old: Doc, new: Doc, path: str) -> Iterator[Incompatibility]:
    for keys, tighter in ((_LOWER_BOUNDS, 1), (_UPPER_BOUNDS, -1)):
        for key in keys:
            if key in new and (key not in old or (new[key] - old[key]) * tighter > 0):
                yield Incompatibility(path, f"{key} tightened from {old.get(key, 'none')} to {new[key]}")
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if new.get(key) and not old.get(key):
            yield Incompatibility(path, f"{key} added")
    for key in _EXACT:
        if key in new and old.get(key) != new[key]:
            yield Incompatibility(path, f"{key} {'changed' if key in old else 'added'}")
    for key in _TOPOLOGY:
        if old.get(key) != new.get(key):
            yield Incompatibility(path, f"{key} changed from {old.get(key)} to {new.get(key)}")


def _values(old: Doc, new: Doc, path: str) -> Iterator[Incompatibility]:
    if "enum" in new:
        lost = [value for value in old.get("enum", ()) if value not in new["enum"]]
        if "enum" not in old:
            yield Incompatibility(path, f"values restricted to {new['enum']}")
        elif lost:
            yield Incompatibility(path, f"enum no longer allows {lost}")
    if old.get("nullable") and not new.get("nullable"):
        yield Incompatibility(path, "null is no longer allowed")
    if old.get(_PRESERVE) and not new.get(_PRESERVE):
        yield Incompatibility(path, "unknown fields are no longer preserved")
    if "default" in old and old["default"] != new.get("default"):
        yield Incompatibility(
            path, f"default changed from {old['default']!r} to {new.get('default', 'none')!r}"
        )
    known = [rule.get("rule") for rule in old.get("x-kubernetes-validations", ())]
    for rule in new.get("x-kubernetes-validations", ()):
        if rule.get("rule") not in known:
            yield Incompatibility(path, f"rule added: {rule.get('rule')}")


def _properties(old: Doc, new: Doc, path: str) -> Iterator[Incompatibility]:
    before, after = old.get("properties", {}), new.get("properties", {})
    for name, schema in before.items():
        if name in after:
            yield from _schemas(schema, after[name], f"{path}.{name}")
        elif not new.get(_PRESERVE):
            yield Incompatibility(f"{path}.{name}", "field removed")
    required = set(old.get("required", ()))
    for name in new.get("required", ()):
        if name not in required and "default" not in after.get(name, {}):
            yield Incompatibility(f"{path}.{name}", "field is now required")
