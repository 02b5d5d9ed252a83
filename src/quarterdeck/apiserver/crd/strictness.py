"""How strictly a CRD is judged: what an old one already does wrong, its update may go on doing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.clientconfig import (
    ca_bundle_error,
)
from quarterdeck.apiserver.schema import noderules, rules
from quarterdeck.apiserver.schema.defaultrules import has_unpruned_defaults
from quarterdeck.apiserver.schema.definition import Options
from quarterdeck.apiserver.schema.lenient import items_of, strings, text
from quarterdeck.apiserver.schema.versionrules import (
    MAX_SELECTABLE_FIELDS,
)
from quarterdeck.wire.jsonvalue import same

from .internalspec import InternalSpec, dig, struct

REVIEW_VERSIONS: Final = ("v1", "v1beta1")


class Strictness(msgspec.Struct, frozen=True):
    """What is demanded; an update may keep what is wrong in the stored CRD already."""

    require_schema: bool = True
    require_known_review_version: bool = True
    check_ca_bundle: bool = False
    schema: Options = Options()
    #: versions that may keep too many selectable fields; "" is the shared list
    many_selectable_fields: frozenset[str] = frozenset()


def strictness(spec: InternalSpec, old: InternalSpec, *, is_established: bool) -> Strictness:
    review_versions = strings(struct(struct(old.raw, "conversion"), "webhook"), "conversionReviewVersions")
    bundle = dig(old.raw, "conversion", "webhook", "clientConfig", "caBundle")
    schemas = [schema for _, schema in old.schemas()]
    structural = [schema for schema in schemas if rules.is_structural(schema)]
    return Strictness(
        require_schema=all_have_schemas(old),
        require_known_review_version=not review_versions
        or any(version in REVIEW_VERSIONS for version in review_versions),
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


def _kept_selectable_fields(spec: InternalSpec, old: InternalSpec) -> Iterator[str]:
    shared = items_of(old.shared, "selectableFields")
    if len(shared) > MAX_SELECTABLE_FIELDS and same(shared, spec.shared.get("selectableFields")):
        yield ""
    before = {text(version, "name"): items_of(version, "selectableFields") for version in old.versions}
    for version in spec.versions:
        fields = before.get(text(version, "name"), [])
        if len(fields) > MAX_SELECTABLE_FIELDS and same(fields, version.get("selectableFields")):
            yield text(version, "name")


def all_have_schemas(spec: InternalSpec) -> bool:
    if dig(spec.shared, "schema", "openAPIV3Schema") is not None:
        return True
    return all(dig(version, "schema", "openAPIV3Schema") is not None for version in spec.versions)


def has_extension(node: Json) -> bool:
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
