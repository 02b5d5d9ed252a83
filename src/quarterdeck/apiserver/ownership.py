"""Field managers of the served resources: type models and reset fields put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .apply.builtin import model as builtin_model
from .apply.builtin import object_meta
from .apply.fieldset import LEAF, FieldSet
from .apply.manager import FieldManager
from .apply.merge import merge
from .apply.typed import TypeModel, schema_model

if TYPE_CHECKING:
    from .crd.resource import CustomResource
    from .resource import BuiltinResource

Json = dict[str, Any]


def _ignored(*, has_status: bool, status_metadata: frozenset[str]) -> dict[str, FieldSet]:
    """What writes to the main resource and to /status do not change, and so never own."""
    main: FieldSet = {"f:status": LEAF} if has_status else {}
    metadata: FieldSet = {
        f"f:{name}": LEAF
        for name in ("labels", "annotations", "finalizers", "ownerReferences")
        if name not in status_metadata
    }
    status: FieldSet = {"f:spec": LEAF}
    if metadata:
        status["f:metadata"] = metadata
    return {"": main, "status": status}


def builtin_field_manager(resource: BuiltinResource) -> FieldManager:
    strategy = resource.strategy
    version = resource.api_version

    def model_for(api_version: str) -> TypeModel | None:
        group, _, name = api_version.rpartition("/")
        if group != resource.group and api_version != version:
            return None
        try:
            return builtin_model(group, name, resource.kind)
        except KeyError:
            return None

    return FieldManager(
        model_for,
        ignored=_ignored(has_status=strategy.has_status, status_metadata=strategy.status_metadata),
        kind=resource.kind,
    )


def custom_field_manager(resource: CustomResource) -> FieldManager:
    family = resource.family
    models: dict[str, TypeModel] = {}

    def model_for(api_version: str) -> TypeModel | None:
        if api_version not in models:
            schema = family.schema_of(api_version)
            served = any(each.api_version == api_version for each in family.served())
            if schema is None or not served:
                return None
            models[api_version] = schema_model(schema.raw, object_meta())
        return models[api_version]

    has_status = resource.strategy.has_status
    ignored = _ignored(has_status=has_status, status_metadata=frozenset())
    if has_status:
        # everything but the status is reset by a write to it
        ignored["status"] = {
            f"f:{name}": LEAF for name in resource.schema.raw.get("properties") or {} if name != "status"
        } | {"f:metadata": LEAF, "f:spec": LEAF}
    return FieldManager(model_for, ignored=ignored, kind=resource.kind)


def merge_objects(fields: FieldManager, live: Json, patch: Json, api_version: str) -> Json:
    """`patch` over `live` as an apply would merge it, ownership aside."""
    model = fields.model(api_version)
    if model is None:
        raise ValueError(f"no schema for {api_version}")
    merged: Json = merge(model, live, patch)
    return merged
