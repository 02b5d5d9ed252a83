"""Field sets seen through a type model.

`reconcile` repairs a stored set after a schema change. `with_named_fields` adds the structs on the way,
which a set of what was applied leaves out, so that removing everything in a struct removes the struct.
"""

from __future__ import annotations

from .fieldset import LEAF, FieldSet
from .typed import DEDUCED, AnyType, ListType, MapType, Type, TypeModel


def reconcile(model: TypeModel, fields: FieldSet) -> FieldSet:
    """The set with every part below a node that has become atomic replaced by that node.

    A node that has become granular keeps its owners; its children have none.
    """
    return _reconcile(model.root, fields)


def _reconcile(type_: Type, node: FieldSet) -> FieldSet:
    """The node of a value of this type; only nodes with something below can need repair."""
    if type_.__class__ is AnyType:
        type_ = type_.map
    if type_.__class__ is MapType:
        return LEAF if type_.is_leaf else _reconcile_map(type_, node)
    if type_.__class__ is ListType:
        return LEAF if type_.is_leaf else _reconcile_list(type_, node)
    return node


def _reconcile_map(type_: MapType, node: FieldSet) -> FieldSet:
    if type_.element is DEDUCED and not type_.declared:
        return node
    out = node
    plan = type_.plan
    for path, below in node.items():
        if below:
            entry = plan.get(path[2:]) or type_.resolve(path[2:])
            if entry is not None:
                fixed = _reconcile(entry[1], below)
                if fixed is not below:
                    out = node.copy() if out is node else out
                    out[path] = fixed
    return out


def _reconcile_list(type_: ListType, node: FieldSet) -> FieldSet:
    out = node
    for path, below in node.items():
        if below:
            fixed = _reconcile(type_.element, below)
            if fixed is not below:
                out = node.copy() if out is node else out
                out[path] = fixed
    return out


def with_named_fields(model: TypeModel, fields: FieldSet) -> FieldSet:
    """The set plus every declared field on the way to a member; map entries are not added."""
    return _with_named(model.root, fields)


def _with_named(type_: Type, node: FieldSet) -> FieldSet:
    map_type = type_.map if isinstance(type_, AnyType) else type_ if isinstance(type_, MapType) else None
    list_type = type_.list if isinstance(type_, AnyType) else type_ if isinstance(type_, ListType) else None
    out: FieldSet = {}
    for path, below in node.items():
        if not below:
            out[path] = below
            continue
        child: Type | None = None
        is_named = False
        if path.startswith("f:") and map_type is not None:
            entry = map_type.resolve(path[2:])
            child = entry[1] if entry else None
            is_named = path[2:] in map_type.declared
        elif path.startswith("k:") and list_type is not None:
            child = list_type.element
        fixed = below if child is None else _with_named(child, below)
        out[path] = {".": LEAF, **fixed} if is_named and "." not in fixed else fixed
    return out
