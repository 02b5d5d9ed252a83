"""Strategic merge patch of a request: the built-in types say how their fields merge."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.typetable import Field, StructType, Type
from quarterdeck.apiserver.document.unmarshal import decode_json, unmarshal_error
from quarterdeck.apiserver.status import bad_request, plain_error, rejected
from quarterdeck.errors import PatchError
from quarterdeck.wire.patch import FieldRule, MalformedDirective, NestedList, strategic_merge


def decode(body: bytes) -> Json:
    """The patch in a body; 400 if it is no object."""
    patch = decode_json(body)
    if patch is None:
        return {}
    if not isinstance(patch, dict):
        raise bad_request(unmarshal_error(patch, "Go value of type map[string]interface {}"))
    return patch


def apply(original: Json, patch: Json, struct: StructType) -> Json:
    """`original`, an object of type `struct`, with the patch applied; it shares what did not change.

    StatusError: 400 for malformed directives, 422 for lists of lists, 500 without a reason for what the
    type does not allow.
    """
    try:
        return strategic_merge(original, patch, _TypeSchema(Type("struct", struct.name)))
    except MalformedDirective as error:
        raise bad_request(str(error)) from error
    except NestedList as error:
        raise rejected() from error
    except PatchError as error:
        raise plain_error(str(error)) from error


class _TypeSchema:
    """How the fields of a built-in type merge."""

    __slots__ = ("_type",)

    def __init__(self, type_: Type | None) -> None:
        self._type = type_

    def map_field(self, key: str) -> FieldRule:
        field = self._field(key)
        return FieldRule(_TypeSchema(field.type), _strategy(field))

    def list_field(self, key: str) -> FieldRule:
        field = self._field(key)
        if field.type.kind != "list":
            raise PatchError("expected slice or array type, but got: struct")
        return FieldRule(_TypeSchema(field.type.elem), _strategy(field), field.patch_merge_key or "")

    def _field(self, key: str) -> Field:
        if self._type is None or self._type.kind != "struct":
            kind = (
                "map"
                if self._type is None
                else {"map": "map", "list": "slice"}.get(self._type.kind, "string")
            )
            raise PatchError(f"merging an object in json but data type is not struct, instead is: {kind}")
        struct = self._type.struct
        field = struct.fields.get(key)
        if field is None:
            raise PatchError(
                f'unable to find api field in struct {struct.go_name} for the json field "{key}"'
            )
        return field


def _strategy(field: Field) -> str:
    return next((each for each in field.patch_strategies if each != "retainKeys"), "")
