"""Sets of field paths, held the way fieldsV1 writes them.

A set is a trie of plain dicts: each key is a path element, each value the node below it. An empty node
is a member without members below; a node that has some is itself a member only if it holds ".".

    {"f:spec": {"f:tags": {".": {}, 'v:"a"': {}}}}     # .spec.tags and .spec.tags[="a"], but not .spec

So a set needs no conversion on its way from and to managedFields. At the root there is no own
membership: `{}` is the empty set there. Sets are values: no function changes its arguments, results
share nodes with them, and nobody may change a node once it is part of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from . import pathelement

FieldSet: TypeAlias = dict[str, "FieldSet"]
#: a path: the elements from the root down
Path: TypeAlias = tuple[str, ...]

_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode
_decode_json: Final = msgspec.json.Decoder().decode

#: the node of a member with nothing below
LEAF: Final[FieldSet] = {}


def is_empty(fields: FieldSet) -> bool:
    return not fields


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with its elements sorted, as upstream writes them: clients compare the texts."""
    out: FieldSet = _decode_json(_encode_sorted(fields))
    return out


def contains(fields: FieldSet, path: Sequence[str]) -> bool:
    """Whether the path is a member; the empty path never is."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element) if node else None
        if node is None:
            return False
    return bool(path) and node is not None and (not node or "." in node)


def from_paths(all_paths: Iterable[Sequence[str]]) -> FieldSet:
    """The set of the given paths; parents are not added."""
    root: FieldSet = {}
    for path in all_paths:
        if not path:
            continue
        addition: FieldSet = LEAF
        for element in reversed(path):
            addition = {element: addition}
        root = union(root, addition)
    return root


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Every path of either set."""
    if not left or left is right:
        return right
    if not right:
        return left
    out = left.copy()
    for element, theirs in right.items():
        ours = out.get(element)
        if ours is None:
            out[element] = theirs
        elif ours is not theirs:
            out[element] = _union_nodes(ours, theirs)
    return out


def _union_nodes(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right if not right or "." in right else {".": LEAF, **right}
    if not right:
        return left if "." in left else {".": LEAF, **left}
    return union(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of `left` that are not in `right`; a parent in `right` does not take its children along."""
    if not left or not right:
        return left
    out = left
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None:
            continue
        rest = _difference_nodes(ours, theirs)
        if rest is ours:
            continue
        if out is left:
            out = left.copy()
        if rest is None:
            del out[element]
        else:
            out[element] = rest
    return out


def _difference_nodes(left: FieldSet, right: FieldSet) -> FieldSet | None:
    if not left:
        return None if not right or "." in right else left
    if not right:
        return _without_self(left)
    rest = difference(left, right)
    if not rest:
        return None
    return LEAF if len(rest) == 1 and "." in rest else rest


def _without_self(node: FieldSet) -> FieldSet:
    if "." not in node:
        return node
    node = node.copy()
    del node["."]
    return node


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """`left` without the members of `right` and without everything below them."""
    if not left or not right:
        return left
    out = left
    for element, theirs in right.items():
        ours = left.get(element)
        if ours is None or element == ".":
            continue
        rest = None if not theirs or "." in theirs else recursive_difference(ours, theirs) if ours else ours
        if rest is ours:
            continue
        if out is left:
            out = left.copy()
        if not rest:
            del out[element]
        else:
            out[element] = LEAF if len(rest) == 1 and "." in rest else rest
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths that are in both sets."""
    if len(right) < len(left):
        left, right = right, left
    out: FieldSet = {}
    for element, ours in left.items():
        theirs = right.get(element)
        if theirs is None:
            continue
        if ours is theirs:
            out[element] = ours
            continue
        common = intersection(ours, theirs) if ours and theirs else LEAF
        if (not ours or "." in ours) and (not theirs or "." in theirs):
            out[element] = common if len(common) > 1 else LEAF
        elif common:
            out[element] = common
    return out


def leaves(fields: FieldSet) -> FieldSet:
    """The members with no member below."""
    return {element: leaves(node) if node else LEAF for element, node in fields.items() if element != "."}


def paths(fields: FieldSet) -> Iterator[Path]:
    """All members in structured-merge-diff's order: at each level the members, then what is below."""
    return _paths(fields, ())


def _paths(node: FieldSet, prefix: Path) -> Iterator[Path]:
    elements = sorted((element for element in node if element != "."), key=pathelement.sort_key)
    for element in elements:
        child = node[element]
        if not child or "." in child:
            yield (*prefix, element)
    for element in elements:
        if node[element]:
            yield from _paths(node[element], (*prefix, element))


def render(path: Iterable[str]) -> str:
    """A path as people read it: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(pathelement.render, path))


def decode(raw: Any) -> FieldSet:
    """fieldsV1 as a client sent it, in canonical form; ValueError if it cannot be read.

    Elements of unknown kinds are dropped. What the server wrote itself is a set as it stands.
    """
    return _decode(raw, {})


def _decode(raw: Any, out: FieldSet) -> FieldSet:
    if raw is None:
        return out
    if not isinstance(raw, dict):
        raise ValueError("fieldsV1 must consist of objects")
    for text, below in raw.items():
        if text == ".":
            continue
        element = pathelement.canonical(text)
        if element is None:
            continue
        node = _decode(below, {})
        if node and "." in below:
            node = {".": LEAF, **node}
        known = out.get(element)
        out[element] = node if known is None else _union_nodes(known, node)
    return out
