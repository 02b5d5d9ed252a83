"""What the built-in kinds have in common: the base of their strategies and comparison of documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.internalform import internal_text
from quarterdeck.apiserver.metadata import IMMUTABLE, invalid_json
from quarterdeck.apiserver.resource.strategy import Strategy
from quarterdeck.wire.fielderror import ErrorKind, FieldError, invalid

ALL_METADATA: Final = frozenset(("labels", "annotations", "finalizers", "ownerReferences"))
NO_METADATA: Final[frozenset[str]] = frozenset()

_SCALARS: Final = (str, int, float)


class BuiltinStrategy(Strategy):
    """Defaults for built-in kinds: no generation, no status."""

    has_generation = False
    #: which of labels, annotations, finalizers and ownerReferences a write to /status takes over
    status_metadata: frozenset[str] = ALL_METADATA


class PlainStrategy(BuiltinStrategy):
    """A kind without rules of its own (ServiceAccount)."""

    metadata_checks = 4


class SpecStrategy(BuiltinStrategy):
    """A kind with a spec, a status subresource and a generation."""

    has_generation = True
    has_status = True


def same(one: Any, two: Any) -> bool:
    """Equal as Go's semantic equality sees it: missing, null and empty are the same."""
    if one == two:
        return True
    if not one and not two:
        return not (isinstance(one, _SCALARS) and isinstance(two, _SCALARS))
    if isinstance(one, dict) and isinstance(two, dict):
        return all(same(one.get(key), two.get(key)) for key in one.keys() | two.keys())
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    return False


def immutable(new: Any, old: Any, field: str, *, struct: str = "") -> list[FieldError]:
    """`field is immutable` when the two differ; the new one is shown, with `struct` in its internal form."""
    if same(new, old):
        return []
    if struct and new is not None:
        return [invalid(field, internal_text(struct, new), IMMUTABLE)]
    if isinstance(new, dict | list):
        return [invalid_json(field, new, IMMUTABLE)]
    return [invalid(field, new, IMMUTABLE)]


def not_supported_json(field: str, value: Json, allowed: Sequence[str]) -> FieldError:
    """`not_supported` for an object whose keys are to be shown in the order they have."""
    text = invalid_json(field, value, "").body.removeprefix("Invalid value: ")
    values = ", ".join(f'"{item}"' for item in allowed)
    body = f"Unsupported value: {text}: supported values: {values}"
    return FieldError(ErrorKind.NOT_SUPPORTED, field, body)


def section(obj: Json, key: str) -> Json:
    """The object under `key`, created when missing."""
    found: Json | None = obj.get(key)
    if found is None:
        found = obj[key] = {}
    return found


def text_at(*path: str) -> Callable[[Json], str]:
    """A selectable field: the text at a path, "" when absent."""

    def read(obj: Json) -> str:
        node: Any = obj
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        if node is None:
            return ""
        if node is True:
            return "true"
        if node is False:
            return "false"
        return str(node)

    return read
