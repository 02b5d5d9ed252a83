"""From a CustomResourceDefinition object to served resources, and back.

One task works through the definitions that changed: accepts names, sets conditions, serves and
withdraws versions, and on deletion removes the instances before it lets the definition go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.resource.resourcetable import ResourceTable
from quarterdeck.apiserver.storage import (
    Bucket,
    Entry,
    Event,
    EventType,
    StorageFull,
    Store,
    WriteConflict,
    encode_value,
)

from .conversion import Converter
from .resource import CustomResource, Family

Json = dict[str, Any]
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_log = logging.getLogger("quarterdeck.apiserver.crd")


class _Names(msgspec.Struct, rename="camel"):
    plural: str | None = None
    singular: str | None = None
    short_names: list[str] | None = None
    kind: str | None = None
    list_kind: str | None = None


class _Group(msgspec.Struct):
    group: str


class _Accepted(msgspec.Struct, rename="camel"):
    accepted_names: _Names | None = None


class _Named(msgspec.Struct):
    """What other definitions need to know of one; its schemas are not decoded."""

    spec: _Group
    status: _Accepted | None = None


_read_names = msgspec.json.Decoder(_Named).decode

DeleteInstance = Callable[[CustomResource, str, str], Awaitable[None]]


class DefinitionLifecycle:
    """Keeps the resource table in step with the stored definitions."""

    def __init__(
        self,
        store: Store,
        bucket: Bucket,
        table: ResourceTable,
        *,
        make_converter: Callable[[Json], Converter],
        delete_instance: DeleteInstance,
        on_unserved: Callable[[Resource], None],
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._bucket = bucket
        self._table = table
        self._make_converter = make_converter
        self._delete_instance = delete_instance
        self._on_unserved = on_unserved
        self._now = now
        self._families: dict[str, tuple[Family, int]] = {}
        self._queue: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._watched: dict[str, tuple[Bucket, object]] = {}

    async def start(self) -> None:
        """Serve what is stored, then follow changes."""
        for entry in self._bucket.scan():
            await self._reconcile(entry.name)
        self._bucket.subscribers[self] = self._changed
        self._task = asyncio.create_task(self._run(), name="crd-lifecycle")

    async def stop(self) -> None:
        self._bucket.subscribers.pop(self, None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed(self, events: list[Event]) -> None:
        for event in events:
            name = event.entry.name
            self._queue[name] = None
            if event.type is EventType.DELETED:
                group = event.entry.document()["spec"]["group"]
                for entry in self._bucket.scan():  # names of the deleted one are free now
                    if entry.name.endswith("." + group):
                        self._queue[entry.name] = None
            else:
                self._take_effect(event.entry)
        self._wake.set()

    def _take_effect(self, entry: Entry) -> None:
        """Serve a definition that is established as it is now: whoever wrote it counts on it from here on."""
        crd = entry.document()
        if "deletionTimestamp" in crd["metadata"] or not _is_established(crd):
            return
        try:
            self._accept(crd)
            self._serve(entry.name, crd)
        except Exception:  # noqa: BLE001 - supervision point: one bad definition stops no other
            _log.exception("custom resource definition failed", extra={"definition": entry.name})

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                name = next(iter(self._queue))
                del self._queue[name]
                try:
                    await self._reconcile(name)
                except WriteConflict:
                    self._queue[name] = None
                except StorageFull:
                    self._queue[name] = None
                    await self._store.writable()
                except Exception:  # noqa: BLE001 - supervision point: one bad definition stops no other
                    _log.exception("custom resource definition failed", extra={"definition": name})

    async def _reconcile(self, name: str) -> None:
        entry = self._bucket.get("", name)
        if entry is None:
            self._withdraw(name)
            return
        crd = entry.document()
        if "deletionTimestamp" in crd["metadata"]:
            await self._terminate(name, entry, crd)
            return
        if self._accept(crd):
            entry = await self._write(entry, crd)
        if _is_established(crd):
            self._serve(name, crd)
        else:
            self._withdraw(name)

    def _accept(self, crd: Json) -> bool:
        """Bring names, conditions and stored versions up to date; tells whether anything changed."""
        before = encode_value(crd)
        spec = crd["spec"]
        current = crd.setdefault("status", {})
        if current.get("conditions") is None:
            current["conditions"] = []
        reason, message = self._accept_names(crd)
        if not reason:
            self._set(crd, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
            if not _is_established(crd):
                self._set(
                    crd,
                    "Established",
                    "True",
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                )
        else:
            self._set(crd, "NamesAccepted", "False", reason, message)
            if not _is_established(crd):
                self._set(crd, "Established", "False", "NotAccepted", "not all names are accepted")
        group = spec["group"]
        if group.endswith((".k8s.io", ".kubernetes.io")):
            self._set_api_approval(crd)
        storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
        stored = current.get("storedVersions") or []
        if storage not in stored:
            current["storedVersions"] = [*stored, storage]
        return encode_value(crd) != before

    def _set_api_approval(self, crd: Json) -> None:
        text = (crd["metadata"].get("annotations") or {}).get("api-approved.kubernetes.io", "")
        kind = "KubernetesAPIApprovalPolicyConformant"
        if text.startswith("unapproved"):
            self._set(
                crd,
                kind,
                "False",
                "UnapprovedAnnotation",
                "protected groups must have approval annotation "
                '"api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
            )
        elif text:
            self._set(crd, kind, "True", "ApprovedAnnotation", f"approved in {text}")

    def _accept_names(self, crd: Json) -> tuple[str, str]:
        """Accepts every name that no other definition of the group uses; (reason, message) of a conflict.

        Of several conflicts the last one is told, as upstream does.
        """
        wanted = crd["spec"]["names"]
        accepted = dict(crd["status"].get("acceptedNames") or {})
        resources, kinds = self._names_in_use(crd)
        reason = message = ""
        for key, used in (
            ("plural", resources),
            ("singular", resources),
            ("shortNames", resources),
            ("kind", kinds),
            ("listKind", kinds),
        ):
            own = wanted.get(key) or ""
            names = own if isinstance(own, list) else [own]
            held = accepted.get(key) or ""
            taken = [name for name in names if name in used and name not in held]
            if taken:
                reason = f"{key[0].upper()}{key[1:]}Conflict"
                texts = ", ".join(f'"{name}" is already in use' for name in taken)
                message = f"[{texts}]" if len(taken) > 1 else texts
            elif own:
                accepted[key] = own
            else:
                accepted.pop(key, None)
        accepted.pop("categories", None)
        if wanted.get("categories"):
            accepted["categories"] = wanted["categories"]
        crd["status"]["acceptedNames"] = accepted
        return reason, message

    def _names_in_use(self, crd: Json) -> tuple[set[str], set[str]]:
        """The resource names and the kinds that other definitions of the group have been given."""
        group = crd["spec"]["group"]
        resources: set[str] = set()
        kinds: set[str] = set()
        for other in self._bucket.scan():
            if other.name == crd["metadata"]["name"] or not other.name.endswith("." + group):
                continue
            definition = other.read(_read_names)
            if definition.spec.group != group:
                continue
            names = definition.status.accepted_names if definition.status else None
            if names is not None:
                resources.update(filter(None, (names.plural, names.singular, *(names.short_names or ()))))
                kinds.update(filter(None, (names.kind, names.list_kind)))
        return resources, kinds

    def _set(self, crd: Json, kind: str, value: str, reason: str, message: str) -> None:
        set_condition(crd["status"], kind, value, reason, message, self._now())

    async def _write(self, entry: Entry, crd: Json) -> Entry:
        definitions = self._table.get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        if definitions is not None:
            new = {"apiVersion": definitions.api_version, "kind": definitions.kind, **crd}
            definitions.field_manager.update(
                definitions.read(entry),
                new,
                manager="kube-apiserver",
                api_version=definitions.api_version,
                subresource="status",
                now=self._now(),
            )
        return await self._store.put(
            self._bucket,
            "",
            entry.name,
            encode_value(crd),
            expected=entry.rev,
            labels=crd["metadata"].get("labels") or {},
        )

    def _serve(self, name: str, crd: Json) -> None:
        generation = crd["metadata"].get("generation", 0)
        known = self._families.get(name)
        uid = crd["metadata"]["uid"]
        terminating = "deletionTimestamp" in crd["metadata"]
        if known is not None and known[0].uid == uid and known[1] == generation and not terminating:
            return
        spec = crd["spec"]
        bucket = self._store.bucket(
            spec["group"], spec["names"]["plural"], namespaced=spec["scope"] == "Namespaced"
        )
        family = Family.build(crd, bucket, self._make_converter(crd))
        gone: list[Resource] = list(known[0].served()) if known is not None else []
        served: list[Resource] = list(family.served())
        self._families[name] = (family, generation)
        self._table.replace_custom(gone, served)
        still = {resource.version for resource in served}
        for resource in gone:
            if resource.version not in still or known is None or known[0].uid != uid:
                self._on_unserved(resource)

    def _withdraw(self, name: str) -> None:
        known = self._families.pop(name, None)
        if known is not None:
            gone: list[Resource] = list(known[0].served())
            self._table.replace_custom(gone, [])
            for resource in gone:
                self._on_unserved(resource)
        watched = self._watched.pop(name, None)
        if watched is not None:
            watched[0].subscribers.pop(watched[1], None)

    async def _terminate(self, name: str, entry: Entry, crd: Json) -> None:
        before = encode_value(crd)
        crd.setdefault("status", {}).setdefault("conditions", [])
        if FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            self._withdraw(name)
            return
        self._set(
            crd,
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        if encode_value(crd) != before:
            entry = await self._write(entry, crd)
        if _is_established(crd):
            self._serve(name, crd)
            family, _ = self._families[name]
            resource = next(r for r in family.versions.values() if r.api_version == family.storage_version)
            bucket = resource.bucket
            if name not in self._watched:
                token = object()
                bucket.subscribers[token] = lambda events: self._instances_changed(name)
                self._watched[name] = (bucket, token)
            for instance in list(bucket.scan()):
                try:
                    await self._delete_instance(resource, instance.namespace, instance.name)
                except status.StatusError as error:
                    if error.code != 404:
                        raise
            if bucket.count:
                return
        self._set(crd, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances")
        finalizers = [each for each in crd["metadata"].get("finalizers") or () if each != FINALIZER]
        if finalizers:
            crd["metadata"]["finalizers"] = finalizers
            await self._write(entry, crd)
            return
        crd["metadata"].pop("finalizers", None)
        await self._store.delete(self._bucket, "", name, expected=entry.rev, value=encode_value(crd))

    def _instances_changed(self, name: str) -> None:
        self._queue[name] = None
        self._wake.set()


def _is_established(crd: Json) -> bool:
    listed = (crd.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in listed)


def set_condition(holder: Json, kind: str, value: str, reason: str, message: str, now: str) -> None:
    """Set a condition in `holder.conditions`; its time moves only with its status."""
    conditions = holder.get("conditions")
    if conditions is None:
        conditions = holder["conditions"] = []
    for condition in conditions:
        if condition["type"] == kind:
            if condition["status"] != value:
                condition["lastTransitionTime"] = now
            condition.update(status=value, reason=reason, message=message)
            return
    conditions.append(
        {"type": kind, "status": value, "lastTransitionTime": now, "reason": reason, "message": message}
    )
