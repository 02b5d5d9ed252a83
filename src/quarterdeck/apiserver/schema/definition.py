"""Whether a CRD may have a schema: everything that is checked when the CRD is written."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.fielderror import FieldError, forbidden, internal, invalid

from . import gointernal, noderules, rules
from .celrules import rule_errors
from .defaultrules import default_errors
from .digest import digest
from .lenient import text
from .structural import compile_schema

#: in upstream's words, because one error lists them
_ALLOWED_AT_ROOT: Final = (
    "Description",
    "Type",
    "Format",
    "Title",
    "Maximum",
    "ExclusiveMaximum",
    "Minimum",
    "ExclusiveMinimum",
    "MaxLength",
    "MinLength",
    "Pattern",
    "MaxItems",
    "MinItems",
    "UniqueItems",
    "MultipleOf",
    "Required",
    "Items",
    "Properties",
    "ExternalDocs",
    "Example",
    "XPreserveUnknownFields",
    "XValidations",
)


class Options(msgspec.Struct, frozen=True):
    """How strict to be: all of it for new CRDs; existing ones may keep what they have."""

    require_structural: bool = True
    require_pruned_defaults: bool = True
    nodes: noderules.Options = noderules.Options()


STRICT: Final = Options()

#: what was in order stays so: a CRD is judged at each write of it, and by every server of a process
_sound: Final[dict[tuple[bytes, bool, Options], None]] = {}
_REMEMBERED: Final = 1024


def schema_errors(raw: object, path: str, *, has_status: bool, options: Options = STRICT) -> list[FieldError]:
    """Errors of an openAPIV3Schema whose path ends in `openAPIV3Schema`.

    has_status: the version has a status subresource, so `.status` is validated on its own.
    """
    if not isinstance(raw, dict):
        return []
    key = digest(raw), has_status, options
    if key in _sound:
        return []
    if rules.is_too_deep(raw):
        return [invalid(path, "", f"must not be nested deeper than {rules.max_depth()} levels")]
    try:
        errors = _errors(raw, path, has_status, options)
    except RecursionError:
        return [internal(path, "the schema is nested too deeply")]
    if not errors and key[0]:
        _sound[key] = None
        if len(_sound) > _REMEMBERED:
            _sound.pop(next(iter(_sound)), None)
    return errors


def _errors(raw: Json, path: str, has_status: bool, options: Options) -> list[FieldError]:
    errors: list[FieldError] = []
    if has_status:
        errors += _root_errors(raw, path)
    if raw.get("nullable") is True:
        errors.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    unsupported = ""
    is_sound = False
    if options.require_structural:
        unsupported = rules.unsupported_keyword(raw)
        if not unsupported:
            found = rules.structural_errors(raw, path)
            if not found:
                node = compile_schema(raw, loose=True)
                found = default_errors(node, path, require_pruned=options.require_pruned_defaults)
            errors += found
            is_sound = not found
    found, clean = noderules.node_errors(raw, path, options.nodes)
    errors += found
    if is_sound:
        errors += _expression_errors(raw, path, clean)
    if unsupported and not errors:
        errors.append(invalid(path, "", unsupported))
    return errors


def _expression_errors(raw: Json, path: str, clean: set[str]) -> list[FieldError]:
    """Errors of CEL expressions; only those of nodes that are in order otherwise are looked at."""
    if not clean:
        return []
    errors = rule_errors(compile_schema(raw), path)
    return [error for error in errors if error.field == path or _node_of(error.field) in clean]


def _node_of(rule_field: str) -> str:
    return rule_field.rpartition(".x-kubernetes-validations")[0]


def _root_errors(raw: Json, path: str) -> list[FieldError]:
    """With a status subresource the root may only say what does not concern `.status`."""
    for name, key, kind in gointernal.SCHEMA_FIELDS:
        value = raw.get(key)
        if not value and (value is None or kind in ("text", "flag")):
            continue
        if name == "Type":
            if value != "object":
                text_ = (
                    'only "object" is allowed as the type at the root of the schema '
                    "if the status subresource is enabled"
                )
                return [invalid(f"{path}.type", text(raw, "type"), text_)]
        elif name not in _ALLOWED_AT_ROOT:
            text_ = (
                f"only [{' '.join(_ALLOWED_AT_ROOT)}] fields are allowed at the root of the schema "
                "if the status subresource is enabled"
            )
            return [invalid(path, gointernal.shown(gointernal.schema(raw)), text_)]
    return []
