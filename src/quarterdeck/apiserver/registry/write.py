"""Create, update, patch and apply: one pipeline for every resource.

A write decodes, defaults, records field ownership, runs mutating admission, lets the kind
prepare and validate, runs validating admission and commits against the revision it read.
When somebody else was faster it starts over, unless the client named a resourceVersion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any, NamedTuple

from quarterdeck.apiserver import fielderror, metadata, status
from quarterdeck.apiserver.admission.attributes import Attributes, GroupVersionKind
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.apply.manager import FieldManager, restore_times
from quarterdeck.apiserver.auth import Authorizer, escalation_error, request_attributes
from quarterdeck.apiserver.builtin.check.always import terminating_namespace
from quarterdeck.apiserver.http import Response
from quarterdeck.apiserver.resource import Resource
from quarterdeck.apiserver.storage import Entry, Store, WriteConflict
from quarterdeck.apiserver.strategy import ClusterState, Strategy
from quarterdeck.apiserver.turn import in_turns

from .answer import entry_response, object_response
from .body import check_identity, parse_object
from .context import Context, deep_copy, timestamp
from .read import parse_rev
from .request import ApiRequest, WriteOptions
from .storedsize import ROOMY, etcd_key, too_large
from .systemmetadata import (
    drop_duplicate_owners,
    fill_system_metadata,
    generate_name,
    is_finished_deletion,
    restore_status,
    restore_system_metadata,
    wipe_system_metadata,
)

Json = dict[str, Any]
_CREATE_ATTEMPTS = 8
_OWN_MANAGER = "kube-apiserver"
#: how often a write that loses the race starts over; one that names a version fails the second time
_UPDATE_ATTEMPTS = 100


class Projection(NamedTuple):
    """A subresource that shows an object as another kind: that is what admission gets to see."""

    kind: GroupVersionKind
    read: Callable[[Json], Json]


#: given the stored object (None when missing), the object the client wants
Transform = Callable[[Json | None, Context], Awaitable[Json]]


class Writer:
    """Runs writes against the store."""

    def __init__(
        self, store: Store, admission: AdmissionChain, cluster: ClusterState, authorizer: Authorizer
    ) -> None:
        self._store = store
        self._admission = admission
        self._authorizer = authorizer
        self.cluster = cluster
        self._namespaces = store.bucket("", "namespaces", namespaced=False)

    # -- create ----------------------------------------------------------------------------

    async def create(self, request: ApiRequest) -> Response:
        options = WriteOptions.of(request, "CreateOptions")
        obj = parse_object(request, options)
        context = Context(request, self.cluster, dry_run=options.dry_run)
        entry, obj = await self.create_object(request, obj, options, context)
        if entry is None:
            return object_response(request, 201, obj)
        return await self._stored_response(request, 201, entry, obj)

    async def create_object(
        self,
        request: ApiRequest,
        obj: Json,
        options: WriteOptions,
        context: Context,
        *,
        is_apply: bool = False,
    ) -> tuple[Entry | None, Json]:
        """Run the create pipeline; the entry is None for a dry run."""
        resource = request.resource
        strategy = resource.strategy
        meta = obj["metadata"]
        given_version = meta.pop("resourceVersion", "")
        wipe_system_metadata(meta)
        resource.check_create_allowed(meta.get("name", ""))
        if resource.namespaced:
            self._check_namespace(request, meta)
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
        attributes = None
        if self._admission.needs_admission(
            resource.group, resource.plural, request.info.subresource, "CREATE"
        ):
            attributes = self._attributes(request, "CREATE", obj, None, options, context)
            obj = await self._mutate(attributes, request)
            meta = obj["metadata"]
        fill_system_metadata(resource, request, obj, context)
        try:
            may_commit = is_apply or not _is_version(given_version)
            return await self._create_prepared(
                request, obj, options, context, attributes, may_commit=may_commit
            )
        except status.StatusError:
            strategy.abandoned(obj, context)
            raise

    async def _create_prepared(
        self,
        request: ApiRequest,
        obj: Json,
        options: WriteOptions,
        context: Context,
        attributes: Attributes | None,
        *,
        may_commit: bool,
    ) -> tuple[Entry | None, Json]:
        """Prepare, validate and store; a generated name that is taken is drawn again."""
        resource = request.resource
        meta = obj["metadata"]
        generate = not meta.get("name") and meta.get("generateName")
        for attempt in range(_CREATE_ATTEMPTS):
            if generate:
                meta["name"] = generate_name(meta["generateName"])
            if attempt == 0:
                resource.strategy.prepare_create(obj, context)
                await in_turns(lambda: self._validate_new(resource, obj, context))
            self._check_escalation(request, obj, None)
            if attributes is not None:
                attributes.object = obj
                attributes.name = meta.get("name", "")
                await self._admission.validate(attributes)
            if options.dry_run:
                existing = resource.bucket.get(meta.get("namespace", ""), meta["name"])
                if existing is not None:
                    raise status.already_exists(resource.plural, resource.group, meta["name"])
                return None, await resource.as_if_stored(obj)
            if not may_commit:
                raise status.plain_error("resourceVersion should not be set on objects to be created")
            try:
                entry = await self._commit(resource, obj, 0)
            except WriteConflict:
                if generate and attempt + 1 < _CREATE_ATTEMPTS:
                    continue
                raise status.already_exists(resource.plural, resource.group, meta["name"]) from None
            return entry, obj
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _check_namespace(self, request: ApiRequest, meta: Json) -> None:
        """NamespaceLifecycle: the namespace of a new object exists and is not going away."""
        name = request.info.namespace
        entry = self._namespaces.get("", name)
        if entry is None:
            raise status.not_found("namespaces", "", name)
        if entry.is_deleting:
            resource = request.resource
            shown = meta.get("name") or meta.get("generateName", "")
            raise terminating_namespace(resource.group, resource.plural, shown, name)

    def _check_escalation(self, request: ApiRequest, obj: Json, old: Json | None) -> None:
        """Nobody grants what they do not hold."""
        resource = request.resource
        if resource.group != "rbac.authorization.k8s.io" or request.user.is_master:
            return
        error = escalation_error(
            self._authorizer,
            request.user,
            resource.plural,
            request.info.namespace,
            obj,
            old,
            request_name=request.info.name,
        )
        if error is not None:
            raise error

    def _validate_new(self, resource: Resource, obj: Json, context: Context) -> None:
        strategy = resource.strategy
        errors = metadata.validate_object_meta(
            obj["metadata"],
            namespaced=resource.namespaced,
            name_errors=strategy.name_errors,
            custom=resource.is_custom,
        )
        errors += strategy.validate_create(obj, context)
        if errors:
            raise status.invalid(resource.kind, resource.kind_group, obj["metadata"].get("name", ""), errors)
        for text in strategy.warnings(obj, None):
            context.warn(text)

    # -- update ----------------------------------------------------------------------------

    async def update(self, request: ApiRequest) -> Response:
        options = WriteOptions.of(request, "UpdateOptions")
        obj = parse_object(request, options)
        check_identity(request, obj)
        request.resource.strategy.default(obj)

        async def replace(old: Json | None, context: Context) -> Json:
            return deep_copy(obj)

        return await self.modify(request, options, replace, create_missing=True)

    async def modify(
        self,
        request: ApiRequest,
        options: WriteOptions,
        transform: Transform,
        *,
        is_patch: bool = False,
        is_apply: bool = False,
        create_missing: bool = False,
        rules: Strategy | None = None,
    ) -> Response:
        """Read, transform, check and store until nobody interferes; answers with the new object.

        `rules` stand in for the kind's own strategy where a subresource has different ones.
        """
        stored, obj, code = await self.modify_object(
            request,
            options,
            transform,
            is_patch=is_patch,
            is_apply=is_apply,
            create_missing=create_missing,
            rules=rules,
        )
        if stored is None:
            return object_response(request, code, obj)
        return await self._stored_response(request, code, stored, obj)

    async def modify_object(
        self,
        request: ApiRequest,
        options: WriteOptions,
        transform: Transform,
        *,
        is_patch: bool = False,
        is_apply: bool = False,
        create_missing: bool = False,
        rules: Strategy | None = None,
        projection: Projection | None = None,
    ) -> tuple[Entry | None, Json, int]:
        """Like `modify`, but returns (entry or None for a dry run or a finished deletion, object, code).

        With a `projection` the transform has run mutating admission (`mutate_as`) and recorded ownership.
        """
        resource = request.resource
        info = request.info
        namespace = info.namespace if resource.namespaced else ""
        for attempt in range(_UPDATE_ATTEMPTS):
            context = Context(request, self.cluster, dry_run=options.dry_run)
            entry = resource.bucket.get(namespace, info.name)
            if entry is None:
                if is_apply or (create_missing and resource.strategy.allows_create_on_update):
                    new = await self._transform_missing(request, transform, context, is_apply=is_apply)
                    stored, obj = await self.create_object(request, new, options, context, is_apply=is_apply)
                    return stored, obj, 201
                raise resource.not_found(info.name)
            context.is_settled = resource.is_settled(entry)
            [old] = await resource.read_many([entry])
            new = await transform(old, context)
            try:
                stored, obj = await self._store_update(
                    request,
                    options,
                    entry,
                    old,
                    new,
                    context,
                    is_patch=is_patch,
                    is_apply=is_apply,
                    strategy=rules or resource.strategy,
                    projection=projection,
                )
            except _Retry:
                if attempt + 1 < _UPDATE_ATTEMPTS:
                    continue
                raise status.conflict(resource.plural, resource.group, info.name) from None
            return stored, obj, 200
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _transform_missing(
        self, request: ApiRequest, transform: Transform, context: Context, *, is_apply: bool
    ) -> Json:
        """The object a PUT or an apply creates."""
        resource = request.resource
        if request.info.subresource:
            raise resource.not_found(request.info.name)
        if not request.user.is_master:
            info = copy(request.info)
            info.verb = "create"  # an update or apply that creates needs both permissions
            self._authorizer.check(request_attributes(request.user, info))
        new = await transform(None, context)
        meta = new["metadata"]
        if is_apply and meta.get("uid"):
            raise status.conflict(
                resource.plural,
                resource.group,
                request.info.name,
                f"uid mismatch: the provided object specified uid {meta['uid']}, "
                "and no existing object was found",
            )
        if version := meta.pop("resourceVersion", ""):  # of an object that is no longer there
            parse_rev(version, on_update=True)
        return new

    async def _store_update(
        self,
        request: ApiRequest,
        options: WriteOptions,
        entry: Entry,
        old: Json,
        new: Json,
        context: Context,
        *,
        is_patch: bool,
        is_apply: bool,
        strategy: Strategy,
        projection: Projection | None = None,
    ) -> tuple[Entry | None, Json]:
        resource = request.resource
        info = request.info
        name = info.name
        meta, old_meta = new["metadata"], old["metadata"]
        wanted = meta.get("resourceVersion", "")
        if not (is_patch and resource.is_custom and info.subresource == "status"):  # it keeps the metadata
            self._check_uid(resource, name, meta, old_meta, is_patch=is_patch)
        if info.subresource == "status":
            new = self._status_view(strategy.status_metadata, old, new)
            meta = new["metadata"]
        if not is_apply and projection is None:
            drop_duplicate_owners(new, context, is_patch=is_patch)
            sent = new["metadata"].get("managedFields")
            changed = new

            def record(owners: FieldManager) -> None:
                if sent is not None:
                    changed["metadata"]["managedFields"] = sent
                owners.update(
                    old,
                    changed,
                    manager=options.field_manager,
                    api_version=resource.api_version,
                    subresource=info.subresource,
                    now=context.now,
                )

            await resource.track(record)
        attributes = None
        if self._admission.needs_admission(resource.group, resource.plural, info.subresource, "UPDATE"):
            attributes = self._attributes(request, "UPDATE", new, old, options, context, projection)
            if projection is None:
                new = await self._mutate(attributes, request)
                meta = new["metadata"]
        wanted_rev = parse_rev(wanted, on_update=True) if wanted else 0
        if not wanted_rev:
            if not strategy.allows_unconditional_update and projection is None:
                raise self._unconditional(resource, name)
        elif wanted_rev != entry.rev:
            raise status.conflict(resource.plural, resource.group, name)
        if new.get("kind", resource.kind) != resource.kind:
            raise resource.wrong_kind(new["kind"], new)
        restore_system_metadata(meta, old_meta)
        meta["resourceVersion"] = str(entry.rev)
        if info.subresource == "status":
            strategy.prepare_status_update(new, old, context)
        else:
            if strategy.has_status and not info.subresource:
                restore_status(new, old)
            strategy.prepare_update(new, old, context)
            if strategy.has_generation and strategy.generation_changed(new, old):
                meta["generation"] = old_meta.get("generation", 0) + 1
        prepared = new
        await in_turns(
            lambda: self._validate_changed(
                resource, strategy, prepared, old, context, subresource=info.subresource
            )
        )
        self._check_escalation(request, new, old)
        if attributes is not None:
            attributes.object = new if projection is None else projection.read(new)
            await self._admission.validate(attributes)
        if options.dry_run:
            return None, await resource.as_if_stored(new)
        if restore_times(old, new):
            return entry, new
        if is_finished_deletion(meta) and not strategy.is_held(new):
            # what is deleted is what was stored; only the answer shows the change that let it go
            try:
                await self._store.delete(
                    resource.bucket, entry.namespace, entry.name, expected=entry.rev, value=entry.value()
                )
            except WriteConflict:
                raise _Retry from None
            return None, new
        try:
            stored = await self._commit(resource, new, entry.rev)
        except WriteConflict:
            raise _Retry from None
        return stored, new

    def _status_view(self, taken: frozenset[str], old: Json, new: Json) -> Json:
        """The stored object with the status, and the metadata the kind allows, of the new one.

        Everything else is shared with the stored object: no write to a status changes it.
        """
        meta, shown = new["metadata"], dict(old["metadata"])
        for key in (*taken, "managedFields", "resourceVersion", "uid"):
            if key in meta:
                shown[key] = meta[key]
            elif key != "uid":
                shown.pop(key, None)
        view = {**old, "metadata": shown}
        if "status" in new:
            view["status"] = new["status"]
        else:
            view.pop("status", None)
        return view

    def _check_uid(
        self, resource: Resource, name: str, meta: Json, old_meta: Json, *, is_patch: bool
    ) -> None:
        uid = meta.get("uid")
        if uid and uid != old_meta["uid"]:
            if is_patch:
                raise status.invalid(
                    resource.kind,
                    resource.group,
                    name,
                    # upstream checks it twice for everything but PUT
                    [fielderror.invalid("metadata.uid", uid, "field is immutable")] * 2,
                )
            raise status.conflict(
                resource.plural,
                resource.group,
                name,
                "StorageError: invalid object, Code: 4, Key: "
                f"{etcd_key(resource, old_meta)}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
                f"UID in object meta: {old_meta['uid']}",
            )

    def check_same(self, resource: Resource, stored: Json, given: Json) -> None:
        """A uid or resourceVersion in the metadata of `given` names the stored object it is for."""
        meta, old_meta = given.get("metadata") or {}, stored["metadata"]
        self._check_uid(resource, old_meta["name"], meta, old_meta, is_patch=False)

    def _unconditional(self, resource: Resource, name: str) -> status.StatusError:
        return status.invalid(
            resource.plural,
            resource.group,
            name,
            [fielderror.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
        )

    def _validate_changed(
        self,
        resource: Resource,
        strategy: Strategy,
        new: Json,
        old: Json,
        context: Context,
        *,
        subresource: str,
    ) -> None:
        errors = metadata.validate_object_meta_update(
            new["metadata"],
            old["metadata"],
            custom=resource.is_custom,
            checks=strategy.metadata_checks,
        )
        if subresource == "status":
            errors += strategy.validate_status_update(new, old, context)
        else:
            errors += strategy.validate_update(new, old, context)
        if errors:
            raise status.invalid(resource.kind, resource.kind_group, old["metadata"]["name"], errors)
        if subresource != "status":
            for text in strategy.warnings(new, old):
                context.warn(text)

    async def update_stored(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Callable[[Json], None],
        *,
        owns_status: bool = False,
    ) -> Json:
        """Change a stored object in place for the server itself, without admission.

        `change` may raise to refuse; it runs again when somebody else was faster. With `owns_status` the
        server is noted as owner of what it changed in the status.
        """
        while True:
            entry = resource.bucket.get(namespace, name)
            if entry is None:
                raise resource.not_found(name)
            obj = resource.read(entry)
            change(obj)
            if owns_status:
                resource.field_manager.update(
                    resource.read(entry),
                    obj,
                    manager=_OWN_MANAGER,
                    api_version=resource.api_version,
                    subresource="status",
                    now=timestamp(),
                )
            value = await resource.to_value(obj)
            if value == entry.value():
                return obj
            try:
                await self._commit_value(resource, obj, value, entry.rev)
            except WriteConflict:
                continue
            return obj

    # -- shared steps ----------------------------------------------------------------------

    def _attributes(
        self,
        request: ApiRequest,
        operation: str,
        obj: Json | None,
        old: Json | None,
        options: WriteOptions,
        context: Context,
        projection: Projection | None = None,
    ) -> Attributes:
        resource = request.resource
        info = request.info
        kinds = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}
        attributes = Attributes(
            operation=operation,
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            subresource=info.subresource,
            namespace=info.namespace if resource.namespaced else "",
            name=info.name or ((obj or {}).get("metadata") or {}).get("name", ""),
            namespaced=resource.namespaced,
            object=obj,
            old_object=old,
            options=options.document(kinds[operation]),
            user=request.user,
            dry_run=options.dry_run,
            context=context,
        )
        if projection is not None:
            attributes.object_kind = projection.kind
            attributes.old_object = projection.read(old) if old is not None else None
        return attributes

    async def mutate_as(
        self,
        request: ApiRequest,
        projection: Projection,
        new: Json,
        old: Json,
        options: WriteOptions,
        context: Context,
    ) -> Json:
        """Mutating admission of what a subresource shows; returns the object it leaves."""
        resource, info = request.resource, request.info
        if not self._admission.needs_admission(resource.group, resource.plural, info.subresource, "UPDATE"):
            return new
        attributes = self._attributes(request, "UPDATE", new, None, options, context, projection)
        attributes.old_object = old
        await self._admission.mutate(attributes)
        return attributes.object or new

    async def _mutate(self, attributes: Attributes, request: ApiRequest) -> Json:
        """Run mutating admission; a changed object is decoded and defaulted again."""
        resource = request.resource
        if await self._admission.mutate(attributes) and attributes.object is not None:
            obj, _ = resource.decode(attributes.object)
            resource.strategy.default(obj)
            attributes.object = obj
        assert attributes.object is not None
        return attributes.object

    async def _commit(self, resource: Resource, obj: Json, expected: int) -> Entry:
        value = await resource.to_value(obj)
        if len(value) > ROOMY and too_large(resource, obj, value):
            # upstream, too, rather forgets who owns what than refuse an object
            if obj["metadata"].pop("managedFields", None):
                value = await resource.to_value(obj)
            if problem := too_large(resource, obj, value):
                raise status.plain_error(problem)
        return await self._commit_value(resource, obj, value, expected)

    async def _commit_value(self, resource: Resource, obj: Json, value: bytes, expected: int) -> Entry:
        meta = obj["metadata"]
        labels: Mapping[str, str] = meta.get("labels") or {}
        entry = await self._store.put(
            resource.bucket,
            meta.get("namespace", ""),
            meta["name"],
            value,
            expected=expected,
            labels=labels,
            fields=resource.selectable(obj),
            mark=resource.written_mark,
        )
        meta["resourceVersion"] = str(entry.rev)
        return entry

    async def _stored_response(self, request: ApiRequest, code: int, entry: Entry, obj: Json) -> Response:
        if request.resource.needs_webhook(entry):  # which may have changed it on the way
            [obj] = await request.resource.read_many([entry])
            return object_response(request, code, obj)
        if request.resource.raw_body(entry) is None:
            return object_response(request, code, obj)
        return entry_response(request, code, entry)


class _Retry(Exception):
    """Somebody else wrote in between; start over from a fresh read."""


def _is_version(text: str) -> bool:
    """Whether a new object claims to be stored already; what is no version is overlooked."""
    return text.isascii() and text.isdigit() and 0 < int(text) < 2**64
