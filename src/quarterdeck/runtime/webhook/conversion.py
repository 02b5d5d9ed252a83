"""Conversion between the versions of a kind: one hub, any number of spokes.

Every version but the hub says how to become the hub and how to be made from it; two spokes go through the
hub. A spoke is a class with the two methods of ``Convertible``, or a ``Spoke`` with two functions::

    Conversion(v1.NodeGroup, v1alpha1.NodeGroup)                          # methods
    Conversion(v1.NodeGroup, Spoke(v1alpha1.NodeGroup, to_hub, from_hub))   # functions

A ``GroupVersionKind`` instead of a class means plain dictionaries. Functions may be ``async``.

``Conversion`` is one ``Converter``. An operator whose conversion does not fit (a step that must know both
ends, something read once for a whole review) brings one of its own; the endpoint serves either.

The API server takes all metadata but labels and annotations from the object it sent and refuses answers that
changed name, namespace or UID; here any other metadata change is an error of the converter and says so.
Pass the source's ``metadata`` on as it is: that is also the fastest.
"""

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, Self, TypeAlias, TypeVar, cast

import msgspec

from quarterdeck.api import GroupVersionKind, ObjectMeta, Resource, decode, encode
from quarterdeck.api.codec import decode_json
from quarterdeck.api.kind import GroupVersion
from quarterdeck.errors import ConfigError, QuarterdeckError, SchemaError

Document: TypeAlias = dict[str, Any]
Version: TypeAlias = type[Resource] | GroupVersionKind
Convert: TypeAlias = Callable[[Any], Any]
"""Takes an object of one version, returns (or awaits) the same object in another."""

R_co = TypeVar("R_co", bound=Resource, covariant=True)
_VARIABLE: Final = ("labels", "annotations")
_fixed_fields: Final = attrgetter(
    *(name for name in cast("Any", ObjectMeta).__struct_fields__ if name not in _VARIABLE)
)


class Unconvertible(QuarterdeckError):
    """The object cannot be converted; the message says why."""


class ReviewFailed(QuarterdeckError):
    """The review fails as a whole: no single object is to blame."""


class ReviewConversion(Protocol):
    """The conversion of one kind's objects in one review."""

    def run(self, raw: msgspec.Raw, source: str | None = None) -> bytes | Awaitable[bytes] | None:
        """The converted JSON; raises ``Unconvertible``, or ``ReviewFailed`` for the review as a whole.

        Lists are long and mostly of one version, so the head of an object is not looked at beforehand.
        ``None`` means: not an object of the kind, or of another version than the ones before. The object
        is then given once more, with the ``source`` its head names, if the kind is this one.
        """
        ...


class Converter(Protocol):
    """Converts all versions of one kind."""

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind; the version is that of the hub."""
        ...

    @property
    def definition(self) -> str:
        """The name of the CRD, ``widgets.example.io``; empty if only others know it."""
        ...

    async def begin(self, target: str) -> ReviewConversion:
        """Once per review that has objects of the kind; what it raises fails the review as a whole."""
        ...


class Convertible(Protocol[R_co]):
    """A class that is a spoke by itself."""

    def to_hub(self) -> R_co:
        """This object in the hub version."""
        ...

    @classmethod
    def from_hub(cls, hub: Any) -> Self:
        """An object of this version from the hub."""
        ...


class Spoke(msgspec.Struct, frozen=True):
    """A version that is not the hub, and its two functions."""

    version: Version
    to_hub: Convert
    from_hub: Convert


class Conversion:
    """All versions of one kind."""

    def __init__(
        self,
        hub: Version,
        *spokes: Spoke | type[Resource],
        same_version: Literal["refuse", "keep"] = "refuse",
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Collect the versions; raises ``ConfigError`` when they do not belong together.

        ``same_version="keep"`` gives back objects that are in the wanted version already, instead of
        refusing them; the API server sends none. ``prepare`` runs before each review (to read what the
        functions need); what it raises fails the review as a whole.
        """
        self.hub: Final = hub
        self.gvk: Final = _gvk(hub)
        self.keeps_same_version: Final = same_version == "keep"
        self.prepare: Final = prepare
        self._versions: Final[dict[str, _Version]] = {}
        self._add(_Version(hub, None, None))
        for each in spokes:
            spoke = each if isinstance(each, Spoke) else _methods(each)
            self._add(_Version(spoke.version, spoke.to_hub, spoke.from_hub))

    def _add(self, version: "_Version") -> None:
        gvk = version.gvk
        if gvk.group_kind != self.gvk.group_kind:
            raise ConfigError(f"{gvk.group_kind} cannot be converted to {self.gvk.group_kind}")
        if gvk.api_version in self._versions:
            raise ConfigError(f"{self.gvk.group_kind}: version {gvk.version} is given twice")
        self._versions[gvk.api_version] = version

    @property
    def definition(self) -> str:
        """The name of the CRD; empty for a hub without class, whose resource only the author knows."""
        hub = self.hub
        return "" if isinstance(hub, GroupVersionKind) else f"{hub.type_info.plural}.{hub.type_info.group}"

    async def begin(self, target: str) -> ReviewConversion:
        """Prepare for one review."""
        if self.prepare is not None:
            await self.prepare()
        return _Run(self, target)

    @property
    def versions(self) -> tuple[Version, ...]:
        """The hub, then the spokes."""
        return tuple(version.version for version in self._versions.values())

    def plan(self, source: str, target: str) -> "Plan":
        """How to get from one apiVersion to another; raises ``Unconvertible``."""
        origin, goal = self._versions.get(source), self._versions.get(target)
        if source == target and origin is not None:
            if self.keeps_same_version:
                return Plan(origin, origin, ())
            raise Unconvertible(f"conversion is not allowed between same type {source} {self.gvk.kind}")
        if origin is None:
            raise Unconvertible(f"convert to hub: unsupported source version: {source}")
        if goal is None:
            return Plan(origin, None, (), wanted=target)
        steps = tuple(step for step in (origin.to_hub, goal.from_hub) if step is not None)
        return Plan(origin, goal, steps)


class _Run:
    """Objects of one review; remembers the way of the object before."""

    __slots__ = ("_conversion", "_plan", "_target")

    def __init__(self, conversion: Conversion, target: str) -> None:
        self._conversion: Final = conversion
        self._target: Final = target
        self._plan: Plan | None = None

    def run(self, raw: msgspec.Raw, source: str | None = None) -> bytes | Awaitable[bytes] | None:
        if source is not None:
            self._plan = self._find(source)
        return self._plan.run(raw) if self._plan is not None else None

    def _find(self, source: str) -> "Plan":
        group = GroupVersion.parse(self._target).group
        if group != self._conversion.gvk.group:
            raise Unconvertible(f"src {source} and dst {group} does not belong to same API Group")
        return self._conversion.plan(source, self._target)


class _Version:
    """One version: how it is read, recognised and written."""

    __slots__ = ("api_version", "cls", "from_hub", "gvk", "to_hub", "version")

    def __init__(self, version: Version, to_hub: Convert | None, from_hub: Convert | None) -> None:
        self.version: Final = version
        self.gvk: Final = _gvk(version)
        self.api_version: Final = self.gvk.api_version
        self.cls: Final = None if isinstance(version, GroupVersionKind) else version
        self.to_hub: Final = to_hub
        self.from_hub: Final = from_hub

    def read(self, raw: msgspec.Raw) -> Any:
        """The object of this version in some JSON; raises ``SchemaError``."""
        if self.cls is not None:
            return decode(raw, self.cls)
        document = decode_json(raw)
        if type(document) is not dict:
            raise SchemaError("expected an object")
        return document


class Plan:
    """The way from one version to another."""

    __slots__ = ("_source", "_steps", "_target", "_wanted")

    def __init__(
        self, source: _Version, target: _Version | None, steps: tuple[Convert, ...], wanted: str = ""
    ) -> None:
        """Without a ``target`` objects are read, so that their own faults are named first, then refused."""
        self._source: Final = source
        self._target: Final = target
        self._steps: Final = steps
        self._wanted: Final = wanted

    def run(self, raw: msgspec.Raw) -> bytes | Awaitable[bytes] | None:
        """The converted JSON; ``None`` if the object is not of the version this plan starts from."""
        source = self._source
        try:
            obj = source.read(raw)
        except SchemaError as error:
            if not _has_head(raw, source):
                return None
            raise Unconvertible(
                f"convert to hub: failed to unmarshal {source.gvk.version}: {error}"
            ) from error
        if not _is(obj, source):
            return None
        if self._target is None:
            raise Unconvertible(f"unsupported desired version: {self._wanted}")
        if not self._steps:
            return bytes(raw)
        value = obj
        for place, step in enumerate(self._steps):
            value = step(value)
            if isawaitable(value):
                return self._go_on(raw, obj, value, self._steps[place + 1 :])
        return self._finish(raw, obj, value)

    async def _go_on(
        self, raw: msgspec.Raw, obj: Any, pending: Awaitable[Any], rest: tuple[Convert, ...]
    ) -> bytes:
        value = await pending
        for step in rest:
            value = step(value)
            if isawaitable(value):
                value = await value
        return self._finish(raw, obj, value)

    def _finish(self, raw: msgspec.Raw, source: Any, result: Any) -> bytes:
        target = self._target
        assert target is not None
        if not _is(result, target):
            raise Unconvertible(
                f"the converter returned {_describe(result)} instead of "
                f"{target.api_version} {target.gvk.kind}"
            )
        _check_metadata(raw, source, result)
        return encode(result)


def _has_head(raw: msgspec.Raw, version: _Version) -> bool:
    try:
        head = decode_json(raw)
    except SchemaError:
        return True  # not even JSON: nobody else can read it either
    return _is_document(head, version)


def _is(value: Any, version: _Version) -> bool:
    if version.cls is not None:
        return (
            type(value) is version.cls
            and value.api_version == version.api_version
            and value.kind == version.gvk.kind
        )
    return _is_document(value, version)


def _is_document(value: Any, version: _Version) -> bool:
    return (
        type(value) is dict
        and value.get("apiVersion") == version.api_version
        and value.get("kind") == version.gvk.kind
    )


def _describe(value: Any) -> str:
    if type(value) is dict:
        return f"{value.get('apiVersion')} {value.get('kind')}"
    if isinstance(value, Resource):
        return f"{value.api_version} {value.kind}"
    return f"a {type(value).__name__}"


def _check_metadata(raw: msgspec.Raw, source: Any, result: Any) -> None:
    """Everything but labels and annotations must be as it was."""
    if isinstance(source, Resource) and isinstance(result, Resource):
        before, after = source.metadata, result.metadata
        if after is before or _fixed_fields(after) == _fixed_fields(before):
            return
        raise _changed(_metadata_fields(before), _metadata_fields(after))
    # A function of dictionaries may have changed the very document it was given: read it again.
    before_doc = _fixed(source if isinstance(source, Resource) else decode_json(raw))
    after_doc = _fixed(result)
    if before_doc != after_doc:
        raise _changed(before_doc, after_doc)


def _fixed(obj: Any) -> Document:
    if isinstance(obj, Resource):
        return _metadata_fields(obj.metadata)
    metadata = obj.get("metadata")
    if metadata is not None and type(metadata) is not dict:
        raise Unconvertible("parse object metadata: expected an object")
    return {key: value for key, value in (metadata or {}).items() if key not in _VARIABLE}


def _metadata_fields(metadata: ObjectMeta) -> Document:
    document = cast("Document", decode_json(encode(metadata)))
    return {key: value for key, value in document.items() if key not in _VARIABLE}


def _changed(before: Document, after: Document) -> Unconvertible:
    keys = sorted({*before, *after}, key=str)
    key = next(key for key in keys if before.get(key) != after.get(key))
    return Unconvertible(f"the converter changed metadata.{key}: {before.get(key)!r} != {after.get(key)!r}")


def _gvk(version: Version) -> GroupVersionKind:
    return version if isinstance(version, GroupVersionKind) else version.type_info.gvk


def _methods(cls: type[Resource]) -> Spoke:
    to_hub, from_hub = getattr(cls, "to_hub", None), getattr(cls, "from_hub", None)
    if not callable(to_hub) or not callable(from_hub):
        gvk = cls.type_info.gvk
        raise ConfigError(
            f"{gvk.api_version} {gvk.kind} is a spoke without conversion: "
            "give it the methods to_hub and from_hub, or pass a Spoke"
        )
    return Spoke(cls, to_hub, from_hub)
