"""Validation and defaulting of CustomResourceDefinition objects.

Takes well-shaped documents (see `shape`), and any other without raising. The metadata is checked by the
registry like that of every object; here is only what is special about a CRD: its name is made of plural
and group, and groups of the Kubernetes community need an approval.

Upstream keeps what all versions have in common once, above the versions, and its field paths show it:
`spec.validation.openAPIV3Schema...` if all versions have the same schema (or there is only one),
`spec.versions[0].schema.openAPIV3Schema...` otherwise; subresources, printer columns and selectable
fields alike. `_Spec` is a CRD's spec in that form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from quarterdeck.apiserver.metadata import IMMUTABLE, dns1035_errors, subdomain_errors
from quarterdeck.apiserver.schema import gointernal, noderules, rules
from quarterdeck.apiserver.schema.clientconfig import (
    ca_bundle_error,
    webhook_service_errors,
    webhook_url_errors,
)
from quarterdeck.apiserver.schema.defaultrules import has_unpruned_defaults
from quarterdeck.apiserver.schema.definition import Options, schema_errors
from quarterdeck.apiserver.schema.formats import checked
from quarterdeck.apiserver.schema.gourl import UrlError, parse_request_uri
from quarterdeck.apiserver.schema.lenient import items_of, strings, text
from quarterdeck.apiserver.schema.versionrules import (
    MAX_SELECTABLE_FIELDS,
    column_errors,
    deprecation_errors,
    selectable_errors,
    subresource_errors,
)
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required
from quarterdeck.wire.gostyle import quote
from quarterdeck.wire.jsonvalue import same

Json: TypeAlias = dict[str, Any]

APPROVAL: Final = "api-approved.kubernetes.io"
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")


# Defaults


def default_crd(obj: Json) -> None:
    """Fill in what a client may leave out, in place."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict):
        kind = text(names, "kind")
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    service = _dig(spec, "conversion", "webhook", "clientConfig", "service")
    if isinstance(service, dict) and service.get("port") is None:
        service["port"] = 443
    status = obj.get("status")
    if status is None:
        status = obj["status"] = {}
    if isinstance(status, dict) and not status.get("storedVersions"):
        storage = next((name for name in _storage_names(spec)), None)
        if storage is not None:
            status["storedVersions"] = [storage]


def _storage_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for version in items_of(spec, "versions"):
        if isinstance(version, dict) and version.get("storage") is True:
            yield text(version, "name")


def _dig(value: object, *keys: str) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _struct(value: Mapping[str, Any], key: str) -> Json:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


# The public face


def validate_crd_create(obj: Json) -> list[FieldError]:
    """Everything that is wrong with a new CRD, its metadata apart."""
    spec = _Spec(obj.get("spec"))
    return [
        *_name_errors(obj, spec),
        *_spec_errors(spec, _Strictness()),
        *_status_errors(obj),
        *_stored_version_errors(obj, spec),
        *_approval_errors(obj, spec, None),
        *_preserve_errors(spec, None),
    ]


def validate_crd_update(obj: Json, old: Json) -> list[FieldError]:
    """Everything that is wrong with a changed CRD; what `old` already does wrong is let pass."""
    spec, before = _Spec(obj.get("spec")), _Spec(old.get("spec"))
    is_established = has_condition(old, "Established")
    errors = _spec_errors(spec, _strictness(spec, before, is_established=is_established))
    if is_established:
        errors += _immutable(spec.raw, before.raw, "scope")
        errors += _immutable(spec.names, before.names, "kind", "names.")
    errors += _immutable(spec.raw, before.raw, "group")
    errors += _immutable(spec.names, before.names, "plural", "names.")
    return [
        *errors,
        *_status_errors(obj),
        *_stored_version_errors(obj, spec),
        *_approval_errors(obj, spec, old),
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
    for _, schema in _Spec(obj.get("spec")).schemas():
        for node in rules.all_schemas(schema):
            name, type_ = text(node, "format"), text(node, "type")
            if name and not checked(name, (type_,) if type_ else ()):
                yield name


def has_condition(obj: Json, kind: str) -> bool:
    """Whether a condition of a CRD is True."""
    return any(
        isinstance(condition, dict) and condition.get("type") == kind and condition.get("status") == "True"
        for condition in items_of(_struct(obj, "status"), "conditions")
    )


def _immutable(new: Json, old: Json, key: str, path: str = "") -> list[FieldError]:
    if text(new, key) == text(old, key):
        return []
    return [invalid(f"spec.{path}{key}", text(new, key), IMMUTABLE)]


# The spec in upstream's internal form


class _Spec:
    """A spec whose versions have lost what they share: that is in `shared`, by its key in a version."""

    KEYS: Final = ("schema", "subresources", "additionalPrinterColumns", "selectableFields")

    def __init__(self, raw: object) -> None:
        self.raw: Json = raw if isinstance(raw, dict) else {}
        self.names: Json = _struct(self.raw, "names")
        originals = [item for item in items_of(self.raw, "versions") if isinstance(item, dict)]
        self.versions: list[Json] = [dict(version) for version in originals]
        self.shared: Json = {}
        for key in self.KEYS:
            values = [version.get(key) for version in originals]
            if key not in ("schema", "subresources"):  # an empty list is no list
                values = [value or None for value in values]
            if values and all(same(value, values[0]) for value in values):
                if values[0] is not None:
                    self.shared[key] = values[0]
                for version in self.versions:
                    version.pop(key, None)

    @property
    def preserves_unknown(self) -> bool:
        return self.raw.get("preserveUnknownFields") is True

    def schemas(self) -> list[tuple[str, Json]]:
        """All openAPIV3Schemas with their paths."""
        found = []
        if "schema" in self.shared:
            found.append(("spec.validation.openAPIV3Schema", _dig(self.shared, "schema", "openAPIV3Schema")))
        for index, version in enumerate(self.versions):
            if version.get("schema") is not None:
                path = f"spec.versions[{index}].schema.openAPIV3Schema"
                found.append((path, _dig(version, "schema", "openAPIV3Schema")))
        return [(path, schema) for path, schema in found if isinstance(schema, dict)]

    def has(self, test: Callable[[Json], bool]) -> bool:
        """Whether some node of some schema passes a test."""
        return any(test(node) for _, schema in self.schemas() for node in rules.all_schemas(schema))


class _Strictness(msgspec.Struct, frozen=True):
    """What is demanded; an update may keep the sins of the stored CRD."""

    require_schema: bool = True
    require_known_review_version: bool = True
    check_ca_bundle: bool = False
    schema: Options = Options()
    #: versions that may keep too many selectable fields; "" is the shared list
    many_selectable_fields: frozenset[str] = frozenset()


def _strictness(spec: _Spec, old: _Spec, *, is_established: bool) -> _Strictness:
    review_versions = strings(_struct(_struct(old.raw, "conversion"), "webhook"), "conversionReviewVersions")
    bundle = _dig(old.raw, "conversion", "webhook", "clientConfig", "caBundle")
    schemas = [schema for _, schema in old.schemas()]
    structural = [schema for schema in schemas if rules.is_structural(schema)]
    return _Strictness(
        require_schema=_all_have_schemas(old),
        require_known_review_version=not review_versions
        or any(version in _REVIEW_VERSIONS for version in review_versions),
        check_ca_bundle=is_established and not (bundle and ca_bundle_error(bundle)),
        schema=Options(
            require_structural=len(structural) == len(schemas),
            require_pruned_defaults=not any(map(has_unpruned_defaults, structural)),
            nodes=noderules.Options(
                require_valid_types=not old.has(
                    lambda node: text(node, "type") not in ("", *noderules.TYPES)
                ),
                require_atomic_sets=not old.has(noderules.is_set_of_parts),
                require_map_keys=not old.has(noderules.lacks_map_keys),
            ),
        ),
        many_selectable_fields=frozenset(_kept_selectable_fields(spec, old)),
    )


def _kept_selectable_fields(spec: _Spec, old: _Spec) -> Iterator[str]:
    shared = items_of(old.shared, "selectableFields")
    if len(shared) > MAX_SELECTABLE_FIELDS and same(shared, spec.shared.get("selectableFields")):
        yield ""
    before = {text(version, "name"): items_of(version, "selectableFields") for version in old.versions}
    for version in spec.versions:
        fields = before.get(text(version, "name"), [])
        if len(fields) > MAX_SELECTABLE_FIELDS and same(fields, version.get("selectableFields")):
            yield text(version, "name")


def _all_have_schemas(spec: _Spec) -> bool:
    if _dig(spec.shared, "schema", "openAPIV3Schema") is not None:
        return True
    return all(_dig(version, "schema", "openAPIV3Schema") is not None for version in spec.versions)


# The spec


def _name_errors(obj: Json, spec: _Spec) -> list[FieldError]:
    name = _dig(obj, "metadata", "name")
    wanted = f"{text(spec.names, 'plural')}.{text(spec.raw, 'group')}"
    if not isinstance(name, str) or not name or name == wanted:
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _spec_errors(spec: _Spec, strict: _Strictness) -> list[FieldError]:
    errors = [*_group_errors(text(spec.raw, "group"))]
    errors += _enum_errors("spec.scope", text(spec.raw, "scope"), ("Cluster", "Namespaced"))
    options = strict.schema
    has_defaults = spec.has(lambda node: node.get("default") is not None)
    if not spec.preserves_unknown or has_defaults or spec.has(_has_extension):
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
        _dig(item, "subresources", "status") is not None for item in (spec.shared, *spec.versions)
    )
    shared_schema = _dig(spec.shared, "schema", "openAPIV3Schema")
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
    strategy = _dig(spec.raw, "conversion", "strategy")
    if strategy is not None and strategy != "None" and spec.preserves_unknown:
        text_ = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid("spec.conversion.strategy", strategy, text_))
    errors += _conversion_errors(spec.raw.get("conversion"), strict)
    return errors


def _has_extension(node: Json) -> bool:
    return any(
        node.get(f"x-kubernetes-{key}")
        for key in (
            "embedded-resource",
            "preserve-unknown-fields",
            "int-or-string",
            "list-map-keys",
            "list-type",
        )
    ) or bool(node.get("x-kubernetes-validations"))


def _group_errors(group: str) -> Iterator[FieldError]:
    if not group:
        yield required("spec.group")
    elif texts := subdomain_errors(group):
        yield invalid("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")


def _enum_errors(path: str, value: str, allowed: Sequence[str]) -> Iterator[FieldError]:
    if not value:
        yield required(path)
    elif value not in allowed:
        yield not_supported(path, value, allowed)


def _missing_schema_errors(spec: _Spec, strict: _Strictness) -> Iterator[FieldError]:
    if _dig(spec.shared, "schema", "openAPIV3Schema") is not None:
        return
    for index, version in enumerate(spec.versions):
        if _dig(version, "schema", "openAPIV3Schema") is not None:
            continue
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        if strict.require_schema:
            yield required(path)
        elif not spec.preserves_unknown and version.get("served") is True:
            yield required(path, "because otherwise all fields are pruned")


def _version_errors(
    version: Json, subresources: object, path: str, strict: _Strictness
) -> Iterator[FieldError]:
    name = text(version, "name")
    if texts := dns1035_errors(name):
        yield invalid(f"{path}.name", name, ",".join(texts))
    for text_ in deprecation_errors(version):
        yield invalid(f"{path}.deprecationWarning", version.get("deprecationWarning"), text_)
    schema = _dig(version, "schema", "openAPIV3Schema")
    yield from schema_errors(
        schema,
        f"{path}.schema.openAPIV3Schema",
        has_status=_dig(subresources, "status") is not None,
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


def _version_list_errors(spec: _Spec) -> Iterator[FieldError]:
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


# Conversion


def _conversion_errors(conversion: object, strict: _Strictness) -> Iterator[FieldError]:
    if not isinstance(conversion, dict):
        return
    path = "spec.conversion"
    strategy = text(conversion, "strategy")
    yield from _enum_errors(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = _struct(conversion, "webhook")
    client = webhook.get("clientConfig")
    versions = strings(webhook, "conversionReviewVersions")
    if strategy != "Webhook":
        text_ = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(f"{path}.webhookClientConfig", text_)
        if versions:
            yield forbidden(f"{path}.conversionReviewVersions", text_)
        return
    if not isinstance(client, dict):
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from _client_errors(client, f"{path}.webhookClientConfig", strict)
    yield from _review_version_errors(versions, f"{path}.conversionReviewVersions", strict)


def _client_errors(client: Json, path: str, strict: _Strictness) -> Iterator[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from webhook_url_errors(str(url), f"{path}.url")
    elif isinstance(service, dict):
        yield from webhook_service_errors(service, f"{path}.service")
    bundle = client.get("caBundle")
    if isinstance(bundle, str) and bundle and strict.check_ca_bundle:
        problem = ca_bundle_error(bundle)
        if problem:
            yield invalid(f"{path}.caBundle", bundle, problem)


def _review_version_errors(versions: list[str], path: str, strict: _Strictness) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for text_ in dns1035_errors(version):
            yield invalid(f"{path}[{index}]", version, text_)
    if strict.require_known_review_version and not seen & set(_REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(_REVIEW_VERSIONS)}")


# Status, approval


def _status_errors(obj: Json) -> list[FieldError]:
    names = _dig(obj, "status", "acceptedNames")
    return list(_names_errors(names, "status.acceptedNames")) if isinstance(names, dict) else []


def _stored_version_errors(obj: Json, spec: _Spec) -> Iterator[FieldError]:
    path = "status.storedVersions"
    stored = strings(_struct(obj, "status"), "storedVersions")
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


def approval_state(obj: Json) -> tuple[str, str]:
    """Whether a CRD in a community group is `approved`, `bypassed`, `missing` or `invalid`, and why."""
    value = _dig(obj, "metadata", "annotations", APPROVAL)
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    if not isinstance(value, str) or not value:
        return "missing", f'protected groups must have approval annotation "{APPROVAL}", {see}'
    if value.startswith("unapproved"):
        return "bypassed", f'not approved: "{value}"'
    try:
        url = parse_request_uri(value)
    except UrlError:
        url = None
    if url is not None and url.host and url.scheme:
        return "approved", f"approved in {value}"
    form = 'with either a URL or a reason starting with "unapproved"'
    return "invalid", f'protected groups must have approval annotation "{APPROVAL}" {form}, {see}'


def is_community_group(group: str) -> bool:
    """Whether CRDs of a group need an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith((".k8s.io", ".kubernetes.io"))


def _approval_errors(obj: Json, spec: _Spec, old: Json | None) -> Iterator[FieldError]:
    if not is_community_group(text(spec.raw, "group")):
        return
    state, reason = approval_state(obj)
    if old is not None and approval_state(old)[0] == state:
        return
    path = f"metadata.annotations[{APPROVAL}]"
    if state == "missing":
        yield required(path, reason)
    elif state == "invalid":
        yield invalid(path, _dig(obj, "metadata", "annotations", APPROVAL), reason)


def _preserve_errors(spec: _Spec, old: _Spec | None) -> Iterator[FieldError]:
    if spec.preserves_unknown and not (old is not None and old.preserves_unknown):
        yield invalid(
            "spec.preserveUnknownFields",
            True,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead",
        )
