"""References between core objects: by name, by key, by field.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Atomic, Default, Required
from quarterdeck.api.model import UNSET, Maybe, Model, omitempty
from quarterdeck.api.quantity import Quantity

__all__ = [
    "ConfigMapKeySelector",
    "FileKeySelector",
    "LocalObjectReference",
    "ObjectFieldSelector",
    "ObjectReference",
    "ResourceFieldSelector",
    "SecretKeySelector",
    "SecretReference",
    "TypedLocalObjectReference",
    "TypedObjectReference",
]


class LocalObjectReference(Model, rules=[Atomic()]):
    name: Annotated[str, Default("")] = omitempty("")


class ObjectReference(Model, rules=[Atomic()]):
    kind: str = omitempty("")
    namespace: str = omitempty("")
    name: str = omitempty("")
    uid: str = omitempty("")
    api_version: str = omitempty("")
    resource_version: str = omitempty("")
    field_path: str = omitempty("")


class SecretReference(Model, rules=[Atomic()]):
    name: str = omitempty("")
    namespace: str = omitempty("")


class TypedLocalObjectReference(Model, rules=[Atomic()]):
    api_group: Maybe[str] = UNSET
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")


class TypedObjectReference(Model):
    api_group: Maybe[str] = UNSET
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    namespace: Maybe[str] = UNSET


class ConfigMapKeySelector(Model, rules=[Atomic()]):
    name: Annotated[str, Default("")] = omitempty("")
    key: Annotated[str, Required()] = omitempty("")
    optional: Maybe[bool] = UNSET


class SecretKeySelector(Model, rules=[Atomic()]):
    name: Annotated[str, Default("")] = omitempty("")
    key: Annotated[str, Required()] = omitempty("")
    optional: Maybe[bool] = UNSET


class FileKeySelector(Model, rules=[Atomic()]):
    volume_name: Annotated[str, Required()] = omitempty("")
    path: Annotated[str, Required()] = omitempty("")
    key: Annotated[str, Required()] = omitempty("")
    optional: Annotated[Maybe[bool], Default(False)] = UNSET


class ObjectFieldSelector(Model, rules=[Atomic()]):
    api_version: str = omitempty("")
    field_path: Annotated[str, Required()] = omitempty("")


class ResourceFieldSelector(Model, rules=[Atomic()]):
    container_name: str = omitempty("")
    resource: Annotated[str, Required()] = omitempty("")
    divisor: Maybe[Quantity] = UNSET
