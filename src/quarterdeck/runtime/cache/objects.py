"""What cached lists hand out: sequences that decode an object when it is read."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from quarterdeck.api.kind import Key
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.index import IndexTable

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Objects(Sequence[T_co]):
    """A snapshot of cached objects; an object costs nothing until it is looked at.

    ``entries`` are the undecoded objects, for those who only need names, labels or owners.
    """

    __slots__ = ("_decode", "entries")

    def __init__(self, entries: Sequence[Entry], decode: Callable[[Entry], T_co]) -> None:
        self.entries: Final = entries
        self._decode: Final = decode

    @overload
    def __getitem__(self, index: int) -> T_co: ...
    @overload
    def __getitem__(self, index: slice) -> "Objects[T_co]": ...
    def __getitem__(self, index: int | slice) -> "T_co | Objects[T_co]":
        if isinstance(index, slice):
            return Objects(self.entries[index], self._decode)
        return self._decode(self.entries[index])

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[T_co]:
        decode = self._decode
        for entry in self.entries:
            yield decode(entry)

    def object_keys(self) -> list[Key]:
        """Namespace and name of each, without decoding."""
        return [entry.key for entry in self.entries]

    def count(self, value: Any) -> int:
        """How many objects a predicate accepts; anything but a function is compared for equality."""
        if callable(value):
            return sum(1 for item in self if value(item))
        return sum(1 for item in self if item == value)

    def where(self, predicate: Callable[[T_co], bool]) -> list[T_co]:
        """The objects a predicate accepts."""
        return [item for item in self if predicate(item)]

    def first(self) -> T_co | None:
        """The first object, or ``None``."""
        return self._decode(self.entries[0]) if self.entries else None

    def __repr__(self) -> str:
        return f"Objects({[str(entry.key) for entry in self.entries]!r})"


class IndexView(Generic[T]):
    """A typed look into one index: ``view.get("value", namespace="a")``."""

    __slots__ = ("_decode", "_table")

    def __init__(self, table: IndexTable, decode: Callable[[Entry], T]) -> None:
        self._table: Final = table
        self._decode: Final = decode

    def get(self, value: str, namespace: str = "") -> Objects[T]:
        """The objects with a value, in one namespace or (empty) in all."""
        return Objects(self._table.get(value, namespace), self._decode)

    def count(self, value: str, namespace: str = "") -> int:
        """How many objects have a value, without looking at them."""
        return self._table.count(value, namespace)

    def values(self, namespace: str = "") -> tuple[str, ...]:
        """All values that occur."""
        return self._table.values(namespace)
