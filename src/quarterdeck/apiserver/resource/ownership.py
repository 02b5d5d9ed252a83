"""Field managers of the served resources: type models and reset fields put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from quarterdeck.apiserver.admission.applyconfiguration import merge_configuration
from quarterdeck.apiserver.apply import FieldManager, TypeModel, builtin_model, custom_model, resetfields

from .versions import converter_for

if TYPE_CHECKING:
    from quarterdeck.apiserver.crd.resource import CustomResource

    from .resource import BuiltinResource

Json = dict[str, Any]


def builtin_field_manager(resource: BuiltinResource) -> FieldManager:
    kind, plural = resource.kind, resource.plural

    @cache
    def model_for(api_version: str) -> TypeModel | None:
        group, _, version = api_version.rpartition("/")
        if group != resource.group:
            return None
        try:
            return builtin_model(group, version, kind)
        except KeyError:
            return None

    def convert(obj: Json, api_version: str) -> Json:
        group, _, version = obj["apiVersion"].rpartition("/")
        stored = converter_for(group, version, plural)
        hub = stored.to_storage(obj) if stored is not None else obj
        group, _, version = api_version.rpartition("/")
        wanted = converter_for(group, version, plural)
        return {**(wanted.from_storage(hub) if wanted is not None else hub), "apiVersion": api_version}

    has_status = "status" in resource.subresources
    return FieldManager(
        model_for,
        ignored=resetfields.builtin(resource.group, kind, has_status=has_status),
        convert=convert,
        kind=kind,
    )


def custom_field_manager(
    resource: CustomResource, convert: Callable[[Json, str], Json] | None = None
) -> FieldManager:
    """`convert`: an object to an apiVersion; by default only its apiVersion changes."""
    family = resource.family
    models: dict[str, TypeModel] = {}

    def model_for(api_version: str) -> TypeModel | None:
        if api_version not in models:
            schema = family.schema_of(api_version)
            if schema is None:
                return None
            models[api_version] = custom_model(schema.raw)
        return models[api_version]

    return FieldManager(
        model_for,
        ignored=resetfields.custom_resource(has_status=resource.strategy.has_status),
        own_version_only=resetfields.CUSTOM_OWN_VERSION_ONLY,
        convert=convert,
        kind=resource.kind,
    )


def merge_objects(resource: BuiltinResource | CustomResource, live: Json, patch: Json) -> Json:
    """`patch` over `live` as an apply would merge it, ownership aside."""
    model: TypeModel
    if resource.is_custom:
        model = custom_model(resource.schema.raw)  # type: ignore[union-attr]  # is_custom tells the class
    else:
        model = builtin_model(resource.group, resource.version, resource.kind)
    return merge_configuration(model, live, patch)
