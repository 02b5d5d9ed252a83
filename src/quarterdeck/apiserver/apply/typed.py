"""The type model of server-side apply: what is one value and what is merged field by field.

    Scalar      one value
    MapType     a struct (declared fields), a map (an element type), or both; atomic: one value
    ListType    atomic (one value), set (items are scalars) or map (items are objects with key fields)
    AnyType     decided by each value: a scalar, a list or a map

`DEDUCED` is the type of what no schema describes: maps granular, lists atomic. `UNTYPED` is one value of
any shape. A `TypeModel` is the type of one kind in one version; `schema_model` makes it from a
CustomResourceDefinition's openAPIV3Schema, `model.builtin_model` from the table of built-in types. Fields
are compiled when they are first met and kept, so that a large schema costs what its objects use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

from . import pathelement

#: no value where None is one
ABSENT: Final[Any] = type("Absent", (), {"__repr__": lambda _: "ABSENT", "__slots__": ()})()


class ItemError(QuarterdeckError, ValueError):
    """A list item that cannot be told from others."""


class Scalar:
    """A value without parts. `kind` says which values it takes; null always is one."""

    __slots__ = ("kind",)
    is_leaf = True

    def __init__(self, kind: Literal["numeric", "string", "boolean", "untyped"]) -> None:
        self.kind = kind


class MapType:
    """A struct or a map.

    `declared` maps the declared field names to whatever `compile_field` turns into a type; `element` is
    the type of all other entries, None if there may be none.
    """

    __slots__ = ("_compile_field", "_default_of", "declared", "element", "is_leaf", "plan")

    def __init__(
        self,
        declared: Mapping[str, Any],
        compile_field: Callable[[Any], Type],
        *,
        element: Type | None = None,
        is_atomic: bool = False,
        default_of: Callable[[Any], Any] = lambda _: ABSENT,
    ) -> None:
        self.declared = declared
        self.element = element
        #: atomic: one value
        self.is_leaf = is_atomic
        #: declared fields met so far: name -> (path element, type)
        self.plan: dict[str, tuple[str, Type]] = {}
        self._compile_field = compile_field
        self._default_of = default_of

    def resolve(self, name: str) -> tuple[str, Type] | None:
        """The path element and type of an entry; None if the schema does not know it."""
        known = self.plan.get(name)
        if known is not None:
            return known
        source = self.declared.get(name, ABSENT)
        if source is ABSENT:
            return None if self.element is None else ("f:" + name, self.element)
        entry = self.plan[name] = ("f:" + name, self._compile_field(source))
        return entry

    def default(self, name: str) -> Any:
        """The default of a declared field, or ABSENT."""
        source = self.declared.get(name, ABSENT)
        return ABSENT if source is ABSENT else self._default_of(source)

    def with_atomic(self, is_atomic: bool) -> MapType:
        """The same type under a field that overrides whether it is one value."""
        if is_atomic == self.is_leaf:
            return self
        return MapType(
            self.declared,
            self._compile_field,
            element=self.element,
            is_atomic=is_atomic,
            default_of=self._default_of,
        )


class ListType:
    """A list. `keys` are the key fields of a map list and empty otherwise."""

    __slots__ = ("_key_plan", "element", "is_leaf", "keys")

    def __init__(
        self, kind: Literal["atomic", "set", "map"], element: Type, keys: tuple[str, ...] = ()
    ) -> None:
        self.element = element
        self.keys = keys if kind == "map" else ()
        self.is_leaf = kind == "atomic"
        self._key_plan: tuple[tuple[str, str, Any], ...] = ()

    def element_of(self, item: Any) -> str:
        """The path element of an item; ItemError if it has none."""
        if not self.keys:
            if item.__class__ is dict:
                raise ItemError("associative list without keys has an element that's a map type")
            if item.__class__ is list:
                raise ItemError("not supported: associative list with lists as elements")
            if item is None:
                raise ItemError("associative list without keys has an element that's an explicit null")
            return "v:" + pathelement.scalar(item)
        if item.__class__ is not dict:
            raise ItemError(
                "associative list with keys may not have a null element"
                if item is None
                else "associative list with keys may not have non-map elements"
            )
        parts = []
        for name, prefix, default in self._key_plan or self._plan_keys():
            value = item.get(name, default)
            if value is not ABSENT:
                parts.append(prefix + pathelement.scalar(value))
        if not parts:
            names = " ".join(map(gostyle.quote, self.keys))
            raise ItemError(
                f"associative list with keys has an element that omits all key fields [{names}]"
                " (and doesn't have default values for any key fields)"
            )
        return "k:{" + ",".join(parts) + "}"

    def key_fields(self, item: Json) -> dict[str, Any]:
        """The key fields that identify an item, defaults included, by name."""
        values = ((name, item.get(name, default)) for name, _, default in self._key_plan or self._plan_keys())
        return {name: value for name, value in values if value is not ABSENT}

    def _plan_keys(self) -> tuple[tuple[str, str, Any], ...]:
        item_type = self.element.map if isinstance(self.element, AnyType) else self.element
        plan = []
        for name in sorted(self.keys):
            default = item_type.default(name) if isinstance(item_type, MapType) else ABSENT
            plan.append((name, pathelement.scalar(name) + ":", ABSENT if default is None else default))
        self._key_plan = tuple(plan)
        return self._key_plan


class AnyType:
    """A type decided by each value."""

    __slots__ = ("is_leaf", "list", "map")

    list: ListType
    map: MapType

    def __init__(self, *, is_leaf: bool = False) -> None:
        self.is_leaf = is_leaf

    def select(self, value: Any) -> Scalar | ListType | MapType:
        """What the type is for one value; null counts as a map."""
        if value.__class__ is dict or value is None:
            return self.map
        return self.list if value.__class__ is list else UNTYPED_SCALAR


Type: TypeAlias = Scalar | MapType | ListType | AnyType

NUMERIC: Final = Scalar("numeric")
STRING: Final = Scalar("string")
BOOLEAN: Final = Scalar("boolean")
UNTYPED_SCALAR: Final = Scalar("untyped")


def _no_fields(_: Any) -> Type:
    raise AssertionError("a map without declared fields has none to compile")


def plain_map(element: Type, *, is_atomic: bool = False) -> MapType:
    """A map whose entries all have one type."""
    return MapType({}, _no_fields, element=element, is_atomic=is_atomic)


def any_type(list_type: ListType, map_type: MapType) -> AnyType:
    made = AnyType()
    made.list, made.map = list_type, map_type
    return made


UNTYPED: Final = AnyType(is_leaf=True)
UNTYPED.list = ListType("atomic", UNTYPED)
UNTYPED.map = plain_map(UNTYPED, is_atomic=True)
DEDUCED: Final = AnyType()
DEDUCED.list = ListType("atomic", UNTYPED)
DEDUCED.map = plain_map(DEDUCED)


class TypeModel:
    """The type of one kind in one version.

    `zero` is the object that exists before the first write: the fields Go never leaves out. `is_loose`
    says that somewhere below values have no declared type, so that `1` and `true` must be told apart.
    `drops_null`: null means absent, as in the built-in types.
    """

    __slots__ = ("drops_null", "is_loose", "root", "zero")

    def __init__(
        self, root: MapType, *, zero: Json | None = None, is_loose: bool = True, drops_null: bool = False
    ) -> None:
        self.root = root
        self.zero: Json = zero or {}
        self.is_loose = is_loose
        self.drops_null = drops_null


def schema_model(schema: Mapping[str, Any], object_meta: MapType) -> TypeModel:
    """The model of a custom resource from its version's openAPIV3Schema.

    `object_meta` is the type of metadata, here and in embedded resources (`model.object_meta()`).
    """
    preserves = schema.get("x-kubernetes-preserve-unknown-fields") is True
    root = _SchemaCompiler(object_meta).object_type(schema, preserves, is_resource=True)
    declared = {name: each for name, each in root.declared.items() if isinstance(each, Mapping)}
    return TypeModel(root, is_loose=_is_loose({**schema, "type": "object", "properties": declared}))


class _SchemaCompiler:
    """Turns schema nodes into types; x-kubernetes-preserve-unknown-fields is inherited as `preserves`."""

    def __init__(self, object_meta: MapType) -> None:
        self._object_meta = object_meta

    def compile(self, schema: Mapping[str, Any], preserves: bool) -> Type:
        preserves = preserves or schema.get("x-kubernetes-preserve-unknown-fields") is True
        kind = schema.get("type") or ""
        if kind == "object":
            return self.object_type(schema, preserves)
        if kind == "array":
            return self._list_type(schema, preserves)
        if kind == "":
            return any_type(self._list_type(schema, preserves), self.object_type(schema, preserves))
        if kind == "string":
            return STRING if schema.get("format") in (None, "", "byte") else UNTYPED_SCALAR
        return BOOLEAN if kind == "boolean" else NUMERIC

    def object_type(
        self, schema: Mapping[str, Any], preserves: bool, *, is_resource: bool = False
    ) -> MapType:
        declared: dict[str, Any] = dict(schema.get("properties") or {})
        if is_resource or schema.get("x-kubernetes-embedded-resource") is True:
            declared.update(apiVersion=STRING, kind=STRING, metadata=self._object_meta)

        def compile_field(source: Any) -> Type:
            return self.compile(source, preserves) if isinstance(source, Mapping) else source

        additional = schema.get("additionalProperties")
        element: Type | None = None
        if isinstance(additional, Mapping):
            element = self.compile(additional, preserves)
        elif additional is True or (additional is None and (preserves or not declared)):
            element = DEDUCED
        return MapType(
            declared,
            compile_field,
            element=element,
            is_atomic=schema.get("x-kubernetes-map-type") == "atomic",
            default_of=_schema_default,
        )

    def _list_type(self, schema: Mapping[str, Any], preserves: bool) -> ListType:
        items = schema.get("items")
        element = self.compile(items, preserves) if isinstance(items, Mapping) else UNTYPED
        kind = schema.get("x-kubernetes-list-type")
        if kind == "map":
            return ListType("map", element, tuple(schema.get("x-kubernetes-list-map-keys") or ()))
        return ListType("set" if kind == "set" else "atomic", element)


def _schema_default(source: Any) -> Any:
    default = source.get("default") if isinstance(source, Mapping) else None
    return ABSENT if default is None else default


def _is_loose(schema: Mapping[str, Any]) -> bool:
    """Whether some value below has no declared type."""
    if not schema.get("type") or schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return True
    additional = schema.get("additionalProperties")
    properties: Mapping[str, Any] = schema.get("properties") or {}
    if additional is True or (schema["type"] == "object" and additional is None and not properties):
        return True
    below = [*properties.values(), additional, schema.get("items")]
    return any(isinstance(each, Mapping) and _is_loose(each) for each in below)
