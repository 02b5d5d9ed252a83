"""New objects: from what a client sends to the store."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import metadata, status
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.admission.plugin.namespace import terminating_namespace
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.admit import WriteAdmission
from quarterdeck.apiserver.registry.write.commit import Commits
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.registry.write.systemmetadata import (
    drop_duplicate_owners,
    fill_system_metadata,
    wipe_system_metadata,
)
from quarterdeck.apiserver.storage import Bucket, Entry, WriteConflict
from quarterdeck.apiserver.uid import generate_name
from quarterdeck.wire.gonumber import parse_uint
from quarterdeck.wire.turn import in_turns

_ATTEMPTS = 8


class Creator:
    """Runs the steps of a create, for POST and for writes that create what they do not find."""

    def __init__(self, commits: Commits, admission: WriteAdmission, namespaces: Bucket) -> None:
        self._commits = commits
        self._admission = admission
        self._namespaces = namespaces

    async def create(
        self, context: Context, options: WriteOptions, obj: Json, *, is_apply: bool = False
    ) -> tuple[Entry | None, Json]:
        """The stored entry, None for a dry run, and the object; WriteConflict when the name is taken."""
        request = context.request
        resource = request.resource
        strategy = resource.strategy
        meta = obj["metadata"]
        given_version = meta.pop("resourceVersion", "")
        wipe_system_metadata(meta)
        self._check_place(request, meta)
        if not is_apply:
            strategy.default(obj)
            drop_duplicate_owners(obj, context, is_patch=False)
            resource.field_manager.update(
                None,
                obj,
                manager=options.field_manager,
                api_version=resource.api_version,
                subresource=request.info.subresource,
                now=context.now,
            )
        attributes = self._admission.attributes(context, options, "CREATE", obj)
        if attributes is not None:
            obj = await self._admission.mutate(attributes, request)
        fill_system_metadata(resource, request, obj, context)
        may_commit = is_apply or not _is_version(given_version)
        return await self._create_prepared(context, options, obj, attributes, may_commit=may_commit)

    async def _create_prepared(
        self,
        context: Context,
        options: WriteOptions,
        obj: Json,
        attributes: Attributes | None,
        *,
        may_commit: bool,
    ) -> tuple[Entry | None, Json]:
        """Prepare, validate and store; a generated name that is taken is drawn again."""
        request = context.request
        resource = request.resource
        meta = obj["metadata"]
        generate = not meta.get("name") and meta.get("generateName")
        for attempt in range(_ATTEMPTS):
            if generate:
                meta["name"] = generate_name(meta["generateName"])
            if attempt == 0:
                resource.strategy.prepare_create(obj, context)
                await in_turns(lambda: _validate(obj, context))
            self._admission.check_escalation(request, obj, None)
            if attributes is not None:
                attributes.name = meta.get("name", "")
                await self._admission.validate(attributes, obj)
            if options.dry_run:
                shown = await resource.as_if_stored(obj)  # first, as when it is stored: that may fail
                existing = resource.bucket.get(meta.get("namespace", ""), meta["name"])
                if existing is not None:
                    raise WriteConflict(meta["name"], existing)
                return None, shown
            if not may_commit:
                raise status.plain_error("resourceVersion should not be set on objects to be created")
            self._check_place(request, meta)  # once more: admission may have taken its time
            try:
                entry = await self._commits.put(resource, obj, 0)
            except WriteConflict:
                if generate and attempt + 1 < _ATTEMPTS:
                    continue
                raise
            return entry, obj
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_place(self, request: ApiRequest, meta: Json) -> None:
        """The definition and the namespace of a new object exist and are not going away."""
        request.resource.check_create_allowed(meta.get("name", ""))
        if not request.resource.namespaced:
            return
        name = request.info.namespace
        entry = self._namespaces.get("", name)
        if entry is None:
            raise status.not_found("namespaces", "", name)
        if entry.is_deleting:
            resource = request.resource
            shown = meta.get("name") or meta.get("generateName", "")
            raise terminating_namespace(resource.group, resource.plural, shown, name)


def _validate(obj: Json, context: Context) -> None:
    resource = context.request.resource
    strategy = resource.strategy
    errors = metadata.validate_object_meta(
        obj["metadata"],
        namespaced=resource.namespaced,
        name_errors=strategy.name_errors,
        bare_finalizers=strategy.allows_bare_finalizers,
    )
    errors += strategy.validate_create(obj, context)
    if errors:
        raise status.invalid(resource.kind, resource.kind_group, obj["metadata"].get("name", ""), errors)
    context.request.warnings.add_all(strategy.warnings(obj, None))


def _is_version(text: str) -> bool:
    """Whether a new object claims to be stored already; a version that is no number does not count."""
    return bool(parse_uint(text, 2**64 - 1))
