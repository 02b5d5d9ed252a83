"""The named parts of a JSON document, and nothing else of it.

A projection presses a document through a struct whose leaves keep their bytes: fast enough for every
event, and the base of ``keep_only`` and of predicates that compare parts.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

_encode: Final = msgspec.json.Encoder().encode
_plain: Final = msgspec.json.Decoder()


class Projection:
    """Keeps the fields on some paths; a path is a sequence of keys, ``*`` goes through a list."""

    def __init__(self, paths: Sequence[Sequence[str]]) -> None:
        tree: dict[str, Any] = {}
        for path in paths:
            _plant(tree, tuple(path))
        self._tree: Final = tree
        self._decoder: Final = msgspec.json.Decoder(_shape(tree))

    def __call__(self, raw: bytes) -> bytes:
        """The document without everything else; ``msgspec.ValidationError`` if it is shaped otherwise."""
        return _encode(self._decoder.decode(raw))

    def same(self, left: bytes, right: bytes) -> bool:
        """Whether two documents agree in the named parts, whatever the order of their keys."""
        try:
            one, two = self(left), self(right)
        except msgspec.ValidationError:
            return bool(_plain.decode(left) == _plain.decode(right))
        if one == two:
            return True
        return bool(_pruned(_plain.decode(one), self._tree) == _pruned(_plain.decode(two), self._tree))


def _plant(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    first, rest = path[0], path[1:]
    if not rest:
        tree[first] = {}  # the whole part, whatever longer paths said
        return
    below = tree.get(first)
    if below == {}:
        return  # a shorter path keeps this part whole already
    if below is None:
        below = tree[first] = {}
    _plant(below, rest)


def _pruned(document: Any, tree: dict[str, Any]) -> Any:
    """Without objects that are empty only because nothing of them was named."""
    if not tree:
        return document
    if isinstance(document, list):
        return [_pruned(item, tree.get("*", {})) for item in document]
    if not isinstance(document, dict):
        return document
    parts = {key: _pruned(value, tree[key]) for key, value in document.items()}
    return {key: value for key, value in parts.items() if value != {} or not tree[key]}


def _shape(tree: dict[str, Any]) -> Any:
    """The struct that a document is pressed through; leaves keep their bytes."""
    if not tree:
        return msgspec.Raw
    if "*" in tree:
        return list[_shape(tree["*"])]  # type: ignore[misc]  # a type made at run time
    fields = [
        (f"f{i}", _shape(below) | msgspec.UnsetType, msgspec.field(default=msgspec.UNSET, name=step))
        for i, (step, below) in enumerate(tree.items())
    ]
    return msgspec.defstruct("Kept", fields, gc=False, omit_defaults=True)
