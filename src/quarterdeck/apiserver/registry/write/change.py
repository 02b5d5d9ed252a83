"""Changes of stored objects: from what a client wants to the store.

A change starts over from a fresh read when somebody else was faster, unless the client named a
resourceVersion.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import metadata, status
from quarterdeck.apiserver.apply.manager import FieldManager, restore_times
from quarterdeck.apiserver.registry.read.reader import parse_rev
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.registry.write.admit import Projection, WriteAdmission
from quarterdeck.apiserver.registry.write.commit import Commits
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.registry.write.create import Creator
from quarterdeck.apiserver.registry.write.storedsize import etcd_key
from quarterdeck.apiserver.registry.write.systemmetadata import (
    drop_duplicate_owners,
    is_finished_deletion,
    restore_status,
    restore_system_metadata,
)
from quarterdeck.apiserver.registry.write.turn import Turns
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.strategy import ClusterState, Strategy
from quarterdeck.apiserver.storage import Entry, WriteConflict
from quarterdeck.wire import fielderror
from quarterdeck.wire.jsonvalue import same
from quarterdeck.wire.turn import in_turns

#: how often a write that loses the race starts over; one that names a version fails the second time
_ATTEMPTS = 100

#: given the stored object (None when missing), the object the client wants
Transform = Callable[[Json | None, Context], Awaitable[Json]]


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a client asks for a change."""

    is_patch: bool = False
    is_apply: bool = False
    #: what is not there is created, if the kind allows it
    creates_missing: bool = False
    #: stand in for the kind's own strategy where a subresource has different ones
    rules: Strategy | None = None
    #: the transform has run mutating admission (`mutate_as`) and recorded ownership
    projection: Projection | None = None


@dataclass(slots=True)
class Change:
    """One attempt: the object as it is stored and as it shall be."""

    context: Context
    options: WriteOptions
    manner: Manner
    entry: Entry
    old: Json
    new: Json

    @property
    def request(self) -> ApiRequest:
        return self.context.request

    @property
    def resource(self) -> Resource:
        return self.context.request.resource

    @property
    def strategy(self) -> Strategy:
        return self.manner.rules or self.resource.strategy

    @property
    def is_status(self) -> bool:
        return self.request.info.subresource == "status"


class Changer:
    """Runs the steps of a change."""

    def __init__(
        self, commits: Commits, admission: WriteAdmission, creator: Creator, cluster: ClusterState
    ) -> None:
        self._commits = commits
        self._admission = admission
        self._creator = creator
        self._cluster = cluster
        self._turns = Turns()

    async def modify(
        self, request: ApiRequest, options: WriteOptions, transform: Transform, manner: Manner
    ) -> tuple[Entry | None, Json, int]:
        """Read, transform, check and store until nobody interferes.

        Answers the entry (None for a dry run or a finished deletion), the object and the code.
        """
        resource, info = request.resource, request.info
        try:
            return await self._attempt(request, options, transform, manner)
        except WriteConflict:
            pass
        async with self._turns.take(resource.bucket, info.namespace, info.name):
            for _ in range(_ATTEMPTS - 1):
                try:
                    return await self._attempt(request, options, transform, manner)
                except WriteConflict:
                    continue
        raise status.conflict(resource.plural, resource.group, info.name)

    async def _attempt(
        self, request: ApiRequest, options: WriteOptions, transform: Transform, manner: Manner
    ) -> tuple[Entry | None, Json, int]:
        """WriteConflict when somebody else was faster."""
        resource, info = request.resource, request.info
        entry = resource.find(info.namespace, info.name)
        with Context(request, self._cluster, dry_run=options.dry_run) as context:
            if entry is None:
                return *await self._create_missing(context, options, transform, manner), 201
            context.is_settled = resource.is_settled(entry)
            [old] = await resource.read_many([entry])
            new = await transform(old, context)
            return *await self._run(Change(context, options, manner, entry, old, new)), 200

    async def _create_missing(
        self, context: Context, options: WriteOptions, transform: Transform, manner: Manner
    ) -> tuple[Entry | None, Json]:
        resource, is_apply = context.request.resource, manner.is_apply
        if not is_apply and not (manner.creates_missing and resource.strategy.allows_create_on_update):
            raise resource.not_found(context.request.info.name)
        new = await self._transform_missing(context, transform, is_apply=is_apply)
        return await self._creator.create(context, options, new, is_apply=is_apply)

    async def _transform_missing(self, context: Context, transform: Transform, *, is_apply: bool) -> Json:
        """The object a PUT or an apply creates."""
        request = context.request
        resource = request.resource
        if request.info.subresource:
            raise resource.not_found(request.info.name)
        self._admission.check_may_create(request)
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
        if not is_apply and meta.get("uid"):  # what was meant is gone: its name is no reason to make another
            place = {"name": request.info.name, "namespace": request.info.namespace}
            raise _other_uid(resource, place, meta["uid"], "", dry_run=context.dry_run)
        if version := meta.pop("resourceVersion", ""):  # of an object that is no longer there
            parse_rev(version, on_update=True)
        return new

    async def _run(self, change: Change) -> tuple[Entry | None, Json]:
        """WriteConflict when the stored object is no longer the one that was read."""
        resource, projection = change.resource, change.manner.projection
        wanted_version = change.new["metadata"].get("resourceVersion", "")
        if not (change.manner.is_patch and resource.is_custom and change.is_status):  # it keeps the metadata
            check_uid(
                resource,
                change.new["metadata"],
                change.old["metadata"],
                is_patch=change.manner.is_patch,
                dry_run=change.options.dry_run,
            )
        if change.is_status:
            change.new = _status_view(change.strategy.status_metadata, change.old, change.new)
        if not change.manner.is_apply and projection is None:
            await _record_owners(change)
        attributes = self._admission.attributes(
            change.context, change.options, "UPDATE", change.new, change.old, projection
        )
        if attributes is not None and projection is None:
            change.new = await self._admission.mutate(attributes, change.request)
        _check_version(change, wanted_version)
        if change.new.get("kind", resource.kind) != resource.kind:
            raise resource.wrong_kind(change.new["kind"], change.new)
        _prepare(change)
        await in_turns(lambda: _validate(change))
        self._admission.check_escalation(change.request, change.new, change.old)
        shown = change.new if projection is None or attributes is None else projection.read(change.new)
        await self._admission.validate(attributes, shown)
        return await self._store(change)

    async def _store(self, change: Change) -> tuple[Entry | None, Json]:
        resource, new, entry = change.resource, change.new, change.entry
        if change.options.dry_run:
            return None, await resource.as_if_stored(new)
        if restore_times(change.old, new) and await _is_stored(resource, new, entry):
            return entry, new
        if is_finished_deletion(new["metadata"]) and not change.strategy.is_held(new):
            # what is deleted is what was stored; only the answer shows the change that let it go
            await self._commits.remove(resource, entry)
            return None, new
        return await self._commits.put(resource, new, entry.rev), new


async def _is_stored(resource: Resource, obj: Json, entry: Entry) -> bool:
    """Whether an object that was read and not changed would be stored as it is."""
    if not resource.is_up_to_date(entry):
        return False
    if not resource.needs_webhook(entry):
        return True
    # what was read is not what comes of the way back, if the webhook was another when it was stored
    wanted, stored = (
        msgspec.json.decode(b"{" + value) for value in (await resource.to_value(obj), entry.value())
    )
    return same(wanted, stored)


def check_uid(
    resource: Resource, meta: Json, old_meta: Json, *, is_patch: bool = False, dry_run: bool = False
) -> None:
    """A uid in the wanted metadata names the stored object it is for."""
    uid = meta.get("uid")
    if not uid or uid == old_meta["uid"]:
        return
    name = old_meta["name"]
    if is_patch:
        raise status.invalid(
            resource.kind,
            resource.group,
            name,
            # upstream checks it twice for everything but PUT
            [fielderror.invalid("metadata.uid", uid, "field is immutable")] * 2,
        )
    raise _other_uid(resource, old_meta, uid, old_meta["uid"], dry_run=dry_run)


def _other_uid(
    resource: Resource, stored: Json, wanted: str, found: str, *, dry_run: bool
) -> status.StatusError:
    key = etcd_key(resource, stored)
    if dry_run:  # it looks before the prefix of all keys is added
        key = key.removeprefix("/registry")
    return status.conflict(
        resource.plural,
        resource.group,
        stored["name"],
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, "
        f"UID in object meta: {found}",
    )


def _status_view(taken: frozenset[str], old: Json, new: Json) -> Json:
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


async def _record_owners(change: Change) -> None:
    """Note in managedFields who changed what."""
    context, resource, new = change.context, change.resource, change.new
    drop_duplicate_owners(new, context, is_patch=change.manner.is_patch)
    sent = new["metadata"].get("managedFields")

    def record(owners: FieldManager) -> None:
        if sent is not None:
            new["metadata"]["managedFields"] = sent
        owners.update(
            change.old,
            new,
            manager=change.options.field_manager,
            api_version=resource.api_version,
            subresource=change.request.info.subresource,
            now=context.now,
        )

    try:
        await resource.track(record)
    except status.StatusError:
        # no way to a version that an owner wrote through: rather forget all owners than refuse the write
        new["metadata"].pop("managedFields", None)


def _check_version(change: Change, wanted: str) -> None:
    """A resourceVersion that the client gave must be the stored one; some kinds insist on one."""
    resource, name = change.resource, change.request.info.name
    wanted_rev = parse_rev(wanted, on_update=True) if wanted else 0
    if wanted_rev:
        if wanted_rev != change.entry.rev:
            raise status.conflict(resource.plural, resource.group, name)
    elif not change.strategy.allows_unconditional_update and change.manner.projection is None:
        raise status.invalid(
            resource.plural,
            resource.group,
            name,
            [fielderror.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
        )


def _prepare(change: Change) -> None:
    """What the server decides: system metadata, what this door may not change, the generation."""
    strategy, new, old, context = change.strategy, change.new, change.old, change.context
    meta, old_meta = new["metadata"], old["metadata"]
    restore_system_metadata(meta, old_meta)
    meta["resourceVersion"] = str(change.entry.rev)
    if change.is_status:
        strategy.prepare_status_update(new, old, context)
        return
    if strategy.has_status and not change.request.info.subresource:
        restore_status(new, old)
    strategy.prepare_update(new, old, context)
    if strategy.has_generation and strategy.generation_changed(new, old):
        meta["generation"] = old_meta.get("generation", 0) + 1


def _validate(change: Change) -> None:
    resource, strategy, new, old = change.resource, change.strategy, change.new, change.old
    errors = metadata.validate_object_meta_update(
        new["metadata"],
        old["metadata"],
        bare_finalizers=strategy.allows_bare_finalizers,
        checks=strategy.metadata_checks,
    )
    if change.is_status:
        errors += strategy.validate_status_update(new, old, change.context)
    else:
        errors += strategy.validate_update(new, old, change.context)
    if errors:
        raise status.invalid(resource.kind, resource.kind_group, old["metadata"]["name"], errors)
    if not change.is_status:
        change.request.warnings.add_all(strategy.warnings(new, old))
