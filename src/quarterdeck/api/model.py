"""The base of every typed object: frozen, camelCase on the wire, nothing lost.

``Model`` is a msgspec struct with Kubernetes manners. A subclass is a plain declaration::

    class WidgetSpec(Model):
        replicas: int = 1                          # literal default: written always, schema default
        image: str                                 # required
        note: Maybe[str] = UNSET                   # optional: UNSET is "not mine", never written
        env: Seq[EnvVar] = omitempty(())           # optional: left out while it is empty
        labels: Map[str, str] = omitempty(EMPTY_MAP)

**Frozen.** Attributes cannot be assigned, arrays are tuples, maps refuse mutation. ``evolve(...)``
returns a changed copy that shares everything else; ``draft()`` is the comfortable way to change
something deep inside. Freezing instead of deep-copying is what makes a cached read cost nothing.

**Unknown fields survive, at every depth.** How: the struct classes *forbid* unknown fields, so that the
usual decode runs in C and proves at no cost that there is nothing to keep. Only when that decode fails
does ``codec`` walk the document, move what a class does not know into that struct's ``unknown_fields``
and decode again. Encoding writes such fields back into their object. Because each struct carries its
own unknown fields they travel with it: through ``evolve``, through reordered lists, and from a template
into the object made from it. The alternatives were measured and dropped: keeping the raw document
beside the typed one needs guesses about which list element became which, and loses fields when a
sub-tree moves to another object; collecting the remainder on every decode costs five times the decode.
A ``null`` where the class allows none is kept the same way.

**Defaults.** A literal default is written out (an apply must be able to say ``suspend: false``).
``omitempty(x)`` marks a default that stays off the wire. ``UNSET`` is never written, and it is falsy,
so ``obj.spec.note or "…"`` reads well. ``None`` is JSON ``null`` where ``Maybe[T | None]`` says so, and
with ``T | None = None`` it just means absent.

What this module is not: validation. Types guide decoding; ranges, patterns and rules are declared with
the markers of ``marker`` and enforced by the API server.
"""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeAlias, TypeVar, cast, dataclass_transform

import msgspec
from msgspec import UNSET, UnsetType

from quarterdeck.api.draft import Draft
from quarterdeck.api.frozen import EMPTY_MAP, FrozenMap, JsonObject, JsonValue, freeze, view
from quarterdeck.api.naming import to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping as Map
    from collections.abc import Sequence as Seq

__all__ = [
    "EMPTY_MAP",
    "UNKNOWN_KEY",
    "UNSET",
    "JsonField",
    "JsonObjectField",
    "Map",
    "Maybe",
    "Model",
    "Seq",
    "UnsetType",
    "field",
    "from_wire",
    "omitempty",
    "to_wire_value",
    "value_or",
]

T = TypeVar("T")
Maybe: TypeAlias = T | UnsetType
"""An optional field whose absence (``UNSET``) differs from null and from zero."""

UNKNOWN_KEY: Final = "§unknown"
"""Wire key under which structs keep their unknown fields between decode and encode; never sent."""


class _OmitEmpty:
    """Marks a default that is not written to the wire; see ``omitempty``."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def omitempty(value: T) -> T:
    """A default that stays off the wire, as ``omitempty`` does in Go.

    Meant for ``""``, ``()``, ``EMPTY_MAP`` and struct instances. Small literals are compared by
    identity, so an explicit ``""`` or ``[]`` on the wire reads as the default and is not written back:
    where that difference matters use ``Maybe``.
    """
    return cast("T", _OmitEmpty(value))


def field(*, name: str, default: Any = msgspec.NODEFAULT) -> Any:
    """A field whose wire name breaks the naming rule: ``storage_uri: str = field(name="storageUri")``."""
    return _Named(name, default)


class _Named:
    __slots__ = ("default", "name")

    def __init__(self, name: str, default: Any) -> None:
        self.name = name
        self.default = default


if not TYPE_CHECKING:

    class Seq:
        """``Seq[T]`` reads as ``Sequence[T]`` for type checkers and decodes to ``tuple[T, ...]``."""

        def __class_getitem__(cls, item: Any) -> Any:
            return tuple[item, ...]

    class Map(FrozenMap):
        """``Map[K, V]`` reads as ``Mapping[K, V]`` for type checkers and decodes to a ``FrozenMap``."""

        __slots__ = ()
        key_type = str
        value_type = Any
        plain_type = dict
        _known: ClassVar = {}

        def __class_getitem__(cls, item: Any) -> Any:
            made = Map._known.get(item)
            if made is None:
                key, value = item
                types = {"key_type": key, "value_type": value, "plain_type": dict[key, value]}
                made = type("Map", (Map,), {"__slots__": (), **types})
                Map._known[item] = made
            return made

        @classmethod
        def from_wire(cls, value: Any) -> Any:
            if cls.value_type is str:
                if type(value) is not dict:
                    raise ValueError(f"Expected `object`, got `{_json_type(value)}`")
                for key, item in value.items():
                    if type(item) is not str:
                        raise ValueError(f"Expected `str`, got `{_json_type(item)}` at key `{key}`")
                return cls(value)
            reader = getattr(cls.value_type, "from_wire", None)
            if reader is not None and type(value) is dict:
                return cls({key: reader(item) for key, item in value.items()})
            return cls(msgspec.convert(value, cls.plain_type, dec_hook=from_wire))


class _AnyInstance(type):
    """msgspec checks what a decode hook returns; free-form fields return whatever the JSON was."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class _JsonField(metaclass=_AnyInstance):
    """Decode target of free-form fields: any JSON value, read through views."""

    __slots__ = ()

    @classmethod
    def from_wire(cls, value: Any) -> Any:
        return view(value)


class _JsonObjectField(_JsonField):
    """Decode target of free-form objects."""

    __slots__ = ()

    @classmethod
    def from_wire(cls, value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError(f"Expected `object`, got `{_json_type(value)}`")
        return view(value)


if TYPE_CHECKING:
    JsonField = JsonValue
    JsonObjectField = JsonObject
else:
    JsonField = _JsonField
    JsonObjectField = _JsonObjectField


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "str", bool: "bool", int: "int", float: "float"}
    return names.get(type(value), "null")


def from_wire(kind: Any, value: Any) -> Any:
    """msgspec's decode hook: every value type of ours knows how to read itself."""
    try:
        reader: Callable[[Any], Any] = kind.from_wire
    except AttributeError:
        raise TypeError(f"no decoder for {kind!r}") from None
    return reader(value)


def to_wire_value(value: Any) -> Any:
    """msgspec's encode hook, the counterpart of ``from_wire``."""
    try:
        writer: Callable[[], Any] = value.to_wire
    except AttributeError:
        raise TypeError(f"cannot encode {type(value).__name__} as JSON") from None
    return writer()


if TYPE_CHECKING:

    @dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
    class ModelMeta(type): ...

    _Base = object
else:

    class ModelMeta(msgspec.StructMeta):
        """Turns declarations into struct fields: keyword-only, defaults by the rules of the module."""

        def __new__(mcls, name, bases, namespace, **options):
            literals = {}
            for key, value in list(namespace.items()):
                if key.startswith("__") or key not in _annotated(namespace):
                    continue
                if isinstance(value, _Named):
                    namespace[key] = _struct_field(value.default, literals, key, name=value.name)
                else:
                    namespace[key] = _struct_field(value, literals, key)
            options.setdefault("kw_only", True)
            rules = tuple(options.pop("rules", ()))
            cls = super().__new__(mcls, name, bases, namespace, **options)
            inherited = {}
            for base in reversed(cls.__mro__[1:]):
                inherited.update(base.__dict__.get("literal_defaults", {}))
            cls.literal_defaults = {**inherited, **literals}
            cls.schema_rules = rules
            return cls

        def __call__(cls, *args, **kwargs):  # noqa: N805  the instance of a metaclass is a class
            # Values given by hand are frozen here, so that a constructed object equals a decoded one.
            for key, value in kwargs.items():
                if type(value) in _MUTABLE:
                    kwargs[key] = freeze(value)
            return super().__call__(*args, **kwargs)

    def _annotated(namespace):
        if "__annotations__" in namespace:
            return namespace["__annotations__"]
        annotate = namespace.get("__annotate_func__") or namespace.get("__annotate__")
        if annotate is None:
            return {}
        import annotationlib  # Python 3.14 keeps annotations in a function

        return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)

    def _struct_field(value, literals, key, name=None):
        if isinstance(value, _OmitEmpty):
            return msgspec.field(default=value.value, name=name)
        if value is msgspec.NODEFAULT:
            return msgspec.field(name=name)
        if value is UNSET or value is None:
            return msgspec.field(default=value, name=name)
        value = freeze(value)
        literals[key] = value
        # msgspec leaves out values identical to their default; a factory has no identity to compare.
        return msgspec.field(default_factory=itertools.repeat(value).__next__, name=name)

    _Base = msgspec.Struct

_MUTABLE: Final = (list, dict)


class Model(
    _Base,
    metaclass=ModelMeta,
    frozen=True,
    gc=False,  # decoded JSON is a tree: there are no cycles to collect
    rename=to_wire,
    omit_defaults=True,
    forbid_unknown_fields=True,
    repr_omit_defaults=True,
):
    """Base of every struct inside an API object; see the module for the rules.

    The class keyword ``rules=[...]`` takes the markers that concern the whole object (``Cel``,
    ``OneOf``, ``Preserve``, ``Atomic`` …).
    """

    literal_defaults: ClassVar[dict[str, Any]]
    """Field name → literal default, which is also the default in the schema."""

    schema_rules: ClassVar[tuple[Any, ...]]
    """The markers given with ``rules=``; not inherited."""

    unknown_fields: Maybe[JsonObjectField] = field(name=UNKNOWN_KEY, default=UNSET)
    """Fields of the document that the class does not declare; written back on encode."""

    def evolve(self, **changes: object) -> Self:
        """A copy with some fields replaced; everything else, unknown fields included, is shared.

        >>> from quarterdeck.api import Condition
        >>> Condition(type="Ready", status="False").evolve(status="True").status
        'True'
        """
        frozen = {key: freeze(value) for key, value in changes.items()}
        return cast("Self", msgspec.structs.replace(cast("Any", self), **frozen))

    def draft(self) -> Draft[Self]:
        """A mutable twin: change it freely, at any depth, then call ``done()`` for the frozen result."""
        return Draft(self)


def value_or(value: T | UnsetType, default: T) -> T:
    """The value, or ``default`` where it is unset; unlike ``or`` it keeps zero and the empty string."""
    return default if isinstance(value, UnsetType) else value
