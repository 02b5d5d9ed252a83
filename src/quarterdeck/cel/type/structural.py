"""Equality of schema-typed JSON without converting it."""

from __future__ import annotations

from typing import Any

from quarterdeck.cel.type.schema import Shape


def structural_equal(shape: Shape, left: Any, right: Any) -> bool:
    """Whether two data of one schema are equal for CEL.

    Absent and null fields are the same; set lists ignore order; map lists go by key; texts with a format
    compare by meaning; fields the schema does not know must be equal where both have them.
    """
    if left is None or right is None:
        return left is right
    if shape.fields is not None:
        return _objects(shape, left, right)
    if shape.element is not None:
        if shape.key is not None:
            return _maps(shape.element, left, right)
        return _lists(shape, shape.element, left, right)
    if shape.convert is not None:
        return bool(shape.convert(left) == shape.convert(right))
    return type(left) is type(right) and bool(left == right)


def _objects(shape: Shape, left: dict[str, Any], right: dict[str, Any]) -> bool:
    if len(left) != len(right):
        return False
    assert shape.fields is not None
    known = {name: field for field, name in shape.names.items()}
    for name, value in left.items():
        field = known.get(name)
        if field is None:
            if name in right and right[name] != value:
                return False
        elif not structural_equal(shape.fields[field], value, right.get(name)):
            return False
    return True


def _maps(element: Shape, left: dict[str, Any], right: dict[str, Any]) -> bool:
    return len(left) == len(right) and all(
        name in right and structural_equal(element, value, right[name]) for name, value in left.items()
    )


def _lists(shape: Shape, element: Shape, left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if shape.list_type == "set":
        return _sets(element, left, right)
    if shape.list_type == "map":
        keyed = {_key(shape, item): item for item in left}
        for item in right:
            key = _key(shape, item)
            if key not in keyed or not structural_equal(element, keyed[key], item):
                return False
        return True
    return all(structural_equal(element, a, b) for a, b in zip(left, right, strict=True))


def _sets(element: Shape, left: list[Any], right: list[Any]) -> bool:
    # Upstream looks converted elements up among unconverted ones, so sets of times are never equal.
    convert = element.convert
    wanted = right if convert is None else [convert(item) for item in right]
    if convert is None and all(type(item) is str for item in left):
        return set(left).issuperset(wanted)
    return all(any(type(mine) is type(item) and mine == item for mine in left) for item in wanted)


def _key(shape: Shape, item: dict[str, Any]) -> tuple[Any, ...]:
    element = shape.element
    assert element is not None
    return tuple(item.get(element.names.get(key, key)) for key in shape.list_keys)
