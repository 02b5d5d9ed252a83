"""Drafts: change a frozen object in place, pay only for what changed.

``obj.draft()`` wraps the object. Reading a nested struct gives a nested draft, reading a list or map
gives a private mutable copy; assigning is recorded. ``done()`` builds the new object and shares every
part that was not touched, unknown fields included. The original never changes::

    draft = pod.draft()
    draft.spec.containers[0].image = "registry/app:2"
    draft.metadata.labels["stage"] = "canary"
    pod = draft.done()

An untouched draft gives back the very same object, so ``draft.done() is obj`` tells that nothing
changed. Drafts are dynamically typed: the names are checked against the class at run time.
"""

from functools import cache
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from quarterdeck.api.frozen import MapView, SeqView, freeze, thaw

M = TypeVar("M")

_VIEWS: Final = (MapView, SeqView)


class Draft(Generic[M]):
    """A mutable stand-in for one frozen struct."""

    __slots__ = ("_base", "_edits", "_fields")

    _base: M
    _edits: dict[str, Any]
    _fields: frozenset[str]

    def __init__(self, base: M) -> None:
        _set_base(self, base)
        _set_edits(self, {})
        _set_fields(self, _fields_of(cast("Any", type(base))))

    def __getattr__(self, name: str) -> Any:
        edits = self._edits
        if name in edits:
            return edits[name]
        value = getattr(self._base, name)
        if name in self._fields:
            mutable = _mutable(value)
            if mutable is not value:
                edits[name] = mutable
                return mutable
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._fields:
            raise AttributeError(f"{type(self._base).__name__} has no field {name!r}")
        self._edits[name] = value

    def __repr__(self) -> str:
        return f"Draft({self.done()!r})"

    def done(self) -> M:
        """The frozen result; the original object itself when nothing changed."""
        changes = {}
        for name, value in self._edits.items():
            before = getattr(self._base, name)
            after = _settle(value, before)
            if after is not before:
                changes[name] = after
        if not changes:
            return self._base
        return cast("M", msgspec.structs.replace(cast("Any", self._base), **changes))


# The slots themselves: Draft's own attribute access is for the fields of the struct.
_set_base: Final = Draft.__dict__["_base"].__set__
_set_edits: Final = Draft.__dict__["_edits"].__set__
_set_fields: Final = Draft.__dict__["_fields"].__set__


@cache
def _fields_of(kind: type) -> frozenset[str]:
    return frozenset(cast("Any", kind).__struct_fields__)


def _mutable(value: Any) -> Any:
    if isinstance(value, msgspec.Struct) and hasattr(value, "draft"):  # a Model, whose module needs this one
        return Draft(value)
    if isinstance(value, tuple):
        return [_mutable(item) for item in value]
    if isinstance(value, dict):
        return {key: _mutable(item) for key, item in value.items()}
    if isinstance(value, _VIEWS):
        return thaw(value)
    return value


def _settle(value: Any, before: Any) -> Any:
    """Freeze an edited value; give back ``before`` itself where the edit changed nothing."""
    if isinstance(value, Draft):
        return value.done()
    if isinstance(value, list):
        return _settle_list(value, before)
    if isinstance(value, dict):
        if isinstance(before, MapView):
            return before if before == value else MapView(thaw(value))
        known = before if isinstance(before, dict) else {}
        if value.keys() == known.keys() and _are_texts(value) and value == known:
            return before
        settled = freeze({key: _settle(item, known.get(key)) for key, item in value.items()})
        return before if isinstance(before, dict) and _identical(settled, before) else settled
    return before if type(value) is type(before) and value == before else freeze(value)


def _are_texts(value: dict[Any, Any]) -> bool:
    """Whether this is a map of strings, as most are: it can be compared whole."""
    return set(map(type, value.values())) == {str}


def _settle_list(value: list[Any], before: Any) -> Any:
    if isinstance(before, SeqView):
        return before if before == value else SeqView(thaw(value))
    known = before if isinstance(before, tuple) else ()
    # Elements may have moved: a draft finds its original by itself, plain values do not need one.
    settled = tuple([_settle(item, known[i] if i < len(known) else None) for i, item in enumerate(value)])
    if len(settled) == len(known) and all(a is b or a == b for a, b in zip(settled, known, strict=True)):
        return before
    return settled


def _identical(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    return left.keys() == right.keys() and all(
        value is right[key] or value == right[key] for key, value in left.items()
    )
