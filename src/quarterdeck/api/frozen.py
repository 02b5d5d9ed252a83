"""Read-only containers: what maps and free-form JSON look like inside a frozen object.

Objects that come from a server or a cache must not change under their readers, and a failed attempt
must raise rather than corrupt a shared object. Three containers do that:

- ``FrozenMap``: a ``dict`` whose mutators raise. Reads run at C speed; labels, annotations and resource
  lists are such maps.
- ``MapView`` and ``SeqView``: lazy read-only windows on a plain decoded JSON document. Wrapping is O(1)
  whatever the size of the document, which is what dynamic objects and free-form fields need.
- JSON arrays with a known element type are plain tuples.

``thaw`` gives a private, mutable, plain copy of any of them; ``freeze`` is the way back. Views compare
equal to plain containers with the same content, lists and tuples alike.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")

JsonValue: TypeAlias = Any
"""A JSON value read through views: mapping, sequence, string, number, boolean or ``None``."""

JsonObject: TypeAlias = Mapping[str, Any]
"""A JSON object read through a view."""

_FROZEN = "the object is frozen: use evolve(...) or draft() to make a changed copy"


class FrozenMap(dict[K, V]):
    """A dictionary that cannot change after construction; hashable if its values are."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError(_FROZEN)

    __setitem__ = _refuse
    __delitem__ = _refuse
    __ior__ = _refuse
    clear = _refuse
    pop = _refuse
    popitem = _refuse
    setdefault = _refuse
    update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # dict is unhashable because it is mutable
        return hash(frozenset(self.items()))

    def __copy__(self) -> "FrozenMap[K, V]":
        return self

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        # Decoding makes subclasses per value type; they differ in nothing that outlives a pickle.
        return (FrozenMap, (dict(self),))


EMPTY_MAP: FrozenMap[Any, Any] = FrozenMap()
"""The shared empty map: default of optional maps that are omitted on the wire when empty."""


class MapView(Mapping[str, Any]):
    """Read-only view of a decoded JSON object; nested containers are wrapped when they are read."""

    __slots__ = ("_data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def __getitem__(self, key: str) -> Any:
        return view(self._data[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return _same(self._data, other)

    __hash__ = None  # type: ignore[assignment]  # a view of arbitrary JSON has no cheap hash

    def __repr__(self) -> str:
        return f"MapView({self._data!r})"

    def to_wire(self) -> dict[str, Any]:
        """The plain document behind the view; callers must not change it."""
        return self._data


class SeqView(Sequence[Any]):
    """Read-only view of a decoded JSON array."""

    __slots__ = ("_data",)

    def __init__(self, data: list[Any]) -> None:
        self._data = data

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "SeqView": ...
    def __getitem__(self, index: int | slice) -> Any:
        return view(self._data[index])

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return _same(self._data, other)

    __hash__ = None  # type: ignore[assignment]  # a view of arbitrary JSON has no cheap hash

    def __repr__(self) -> str:
        return f"SeqView({self._data!r})"

    def to_wire(self) -> list[Any]:
        """The plain document behind the view; callers must not change it."""
        return self._data


def view(value: Any) -> Any:
    """Wrap a plain JSON container in its read-only view; scalars pass through."""
    if type(value) is dict:
        return MapView(value)
    if type(value) is list:
        return SeqView(value)
    return value


def freeze(value: Any) -> Any:
    """A deeply read-only form of ``value``.

    Lists become tuples, flat dictionaries ``FrozenMap``, nested ones a view of a private copy: those are
    JSON documents, and readers compare them with lists.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return tuple([freeze(item) for item in value])
    if kind is dict:
        kinds = set(map(type, value.values()))
        if dict in kinds or list in kinds:
            return MapView(thaw(value))
        if tuple in kinds:
            return FrozenMap({key: freeze(item) for key, item in value.items()})
        return FrozenMap(value) if value else EMPTY_MAP
    return value


def thaw(value: Any) -> Any:
    """A private mutable copy made of plain dictionaries and lists."""
    if isinstance(value, MapView | SeqView):
        value = value.to_wire()
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value


def _same(left: Any, right: Any) -> bool:
    """JSON equality that sees through views and takes lists and tuples for the same."""
    if isinstance(left, MapView | SeqView):
        left = left.to_wire()
    if isinstance(right, MapView | SeqView):
        right = right.to_wire()
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
