"""Types to structural schemas.

``schema_of(cls)`` gives the ``openAPIV3Schema`` of a class. It walks annotations, not instances, and
refuses with the field path what a structural schema cannot say: unions of several types, recursion,
``uniqueItems``, list maps whose keys may be absent. Refusal happens when the definition is built, so a
bad type never reaches a cluster.

The order of keys is the order of declaration; the output for one source text is always the same.
Descriptions come from class docstrings, from the string literal below a field, or from ``Doc``.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from msgspec import UnsetType

from quarterdeck.api import marker as m
from quarterdeck.api._docstring import class_doc, field_docs
from quarterdeck.api.codec import to_dict
from quarterdeck.api.duration import Duration
from quarterdeck.api.glossary import GLOSSARY
from quarterdeck.api.instant import Time
from quarterdeck.api.meta import ObjectMeta
from quarterdeck.api.model import UNKNOWN_KEY, JsonField, JsonObjectField, Model
from quarterdeck.api.quantity import Quantity
from quarterdeck.api.resource import Resource
from quarterdeck.errors import SchemaError

Doc = dict[str, Any]

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""The pattern controller-gen gives quantities; word for word, so that definitions compare equal."""

_INT_OR_STRING: Final[Doc] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_SCALARS: Final[dict[Any, Doc]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bytes: {"type": "string", "format": "byte"},
    Duration: {"type": "string"},
    Quantity: {**_INT_OR_STRING, "pattern": QUANTITY_PATTERN},
}
_FREE: Final = (Any, msgspec.Raw, JsonField)
_EMBEDDED_METADATA: Final = ("annotations", "finalizers", "labels", "name", "namespace")
_NOT_IN_BRANCHES: Final = frozenset(
    {"type", "default", "description", "title", "additionalProperties", "nullable", "deprecated"}
)
_API_VERSION_DOC: Final = (
    "APIVersion defines the versioned schema of this representation of an object. "
    "Servers should convert recognized schemas to the latest internal value, and may reject unrecognized "
    "values."
)
_KIND_DOC: Final = (
    "Kind is a string value representing the REST resource this object represents. "
    "Servers may infer this from the endpoint the client submits requests to. Cannot be updated."
)


def schema_of(cls: type[Model]) -> Doc:
    """The structural schema of a model or a kind; raises ``SchemaError`` with the field path."""
    if issubclass(cls, Resource):
        return _resource(cls)
    return _Walk().schema(cls, (), "")


def _resource(cls: type[Resource]) -> Doc:
    walk = _Walk()
    schema = walk.struct(cls, "", skip=("apiVersion", "kind", "metadata"))
    metadata: Doc = {"type": "object"}
    if cls.type_info.name_rules:
        metadata["properties"] = {"name": walk.schema(str, cls.type_info.name_rules, "metadata.name")}
    head: Doc = {
        "apiVersion": {"description": _API_VERSION_DOC, "type": "string"},
        "kind": {"description": _KIND_DOC, "type": "string"},
        "metadata": metadata,
    }
    schema["properties"] = {**head, **schema.get("properties", {})}
    return schema


#: schemas of classes that were walked: many kinds have pods; as text, because whoever gets one adds to it
_KNOWN: Final[WeakKeyDictionary[type, bytes]] = WeakKeyDictionary()


class _Walk:
    """One traversal; remembers the classes above to find recursion."""

    def __init__(self) -> None:
        self._above: list[type] = []

    def schema(self, kind: Any, markers: Sequence[Any], path: str) -> Doc:
        kind, markers = _unwrap(kind, markers)
        found = [a for a in markers if isinstance(a, m.MARKERS)]
        kind, nullable = _without_none(kind)
        kind, found = _unwrap(kind, found)
        schema = self._plain(kind, found, path)
        switch = _last(found, m.Nullable)
        if switch.value if switch is not None else nullable:
            schema["nullable"] = True
        for rule in found:
            _apply(schema, rule, path)
        _check(schema, path)
        return schema

    def _plain(self, kind: Any, markers: Sequence[Any], path: str) -> Doc:
        if kind in _FREE:
            return {"x-kubernetes-preserve-unknown-fields": True}
        if kind is JsonObjectField or kind is dict:
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            return self._union(kind, path)
        if origin is Literal:
            return _enum(get_args(kind), path)
        if origin in (tuple, list, Sequence):
            return {"type": "array", "items": self.schema(get_args(kind)[0], (), f"{path}[]")}
        if origin in (dict, Mapping):
            keys, values = get_args(kind)
            return self._map(keys, values, path)
        if isinstance(kind, type):
            return self._class(kind, markers, path)
        raise SchemaError(f"{kind!r} has no structural schema", path)

    def _class(self, kind: type, markers: Sequence[Any], path: str) -> Doc:
        if kind in _SCALARS:
            return cast("Doc", dict(_SCALARS[kind]))
        if issubclass(kind, Time):
            return {"type": "string", "format": "date-time"}
        if issubclass(kind, enum.Enum):
            return _enum([member.value for member in kind], path)
        values = getattr(kind, "value_type", None)
        if values is not None:
            return self._map(kind.key_type, values, path)  # type: ignore[attr-defined]  # Map has both
        if kind is ObjectMeta:
            return self._embedded_metadata(path)
        if issubclass(kind, msgspec.Struct):
            return self.struct(kind, path)
        raise SchemaError(f"{kind.__name__} has no structural schema", path)

    def _union(self, kind: Any, path: str) -> Doc:
        members = {_unwrap(a, ())[0] for a in get_args(kind)}
        if members == {int, str}:
            return {**_INT_OR_STRING}
        if members == {int, float}:
            return {"type": "number"}
        names = ", ".join(sorted(getattr(a, "__name__", str(a)) for a in members))
        raise SchemaError(
            f"a union of {names} is not structural: give the variants fields of their own and a OneOf rule",
            path,
        )

    def _map(self, keys: Any, values: Any, path: str) -> Doc:
        if _unwrap(keys, ())[0] is not str:
            raise SchemaError("keys of a map must be strings", path)
        return {"type": "object", "additionalProperties": self.schema(values, (), f"{path}[*]")}

    def _embedded_metadata(self, path: str) -> Doc:
        whole = self.struct(ObjectMeta, path)
        return {
            "type": "object",
            "properties": {
                key: {k: v for k, v in whole["properties"][key].items() if k != "x-kubernetes-list-type"}
                for key in _EMBEDDED_METADATA
            },
        }

    def struct(self, cls: type[Any], path: str, *, skip: Iterable[str] = ()) -> Doc:
        if cls in self._above:
            raise SchemaError(f"{cls.__name__} contains itself, which is not structural", path)
        if not skip and cls in _KNOWN:
            return cast("Doc", msgspec.json.decode(_KNOWN[cls]))
        self._above.append(cls)
        try:
            schema = self._struct(cls, path, frozenset(skip) | {UNKNOWN_KEY})
        finally:
            self._above.pop()
        if not skip:
            _KNOWN[cls] = msgspec.json.encode(schema)
        return schema

    def _struct(self, cls: type[Any], path: str, skip: frozenset[str]) -> Doc:
        documented = field_docs(cast("Any", cls))
        properties: Doc = {}
        required = []
        for info, hint in _declared(cast("Any", cls)):
            if info.encode_name in skip:
                continue
            at = f"{path}.{info.encode_name}" if path else info.encode_name
            _, markers = _unwrap(hint, ())
            schema = self.schema(hint, (), at)
            if info.name in documented and _last(markers, m.Doc) is None:
                schema = {**schema, "description": documented[info.name]}
            elif "description" not in schema and (text := _usual_text(cls, info.encode_name, schema)):
                schema = {**schema, "description": text}
            default = _default(cls, info.name, markers)
            if default is not msgspec.NODEFAULT:
                schema["default"] = default
            properties[info.encode_name] = _ordered(schema)
            if _is_required(info, markers):
                required.append(info.encode_name)
        out: Doc = {"type": "object"}
        if properties:
            out["properties"] = properties
        if required:
            out["required"] = sorted(required)
        text = class_doc(cls)
        if text:
            out["description"] = text
        for rule in getattr(cls, "schema_rules", ()):
            _apply(out, rule, path)
        _check(out, path)
        return _ordered(out)


@cache
def _declared(cls: type[Any]) -> tuple[tuple[msgspec.structs.FieldInfo, Any], ...]:
    """Fields with their annotations; evaluating annotations is what costs here."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple((info, hints[info.name]) for info in msgspec.structs.fields(cls))


def _unwrap(kind: Any, markers: Sequence[Any]) -> tuple[Any, list[Any]]:
    found = list(markers)
    while get_origin(kind) is Annotated:
        kind, *inner = get_args(kind)
        found = [*inner, *found]
    return kind, found


def _without_none(kind: Any) -> tuple[Any, bool]:
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    members = get_args(kind)
    kept = [a for a in members if a is not NoneType and a is not UnsetType]
    if len(kept) == len(members):
        return kind, False
    return Union[tuple(kept)], NoneType in members  # noqa: UP007  built from a list


def _last(markers: Sequence[Any], kind: type[Any]) -> Any:
    return next((a for a in reversed(markers) if isinstance(a, kind)), None)


def _is_required(info: msgspec.structs.FieldInfo, markers: Sequence[Any]) -> bool:
    if _last(markers, m.Required) is not None:
        return True
    return info.required and _last(markers, m.Optional) is None


def _default(cls: type[Any], name: str, markers: Sequence[Any]) -> Any:
    marked = _last(markers, m.Default)
    if marked is not None:
        return to_dict(marked.value)
    if _last(markers, m.Required) is not None:
        return msgspec.NODEFAULT  # the Python default only saves typing, the field must be sent
    literals: Mapping[str, Any] = getattr(cls, "literal_defaults", {})
    return _minimal(literals[name]) if name in literals else msgspec.NODEFAULT


def _minimal(value: Any) -> Any:
    """A default as short as it can be: nested defaults are filled in by the server anyway."""
    if not isinstance(value, Model):
        return to_dict(value)
    doc = to_dict(value)
    for info in msgspec.structs.fields(cast("Any", value)):
        if info.name in type(value).literal_defaults:
            literal = type(value).literal_defaults[info.name]
            if getattr(value, info.name) == literal:
                doc.pop(info.encode_name, None)
    return doc


def _enum(values: Sequence[Any], path: str) -> Doc:
    if all(isinstance(value, str) for value in values):
        return {"type": "string", "enum": list(values)}
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return {"type": "integer", "enum": list(values)}
    raise SchemaError("an enumeration must be all strings or all integers", path)


def _apply(schema: Doc, rule: Any, path: str) -> None:
    match rule:
        case m.Ge(value):
            schema["minimum"] = _number(value)
        case m.Gt(value):
            schema["minimum"] = _number(value)
            schema["exclusiveMinimum"] = True
        case m.Le(value):
            schema["maximum"] = _number(value)
        case m.Lt(value):
            schema["maximum"] = _number(value)
            schema["exclusiveMaximum"] = True
        case m.MultipleOf(value):
            schema["multipleOf"] = _number(value)
        case m.Pattern(value):
            schema["pattern"] = value
        case m.Format(value):
            schema["format"] = value
        case m.Enum():
            schema["enum"] = list(rule.values)
        case m.Doc(text):
            schema["description"] = text
        case m.Len(low, high):
            _apply_len(schema, low, high, path)
        case m.Unique():
            raise SchemaError("uniqueItems is not structural: use ListSet or a CEL rule", path)
        case m.ListMap() | m.ListSet() | m.Atomic():
            _apply_topology(schema, rule, path)
        case m.Preserve():
            schema["x-kubernetes-preserve-unknown-fields"] = True
        case m.Embedded():
            schema["type"] = "object"
            schema["x-kubernetes-embedded-resource"] = True
        case m.XIntOrString():
            schema.pop("type", None)
            schema.update(_INT_OR_STRING)
        case m.Cel():
            schema.setdefault("x-kubernetes-validations", []).append(_cel(rule))
        case m.Schema(value):
            schema.update(to_dict(value))
        case _:
            _apply_logic(schema, rule, path)


def _apply_logic(schema: Doc, rule: Any, path: str) -> None:
    match rule:
        case m.OneOf():
            schema["oneOf"] = _branches(rule.branches, f"{path}.oneOf")
        case m.AnyOf():
            schema["anyOf"] = _branches(rule.branches, f"{path}.anyOf")
        case m.AllOf():
            schema.setdefault("allOf", []).extend(_branches(rule.branches, f"{path}.allOf"))
        case m.Not(branch):
            schema["not"] = _branches((branch,), f"{path}.not")[0]


def _apply_len(schema: Doc, low: int | None, high: int | None, path: str) -> None:
    suffix = {"string": "Length", "array": "Items", "object": "Properties"}.get(schema.get("type", ""))
    if suffix is None and "x-kubernetes-int-or-string" in schema:
        suffix = "Length"
    if suffix is None:
        raise SchemaError("Len is for strings, lists and maps", path)
    if low is not None:
        schema[f"min{suffix}"] = low
    if high is not None:
        schema[f"max{suffix}"] = high


def _apply_topology(schema: Doc, rule: Any, path: str) -> None:
    kind = schema.get("type")
    match rule:
        case m.Atomic() if kind == "array":
            schema["x-kubernetes-list-type"] = "atomic"
        case m.Atomic() if kind == "object":
            schema["x-kubernetes-map-type"] = "atomic"
        case m.ListSet() if kind == "array":
            schema["x-kubernetes-list-type"] = "set"
        case m.ListMap() if kind == "array":
            schema["x-kubernetes-list-type"] = "map"
            schema["x-kubernetes-list-map-keys"] = list(rule.keys)
        case _:
            raise SchemaError(f"{type(rule).__name__} does not fit type {kind}", path)


def _cel(rule: m.Cel) -> Doc:
    out: Doc = {"rule": rule.rule}
    for key, value in (
        ("message", rule.message),
        ("messageExpression", rule.message_expression),
        ("reason", rule.reason),
        ("fieldPath", rule.field_path),
    ):
        if value:
            out[key] = value
    if rule.optional_old_self:
        out["optionalOldSelf"] = True
    return out


def _branches(branches: Sequence[Mapping[str, Any]], path: str) -> list[Doc]:
    out = [to_dict(branch) for branch in branches]
    for i, branch in enumerate(out):
        _check_branch(branch, f"{path}[{i}]")
    return out


def _check_branch(branch: Doc, path: str) -> None:
    """Inside oneOf and its kin only value validations are structural."""
    bad = sorted(key for key in branch if key in _NOT_IN_BRANCHES or key.startswith("x-kubernetes-"))
    if bad:
        raise SchemaError(
            f"{', '.join(bad)} must not be set here: only value validations are structural", path
        )
    for key, child in branch.get("properties", {}).items():
        _check_branch(child, f"{path}.{key}")
    if isinstance(branch.get("items"), dict):
        _check_branch(branch["items"], f"{path}[]")
    if isinstance(branch.get("not"), dict):
        _check_branch(branch["not"], f"{path}.not")
    for key in ("oneOf", "anyOf", "allOf"):
        for i, child in enumerate(branch.get(key, ())):
            _check_branch(child, f"{path}.{key}[{i}]")


def _check(schema: Doc, path: str) -> None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        _check_list_map(schema, path)
    items = schema.get("items", {})
    atomic = items.get("x-kubernetes-list-type") == "atomic" or items.get("x-kubernetes-map-type") == "atomic"
    if kind == "set" and items.get("type") in ("array", "object") and not atomic:
        raise SchemaError("items of a set must be scalars or atomic", path)


def _check_list_map(schema: Doc, path: str) -> None:
    items = schema.get("items", {})
    properties = items.get("properties", {})
    keys = schema["x-kubernetes-list-map-keys"]
    if not keys:
        raise SchemaError("a list map needs at least one key", path)
    if items.get("type") != "object":
        raise SchemaError("items of a list map must be objects", path)
    for key in keys:
        if key not in properties:
            raise SchemaError(f"list map key {key} is not a field of the items", path)
        if key not in items.get("required", ()) and "default" not in properties[key]:
            raise SchemaError(f"list map key {key} must be required or have a default", path)


def _number(value: float) -> int | float:
    return int(value) if float(value).is_integer() else value


def _usual_text(cls: type[Any], name: str, schema: Doc) -> str:
    """What to say of a field that says nothing itself: what its elements are, or what its name means here."""
    elements = schema.get("items") or schema.get("additionalProperties")
    if isinstance(elements, dict) and elements.get("properties") and elements.get("description"):
        return str(elements["description"])
    return GLOSSARY.get(name, "") if cls.__module__.startswith("quarterdeck.") else ""


_ORDER: Final[tuple[str, ...]] = ("description", "type", "format", "nullable", "default", "enum")


def _ordered(schema: Doc) -> Doc:
    head: Doc = {key: schema[key] for key in _ORDER if key in schema}
    return {**head, **{key: value for key, value in schema.items() if key not in head}}
