"""Laying the apply configuration of a mutating policy over an object.

Like a server-side apply without field ownership. What upstream treats as one value (atomic lists,
maps and structs) may not be set this way, because the parts left out would silently go.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.api.jsonobject import Json

from .merge import merge
from .typed import AnyType, ListType, MapType, Type, TypeModel
from .validate import error_text, validate


def merge_configuration(model: TypeModel, live: Json, configuration: Json) -> Json:
    """`configuration` over `live`, both of the kind that `model` describes.

    Raises ValueError in upstream's words when the configuration does not fit the kind.
    """
    problems = validate(model, configuration)
    if problems:
        raise ValueError(f"failed to convert patch object to typed object: {error_text(problems)}")
    atomics = _atomics(model.root, configuration, "")
    if atomics:
        raise ValueError(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {', '.join(atomics)}"
        )
    problems = validate(model, live, allow_duplicates=True)
    if problems:
        raise ValueError(f"failed to convert original object to typed object: {error_text(problems)}")
    merged: Json = merge(model, live, configuration)
    return merged


def _atomics(type_: Type, value: Any, path: str) -> list[str]:
    """Paths of atomic values that hold something."""
    if isinstance(type_, AnyType):
        type_ = type_.select(value)
    found: list[str] = []
    if isinstance(type_, MapType) and isinstance(value, dict):
        if type_.is_leaf:
            found.append(path)
        for name, item in value.items():
            entry = type_.resolve(name) if name in type_.declared else None
            if entry is not None:
                found += _atomics(entry[1], item, f"{path}.{name}")
    elif isinstance(type_, ListType) and isinstance(value, list):
        if type_.is_leaf:
            found.append(path)
        for index, item in enumerate(value):
            found += _atomics(type_.element, item, f"{path}[{index}]")
    return found
