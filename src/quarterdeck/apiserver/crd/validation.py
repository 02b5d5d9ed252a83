"""Validation of CustomResourceDefinition objects.

Takes well-shaped documents (see `shape`), and any other without raising. The metadata is checked by the
registry like that of every object; here is only what is special about a CRD: its name is made of plural
and group, and groups of the Kubernetes community need an approval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.metadata import IMMUTABLE, dns1035_errors, subdomain_errors
from quarterdeck.apiserver.schema import gointernal, rules
from quarterdeck.apiserver.schema.definition import schema_errors
from quarterdeck.apiserver.schema.formats import checked
from quarterdeck.apiserver.schema.lenient import items_of, strings, text
from quarterdeck.apiserver.schema.versionrules import (
    column_errors,
    deprecation_errors,
    selectable_errors,
    subresource_errors,
)
from quarterdeck.wire.fielderror import FieldError, invalid, required
from quarterdeck.wire.gostyle import quote

from .approval import approval_errors
from .conversionrules import conversion_errors
from .internalspec import InternalSpec, dig, enum_errors, struct
from .strictness import Strictness, has_extension, strictness


def validate_crd_create(obj: Json) -> list[FieldError]:
    """Everything that is wrong with a new CRD, its metadata apart."""
    spec = InternalSpec(obj.get("spec"))
    return [
        *_name_errors(obj, spec),
        *_spec_errors(spec, Strictness()),
        *_status_errors(obj),
        *_stored_version_errors(obj, spec),
        *approval_errors(obj, spec, None),
        *_preserve_errors(spec, None),
    ]


def validate_crd_update(obj: Json, old: Json) -> list[FieldError]:
    """Everything that is wrong with a changed CRD; what `old` already does wrong is let pass."""
    spec, before = InternalSpec(obj.get("spec")), InternalSpec(old.get("spec"))
    is_established = has_condition(old, "Established")
    errors = _spec_errors(spec, strictness(spec, before, is_established=is_established))
    if is_established:
        errors += _immutable(spec.raw, before.raw, "scope")
        errors += _immutable(spec.names, before.names, "kind", "names.")
    errors += _immutable(spec.raw, before.raw, "group")
    errors += _immutable(spec.names, before.names, "plural", "names.")
    return [
        *errors,
        *_status_errors(obj),
        *_stored_version_errors(obj, spec),
        *approval_errors(obj, spec, old),
        *_preserve_errors(spec, before),
    ]


def validate_crd_status_update(obj: Json, old: Json) -> list[FieldError]:
    """A write to /status: only the accepted names are checked."""
    return _status_errors(obj)


def crd_warnings(obj: Json, old: Json | None = None) -> list[str]:
    """Formats in the schemas that mean nothing to the server; on an update only new ones."""
    known = set(_unrecognized_formats(old)) if old is not None else set()
    return [f"unrecognized format {quote(name)}" for name in _unrecognized_formats(obj) if name not in known]


def _unrecognized_formats(obj: Json) -> Iterator[str]:
    for _, schema in InternalSpec(obj.get("spec")).schemas():
        for node in rules.all_schemas(schema):
            name, type_ = text(node, "format"), text(node, "type")
            if name and not checked(name, (type_,) if type_ else ()):
                yield name


def has_condition(obj: Json, kind: str) -> bool:
    """Whether a condition of a CRD is True."""
    return any(
        isinstance(condition, dict) and condition.get("type") == kind and condition.get("status") == "True"
        for condition in items_of(struct(obj, "status"), "conditions")
    )


def _immutable(new: Json, old: Json, key: str, path: str = "") -> list[FieldError]:
    if text(new, key) == text(old, key):
        return []
    return [invalid(f"spec.{path}{key}", text(new, key), IMMUTABLE)]


def _name_errors(obj: Json, spec: InternalSpec) -> list[FieldError]:
    name = dig(obj, "metadata", "name")
    wanted = f"{text(spec.names, 'plural')}.{text(spec.raw, 'group')}"
    if not isinstance(name, str) or not name or name == wanted:
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _spec_errors(spec: InternalSpec, strict: Strictness) -> list[FieldError]:
    errors = [*_group_errors(text(spec.raw, "group"))]
    errors += enum_errors("spec.scope", text(spec.raw, "scope"), ("Cluster", "Namespaced"))
    options = strict.schema
    has_defaults = spec.has(lambda node: node.get("default") is not None)
    if not spec.preserves_unknown or has_defaults or spec.has(has_extension):
        options = msgspec.structs.replace(options, require_structural=True)
    errors += _missing_schema_errors(spec, strict)
    if has_defaults and spec.preserves_unknown:
        text_ = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, text_))
    strict = msgspec.structs.replace(strict, schema=options)
    per_version = any(item.get("subresources") is not None for item in spec.versions)
    for index, version in enumerate(spec.versions):
        subresources = version.get("subresources") if per_version else spec.shared.get("subresources")
        errors += _version_errors(version, subresources, f"spec.versions[{index}]", strict)
    errors += _version_list_errors(spec)
    errors += [
        required(f"spec.names.{key}")
        for key in ("plural", "singular", "kind", "listKind")
        if not spec.names.get(key)
    ]
    errors += _names_errors(spec.names, "spec.names")
    has_status = any(
        dig(item, "subresources", "status") is not None for item in (spec.shared, *spec.versions)
    )
    shared_schema = dig(spec.shared, "schema", "openAPIV3Schema")
    errors += schema_errors(
        shared_schema, "spec.validation.openAPIV3Schema", has_status=has_status, options=options
    )
    errors += subresource_errors(spec.shared.get("subresources"), "spec.subresources")
    errors += column_errors(spec.shared, "spec.additionalPrinterColumns")
    fields = items_of(spec.shared, "selectableFields")
    if fields:
        if "schema" not in spec.shared:
            text_ = "may only be set when validations.schema is included"
            errors.append(invalid("spec.selectableFields", "", text_))
        else:
            allow = "" in strict.many_selectable_fields
            errors += selectable_errors(fields, shared_schema, "spec.selectableFields", allow_many=allow)
    strategy = dig(spec.raw, "conversion", "strategy")
    if strategy is not None and strategy != "None" and spec.preserves_unknown:
        text_ = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", strategy, text_))
    errors += conversion_errors(spec.raw.get("conversion"), strict)
    return errors


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif texts := subdomain_errors(group):
        yield invalid("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _missing_schema_errors(spec: InternalSpec, strict: Strictness) -> Iterator[FieldError]:
    if dig(spec.shared, "schema", "openAPIV3Schema") is not None:
        return
    for index, version in enumerate(spec.versions):
        if dig(version, "schema", "openAPIV3Schema") is not None:
            continue
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if strict.require_schema:
            yield required(path)
        elif not spec.preserves_unknown and version.get("served") is True:
            yield required(path, "because otherwise all fields are pruned")


def _version_errors(
    version: Json, subresources: object, path: str, strict: Strictness
) -> Iterator[FieldError]:
    name = text(version, "name")
    if texts := dns1035_errors(name):
        yield invalid(f"{path}.name", name, ",".join(texts))
    for text_ in deprecation_errors(version):
        yield invalid(f"{path}.deprecationWarning", version.get("deprecationWarning"), text_)
    schema = dig(version, "schema", "openAPIV3Schema")
    yield from schema_errors(
        schema,
        f"{path}.schema.openAPIV3Schema",
        has_status=dig(subresources, "status") is not None,
        options=strict.schema,
    )
    yield from subresource_errors(version.get("subresources"), f"{path}.subresources")
    yield from column_errors(version, f"{path}.additionalPrinterColumns")
    fields = items_of(version, "selectableFields")
    if fields:
        if schema is None:
            text_ = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield invalid(f"{path}.selectableFields", "", text_)
        else:
            allow = name in strict.many_selectable_fields
            yield from selectable_errors(fields, schema, f"{path}.selectableFields", allow_many=allow)


def _version_list_errors(spec: InternalSpec) -> Iterator[FieldError]:
    names = [text(version, "name") for version in spec.versions]
    storage = sum(1 for version in spec.versions if version.get("storage") is True)
    problems = []
    if len(set(names)) != len(names):
        problems.append("must contain unique version names")
    if storage != 1:
        problems.append("must have exactly one version marked as storage version")
    if problems:
        shown = gointernal.shown(gointernal.versions(spec.versions) if "versions" in spec.raw else None)
        yield from (invalid("spec.versions", shown, problem) for problem in problems)
    if names and names[0] and (texts := dns1035_errors(names[0])):
        yield invalid("spec.version", names[0], ",".join(texts))


def _names_errors(names: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for key in ("plural", "singular", "kind", "listKind"):
        value = text(names, key)
        is_kind = key in ("kind", "listKind")
        texts = dns1035_errors(value.lower() if is_kind else value) if value else []
        if texts:
            prefix = "may have mixed case, but should otherwise match: " if is_kind else ""
            yield invalid(f"{path}.{key}", value, prefix + ",".join(texts))
    for index, value in enumerate(strings(names, "shortNames")):
        if texts := dns1035_errors(value):
            yield invalid(f"{path}.shortNames[{index}]", value, ",".join(texts))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid(f"{path}.listKind", text(names, "listKind"), "kind and listKind may not be the same")
    for index, value in enumerate(strings(names, "categories")):
        if texts := dns1035_errors(value):
            yield invalid(f"{path}.categories[{index}]", value, ",".join(texts))


def _status_errors(obj: Json) -> list[FieldError]:
    names = dig(obj, "status", "acceptedNames")
    return list(_names_errors(names, "status.acceptedNames")) if isinstance(names, dict) else []


def _stored_version_errors(obj: Json, spec: InternalSpec) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored = strings(struct(obj, "status"), "storedVersions")
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    left = {name: index for index, name in enumerate(stored)}
    for version in spec.versions:
        name = text(version, "name")
        if version.get("storage") is True and name not in left:
            yield invalid(path, stored, f"must have the storage version {name}")
        left.pop(name, None)
    for name, index in left.items():
        yield invalid(
            f"{path}[{index}]",
            name,
            f"missing from spec.versions; {name} was previously a storage version, and must remain in "
            f"spec.versions until a storage migration ensures no data remains persisted in {name} "
            f"and removes {name} from status.storedVersions",
        )


def _preserve_errors(spec: InternalSpec, old: InternalSpec | None) -> Iterator[FieldError]:
    if spec.preserves_unknown and not (old is not None and old.preserves_unknown):
        yield invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead",
        )
