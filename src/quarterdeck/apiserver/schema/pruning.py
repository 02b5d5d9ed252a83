"""Pruning: fields that the schema does not know are dropped.

Below x-kubernetes-preserve-unknown-fields unknown fields stay, but specified ones are pruned again. The
metadata of the object itself and of embedded resources is left to `objectmeta`.

One walk finds the unknown fields; dropping them and naming them are two uses of it. Objects without
unknown fields, which is most of them, are spared it by a quicker look.
"""

from __future__ import annotations

from typing import Any, Final

from .node import SchemaNode

_META: Final = frozenset(("apiVersion", "kind", "metadata"))

#: an object with unknown fields, its path, and their names
_Found = list[tuple[dict[str, Any], str, list[str]]]


def prune(obj: Any, node: SchemaNode, *, is_resource: bool = True) -> list[str]:
    """Drop unknown fields in place; their paths (`spec.l[0].x`), sorted as upstream reports them.

    `is_resource`: `obj` is a whole object, whose apiVersion, kind and metadata stay.
    """
    found = _found(obj, node, is_resource or node.embedded_resource)
    for container, _, keys in found:
        for key in keys:
            del container[key]
    return _paths(found)


def unknown_fields(obj: Any, node: SchemaNode, *, is_resource: bool = True) -> list[str]:
    """The paths that `prune` would drop; changes nothing."""
    return _paths(_found(obj, node, is_resource or node.embedded_resource))


def _found(obj: Any, node: SchemaNode, is_resource: bool) -> _Found:
    found: _Found = []
    if not _is_known(obj, node, is_resource):
        _find(obj, node, "", is_resource, found)
    return found


def _paths(found: _Found) -> list[str]:
    return sorted(f"{path}.{key}" if path else key for _, path, keys in found for key in keys)


def _is_known(value: Any, node: SchemaNode, is_resource: bool = False) -> bool:
    """A quick yes if there surely is no unknown field; no is not certain."""
    if type(value) is dict:
        if node.embedded_resource and not is_resource:
            return False
        properties = node.properties
        additional = node.additional
        if additional is not None:
            return not properties and all(_is_known(item, additional) for item in value.values())
        for key, item in value.items():
            if is_resource and key in _META:
                continue
            child = properties.get(key)
            if child is None:
                return False
            kind = type(item)
            if (kind is dict or kind is list) and not _is_known(item, child):
                return False
        return True
    if type(value) is list:
        items = node.items
        if items is None:
            return not value
        for item in value:
            kind = type(item)
            if (kind is dict or kind is list) and not _is_known(item, items):
                return False
    return True


def _find(value: Any, node: SchemaNode, path: str, is_resource: bool, found: _Found) -> None:
    if type(value) is dict:
        properties = node.properties
        if not value.keys() <= properties.keys():
            if node.additional_allowed is not None:
                _find_in_map(value, node, path, is_resource, found)
            elif not node.preserve_unknown:
                kept = _META if is_resource else ()
                keys = [key for key in value if key not in properties and key not in kept]
                if keys:
                    found.append((value, path, keys))
        for key, item in value.items():
            kind = type(item)
            if (kind is dict or kind is list) and key in properties and not (is_resource and key in _META):
                child = properties[key]
                _find(item, child, f"{path}.{key}" if path else key, child.embedded_resource, found)
    elif type(value) is list:
        items = node.items
        for index, item in enumerate(value):
            kind = type(item)
            if kind is dict or kind is list:
                if items is not None:
                    preserved = node.preserve_unknown and not items.preserve_unknown
                    _find_item(item, items, f"{path}[{index}]", preserved, found)
                elif not node.preserve_unknown:
                    _find_all(item, f"{path}[{index}]", found)


def _find_item(value: Any, node: SchemaNode, path: str, preserved: bool, found: _Found) -> None:
    """An item of a list; that of a list with preserve-unknown-fields is preserved as well."""
    if preserved:
        import msgspec

        node = msgspec.structs.replace(node, preserve_unknown=True)
    _find(value, node, path, node.embedded_resource, found)


def _find_in_map(
    value: dict[str, Any], node: SchemaNode, path: str, is_resource: bool, found: _Found
) -> None:
    additional = node.additional
    for key, item in value.items():
        kind = type(item)
        if (kind is not dict and kind is not list) or key in node.properties:
            continue
        if is_resource and key in _META:
            continue
        where = f"{path}.{key}" if path else key
        if additional is None:
            _find_all(item, where, found)
        else:
            _find(item, additional, where, additional.embedded_resource, found)


def _find_all(value: Any, path: str, found: _Found) -> None:
    """No schema at all: every field is unknown; iterative, because such data may nest deeply."""
    pending = [(value, path)]
    while pending:
        value, path = pending.pop()
        if type(value) is dict:
            if value:
                found.append((value, path, list(value)))
        elif type(value) is list:
            pending.extend((item, f"{path}[{index}]") for index, item in enumerate(value))
