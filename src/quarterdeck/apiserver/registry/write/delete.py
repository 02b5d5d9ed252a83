"""Delete and deletecollection: preconditions, propagation, finalizers, grace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.admission.chain import AdmissionChain
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.document.shape import ShapeError, normalize
from quarterdeck.apiserver.document.typetable import struct_for
from quarterdeck.apiserver.document.unmarshal import unmarshal_error
from quarterdeck.apiserver.registry.answer import document_response, object_response
from quarterdeck.apiserver.registry.read.documentlist import documents_response
from quarterdeck.apiserver.registry.read.reader import ListOptions, Reader
from quarterdeck.apiserver.registry.request import ApiRequest, check_dry_run
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.resource.resource import Resource, not_registered, parse_body
from quarterdeck.apiserver.resource.strategy import ClusterState
from quarterdeck.apiserver.storage import Entry, Store, WriteConflict, decided, outlives_cancellation
from quarterdeck.wire import fielderror, gostyle, wallclock
from quarterdeck.wire.fielderror import FieldError
from quarterdeck.wire.http import Response
from quarterdeck.wire.jsonvalue import deep_copy
from quarterdeck.wire.timeslice import TimeSlice

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
#: objects of a collection that are deleted together, so that they share a commit
_TOGETHER: Final = 100
_POLICIES = ("Foreground", "Background", "Orphan", "nil")
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


class DeleteOptions:
    """Options from the body, or from the query when there is no body."""

    def __init__(self, given: Json) -> None:
        self.document = given
        self.grace: int | None = given.get("gracePeriodSeconds")
        self.policy: str | None = given.get("propagationPolicy")
        self.orphan: bool | None = given.get("orphanDependents")
        self.preconditions: Json = given.get("preconditions") or {}
        errors: list[FieldError] = []
        if self.policy is not None and self.orphan is not None:
            errors.append(
                fielderror.invalid(
                    "propagationPolicy",
                    self.policy,
                    "orphanDependents and deletionPropagation cannot be both set",
                )
            )
        if self.policy is not None and self.policy not in _POLICIES[:3]:
            errors.append(fielderror.not_supported("propagationPolicy", self.policy, _POLICIES))
        self.dry_run = check_dry_run(given.get("dryRun") or (), errors)
        if errors:
            raise status.invalid("DeleteOptions", "meta.k8s.io", "", errors)

    @classmethod
    def of(cls, request: ApiRequest) -> DeleteOptions:
        return cls(cls._from_body(request) if request.http.body else cls._from_query(request))

    @staticmethod
    def _from_body(request: ApiRequest) -> Json:
        http = request.http
        media = decoding.media_type(http.headers.get("content-type", ""))
        if media in ("", decoding.JSON_TYPE):
            try:
                parsed = decoding.parse_json(http.body)
            except decoding.ParseError as error:
                raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        else:
            parsed, _ = parse_body(media, http.body, "DeleteOptions", is_custom=False)
        if parsed is None:
            return {}
        if not isinstance(parsed, dict):
            raise status.bad_request(unmarshal_error(parsed, "Go value of type v1.DeleteOptions"))
        kind = parsed.get("kind") or "DeleteOptions"
        if not isinstance(kind, str):
            why = unmarshal_error(kind, "Go struct field .kind of type string")
            raise status.bad_request(f"couldn't get version/kind; json parse error: {why}")
        if kind != "DeleteOptions":
            raise status.bad_request(not_registered(parsed.get("apiVersion") or "meta.k8s.io/v1", kind))
        try:
            options, _ = normalize(parsed, struct_for("", "v1", "DeleteOptions"))
        except ShapeError as error:
            raise status.bad_request(str(error)) from None
        return options

    @staticmethod
    def _from_query(request: ApiRequest) -> Json:
        options: Json = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if not request.http.raw_query:
            return options
        grace = request.integer("gracePeriodSeconds")
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if policy := request.param("propagationPolicy"):
            options["propagationPolicy"] = policy
        orphan = request.flag("orphanDependents")
        if orphan is not None:
            options["orphanDependents"] = orphan
        if values := request.http.query.get("dryRun"):
            options["dryRun"] = list(values)
        preconditions = {key: text for key in ("uid", "resourceVersion") if (text := request.param(key))}
        if preconditions:
            options["preconditions"] = preconditions
        return options

    def check_preconditions(self, resource: Resource, old: Json) -> None:
        """Raises Conflict unless the object is the one the client means."""
        uid = self.preconditions.get("uid")
        meta = old["metadata"]
        name, stored_uid, stored_rev = meta["name"], meta["uid"], meta["resourceVersion"]
        if uid is not None and uid != stored_uid:
            if not resource.strategy.delete_records_grace:  # these delete in their own way
                raise status.conflict(
                    resource.plural,
                    resource.group,
                    name,
                    f"Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}",
                )
            raise _precondition_failed(
                resource,
                name,
                f"the UID in the precondition ({uid}) does not match the UID in record ({stored_uid}). "
                "The object might have been deleted and then recreated",
            )
        rev = self.preconditions.get("resourceVersion")
        if rev is not None and rev != stored_rev:
            raise _precondition_failed(
                resource,
                name,
                f"the ResourceVersion in the precondition ({rev}) does not match the ResourceVersion in "
                f"record ({stored_rev}). The object might have been modified",
            )

    def finalizers(self, existing: list[str], *, orphans_by_default: bool) -> list[str]:
        """The finalizers an object has after this delete was asked for."""
        policy = self.policy
        if policy is None and self.orphan is not None:
            policy = "Orphan" if self.orphan else "Background"
        if policy is None:
            # what the object already carries says how it is to be deleted
            if ORPHAN in existing or FOREGROUND in existing:
                return existing
            policy = "Orphan" if orphans_by_default else "Background"
        kept = [name for name in existing if name not in (ORPHAN, FOREGROUND)]
        if policy == "Orphan":
            return [*kept, ORPHAN]
        if policy == "Foreground":
            return [*kept, FOREGROUND]
        return kept


def _precondition_failed(resource: Resource, name: str, why: str) -> status.StatusError:
    # deletes name the Kind where updates name the resource
    return status.StatusError(
        409,
        f"Operation cannot be fulfilled on {status.qualified(resource.kind, resource.group)} "
        f"{gostyle.quote(name)}: {why}",
        reason="Conflict",
        details={
            "name": name,
            **({"group": resource.group} if resource.group else {}),
            "kind": resource.kind,
        },
    )


#: whose deletion is answered with the object even when nothing is left of it
_ANSWERED_WITH_OBJECT: Final = frozenset(
    (
        ("", "namespaces"),
        ("", "persistentvolumeclaims"),
        ("", "persistentvolumes"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "resourcequotas"),
        ("", "serviceaccounts"),
        ("", "services"),
        ("resource.k8s.io", "deviceclasses"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourceclaimtemplates"),
        ("resource.k8s.io", "resourceslices"),
        ("storage.k8s.io", "csidrivers"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "storageclasses"),
        ("storage.k8s.io", "volumeattachments"),
        ("storage.k8s.io", "volumeattributesclasses"),
    )
)


class Deleter:
    """Runs deletes against the store."""

    def __init__(self, store: Store, admission: AdmissionChain, cluster: ClusterState) -> None:
        self._store = store
        self._reader = Reader(store)
        self._admission = admission
        self._cluster = cluster

    async def delete(self, request: ApiRequest) -> Response:
        options = DeleteOptions.of(request)
        obj, is_gone = await self.delete_object(request, request.info.name, options)
        resource = request.resource
        if not is_gone or (resource.group, resource.plural) in _ANSWERED_WITH_OBJECT:
            # "accepted" only for the old way to ask that dependents go first
            return object_response(request, 202 if not is_gone and options.orphan is False else 200, obj)
        details: Json = {"name": obj["metadata"]["name"]}
        if resource.group:
            details["group"] = resource.group
        details["kind"] = resource.plural
        details["uid"] = obj["metadata"]["uid"]
        return document_response(request, 200, status.success(details))

    async def delete_object(
        self,
        request: ApiRequest,
        name: str,
        options: DeleteOptions,
        *,
        is_admitted: bool = False,
    ) -> tuple[Json, bool]:
        """Delete one object; returns its last state and whether it is gone.

        With `is_admitted` nobody is asked: what was asked about is something else, an eviction.
        """
        _warn(request, options)
        admit = None if is_admitted else partial(self._admit, request, name, options)
        return await self._delete(request, name, options, admit)

    async def _delete(
        self,
        request: ApiRequest,
        name: str,
        options: DeleteOptions,
        admit: Callable[[Json], Awaitable[None]] | None,
        admitted_rev: int = 0,
    ) -> tuple[Json, bool]:
        """`admit` is asked about every state that may be deleted, but not again about `admitted_rev`."""
        resource = request.resource
        while True:
            entry = resource.find(request.info.namespace, name)
            if entry is None:
                raise resource.not_found(name)
            [old] = await resource.read_many([entry])
            if admit is not None and entry.rev != admitted_rev:
                await admit(old)
            options.check_preconditions(resource, old)
            context = Context(request, self._cluster, dry_run=options.dry_run)
            obj, is_gone = self._mark(resource, old, options, context)
            if options.dry_run:
                return obj, is_gone
            try:
                if obj == old:
                    if is_gone:
                        await self._remove(resource, entry, obj)
                    elif not resource.is_up_to_date(entry):
                        await self._put(resource, entry, obj)
                elif not is_gone:
                    await self._put(resource, entry, obj)
                else:
                    await _to_the_end(self._put_and_remove(resource, entry, obj))
            except WriteConflict:
                continue
            return obj, is_gone

    async def _put(self, resource: Resource, entry: Entry, obj: Json) -> Entry:
        stored = await decided(
            self._store.put(
                resource.bucket,
                entry.namespace,
                entry.name,
                await resource.to_value(obj),
                expected=entry.rev,
                labels=obj["metadata"].get("labels") or {},
                fields=resource.selectable(obj),
                mark=resource.written_mark,
            )
        )
        obj["metadata"]["resourceVersion"] = str(stored.rev)
        return stored

    async def _remove(self, resource: Resource, entry: Entry, obj: Json) -> None:
        gone = await decided(
            self._store.delete(
                resource.bucket, entry.namespace, entry.name, expected=entry.rev, value=entry.value()
            )
        )
        obj["metadata"]["resourceVersion"] = str(gone.rev)

    async def _put_and_remove(self, resource: Resource, entry: Entry, obj: Json) -> None:
        """Watchers see the last change of an object before they see it gone."""
        await self._remove(resource, await self._put(resource, entry, obj), obj)

    def _mark(
        self, resource: Resource, old: Json, options: DeleteOptions, context: Context
    ) -> tuple[Json, bool]:
        """The object after the delete was asked for, and whether nothing keeps it."""
        strategy = resource.strategy
        # A deletion changes metadata and, of some kinds, the status; the rest stays that of the old object.
        meta = dict(old["metadata"])
        obj = {**old, "metadata": meta}
        if "status" in old:
            obj["status"] = deep_copy(old["status"])
        existing = list(meta.get("finalizers") or ())
        if strategy.delete_records_grace or "deletionTimestamp" in meta:
            finalizers = options.finalizers(existing, orphans_by_default=strategy.orphans_by_default)
        else:
            finalizers = existing  # a first delete that only sets a date asks for no policy
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        requested = options.grace
        if requested is not None and requested < 0:
            requested = 1
        grace = strategy.grace_period(obj, requested)
        held = strategy.is_held(obj)
        is_free = not finalizers and not held
        if "deletionTimestamp" in meta:
            if current := meta.get("deletionGracePeriodSeconds") or 0:
                if requested is None or requested >= current:
                    return old, False  # it is waited for, and nothing else can be asked for meanwhile
                _shorten(meta, current, requested)
                return obj, is_free and not requested
            return (old, True) if is_free else (obj, False)
        is_gone = is_free and grace == 0
        if is_gone and not strategy.deletes_gracefully:
            return old, True  # as it is stored, finalizers that were not asked for included
        meta["deletionTimestamp"] = _stamp(datetime.fromtimestamp(wallclock.now() + grace, UTC))
        if strategy.delete_records_grace:
            meta["deletionGracePeriodSeconds"] = grace
            if meta.get("generation"):
                meta["generation"] += 1
        strategy.mark_deleted(obj, context)
        return obj, is_gone

    async def _admit(self, request: ApiRequest, name: str, options: DeleteOptions, old: Json) -> None:
        resource = request.resource
        if not self._admission.needs_admission(resource.group, resource.plural, "", "DELETE", request.user):
            return
        body = {**options.document, "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        attributes = Attributes(
            operation="DELETE",
            group=resource.group,
            version=resource.version,
            kind=resource.kind,
            resource=resource.plural,
            namespace=request.info.namespace if resource.namespaced else "",
            name=name,
            namespaced=resource.namespaced,
            old_object=old,
            options=body,
            user=request.user,
            dry_run=options.dry_run,
            context=Context(request, self._cluster, dry_run=options.dry_run),
        )
        await self._admission.mutate(attributes)
        await self._admission.validate(attributes)

    async def delete_collection(self, request: ApiRequest) -> Response:
        options = DeleteOptions.of(request)
        resource = request.resource
        _warn(request, options)
        entries, metadata = await self._reader.select(request, ListOptions(request))
        deletions: list[asyncio.Task[Any]] = []
        turn = TimeSlice()
        try:
            for entry in entries:
                current = resource.find(entry.namespace, entry.name)
                if current is None:
                    continue
                [old] = await resource.read_many([current])
                scoped = request.for_object(entry.namespace, entry.name)
                # One after the other: a refusal keeps all behind it. Only the commits are shared.
                # Its name is not shown: upstream asks about the collection.
                admit = partial(self._admit, scoped, "", options)
                await admit(old)
                options.check_preconditions(resource, old)
                work = self._delete(scoped, entry.name, options, admit, current.rev)
                deletions.append(asyncio.create_task(work))
                if len(deletions) == _TOGETHER:
                    await _all_deleted(deletions)
                await turn.end()
        except asyncio.CancelledError:  # what is not on its way to the disk yet is left undone
            for deletion in deletions:
                deletion.cancel()
            raise
        finally:
            await _all_deleted(deletions)
        return await documents_response(request, entries, metadata)


def _shorten(meta: Json, current: int, requested: int) -> None:
    """A shorter grace period, which began when the deletion did but does not end before now."""
    started = datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=current)
    ends, now = started + timedelta(seconds=requested), datetime.fromtimestamp(wallclock.now(), UTC)
    if ends < now:
        ends, requested = now, min(requested, 1)
    meta["deletionTimestamp"] = _stamp(ends)
    meta["deletionGracePeriodSeconds"] = requested


def _warn(request: ApiRequest, options: DeleteOptions) -> None:
    if request.resource.kind == "Job" and options.policy is None and options.orphan is None:
        request.warn(JOB_WARNING)


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Do all of something or nothing, and tell what came of it, whoever stops waiting meanwhile."""
    task = asyncio.create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not outlives_cancellation.get():
            raise
        task.result()


async def _all_deleted(deletions: list[asyncio.Task[Any]]) -> None:
    """Wait for all; raises what the first of them raised that failed."""
    waiting = deletions.copy()
    deletions.clear()
    for error in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(error, status.StatusError) and error.code == 404:
            continue  # somebody else was faster
        if isinstance(error, BaseException):
            raise error


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
