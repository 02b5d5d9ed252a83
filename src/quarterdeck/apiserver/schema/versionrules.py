"""What a version of a CRD says besides its schema: deprecation, subresources, columns, selectable fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, required, too_many

from .celrules import FieldPathError, FieldTree
from .lenient import items_of, text

MAX_SELECTABLE_FIELDS: Final = 8

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def deprecation_errors(version: Json) -> Iterator[str]:
    """What is wrong with a deprecation warning, as texts."""
    warning = version.get("deprecationWarning")
    if not isinstance(warning, str):
        return
    if version.get("deprecated") is not True:
        yield "can only be set for deprecated versions"
        return
    if len(warning.encode("utf-8", "replace")) > 256:
        yield "must be <= 256 characters long"
    if not warning:
        yield "must not be an empty string"
    offset = 0
    for char in warning:
        if not char.isprintable():
            printable = "must only contain printable UTF-8 characters"
            yield f"{printable}; non-printable character found at index {offset}"
            return
        offset += len(char.encode("utf-8", "replace"))


def subresource_errors(subresources: object, path: str) -> Iterator[FieldError]:
    """The paths of the scale subresource."""
    scale = subresources.get("scale") if isinstance(subresources, dict) else None
    if not isinstance(scale, dict):
        return
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value, where = text(scale, key), f"{path}.scale.{key}"
        if not value:
            yield required(where)
        elif not value.startswith("."):
            yield invalid(where, value, "must be a simple json path starting with .")
        elif not value.startswith(root):
            yield invalid(where, value, f"should be a json path under {root[:-1]}")
    value, where = text(scale, "labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if value and not value.startswith("."):
        yield invalid(where, value, "must be a simple json path starting with .")
    elif value and not value.startswith((".spec.", ".status.")):
        yield invalid(where, value, "should be a json path under either .spec or .status")


def column_errors(holder: Json, path: str) -> Iterator[FieldError]:
    """The additionalPrinterColumns of a version."""
    for index, column in enumerate(items_of(holder, "additionalPrinterColumns")):
        if not isinstance(column, dict):
            continue
        where = f"{path}[{index}]"
        if not text(column, "name"):
            yield required(f"{where}.name")
        kind = text(column, "type")
        if kind not in _COLUMN_TYPES:
            text_ = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield invalid(f"{where}.type", kind, text_) if kind else required(f"{where}.type", text_)
        form = text(column, "format")
        if form and form not in _COLUMN_FORMATS:
            yield invalid(f"{where}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
        json_path = text(column, "jsonPath")
        if not json_path:
            yield required(f"{where}.JSONPath")
        elif not json_path.startswith("."):
            yield invalid(f"{where}.JSONPath", json_path, "must be a simple json path starting with .")


def selectable_errors(
    fields: list[Any], schema: object, path: str, *, allow_many: bool
) -> Iterator[FieldError]:
    """The selectableFields of a version."""
    tree = FieldTree()
    unique: set[str] = set()
    for index, field in enumerate(fields):
        where = f"{path}[{index}].jsonPath"
        json_path = text(field, "jsonPath") if isinstance(field, dict) else ""
        if not json_path:
            yield required(where)
            continue
        try:
            name, kind = tree.resolve(json_path, schema, allow_keys=False)
        except FieldPathError as error:
            yield invalid(where, json_path, f"is an invalid path: {error}")
            continue
        if name == "metadata" or name.startswith(("metadata.", "metadata[")):
            yield invalid(where, json_path, "must not point to fields in metadata")
        if kind not in ("string", "boolean", "integer"):
            yield invalid(
                where,
                json_path,
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed.",
            )
        if name in unique:
            yield duplicate(where, json_path)
        unique.add(name)
    if len(unique) > MAX_SELECTABLE_FIELDS and not allow_many:
        yield too_many(path, len(unique), MAX_SELECTABLE_FIELDS)
