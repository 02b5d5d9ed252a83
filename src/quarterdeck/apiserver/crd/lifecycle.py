"""From a CustomResourceDefinition object to served resources, and back.

Definitions that changed are worked through one by one: it accepts names, sets conditions, serves and
withdraws versions, and on deletion removes the instances before it lets the definition go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.resource.resource import Resource, Superseded
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
from .customresource import CustomResource, Family, identity

#: seconds until a definition that could not be dealt with is looked at again, at first and in the end
_FIRST_RETRY, _LAST_RETRY = 0.1, 60.0
#: instances that are deleted together, so that they share a commit
_TOGETHER = 100
#: in the place of objects whose resource has the name of one that is built in: they are not the same
_BESIDE_BUILTIN = "!"
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
        on_unserved: Callable[[Collection[Resource]], None],
        now: Callable[[], str],
    ) -> None:
        self._store = store
        self._bucket = bucket
        self._table = table
        self._make_converter = make_converter
        self._delete_instance = delete_instance
        self._on_unserved = on_unserved
        self._now = now
        self._families: dict[str, Family] = {}
        self._queue: dict[str, None] = {}
        #: how often in a row a definition could not be dealt with
        self._failures: dict[str, int] = {}
        self._retries: dict[str, asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._watched: dict[str, tuple[Bucket, object]] = {}

    async def start(self) -> None:
        """Serve what is stored, then follow changes."""
        for entry in list(self._bucket.scan()):
            await self._try_reconcile(entry.name)
        self._bucket.subscribers[self] = self._definitions_changed

    def close(self) -> None:
        """Follow no more changes."""
        self._bucket.subscribers.pop(self, None)
        for retry in self._retries.values():
            retry.cancel()

    def _definitions_changed(self, events: list[Event]) -> None:
        for event in events:
            name = event.entry.name
            self._queue[name] = None
            if event.type is EventType.DELETED:
                self._forget_failures(name)
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
        if "deletionTimestamp" in crd["metadata"]:
            if entry.name in self._families:  # from here on nothing new can come that is not looked for
                self._families[entry.name].is_terminating = True
            return
        if not _is_established(crd):
            return
        try:
            self._accept(crd)
            self._serve(entry.name, crd)
        except Exception:  # noqa: BLE001 - supervision point: one bad definition stops no other
            _log.exception("custom resource definition failed", extra={"definition": entry.name})

    async def changed(self) -> None:
        """Wait until there is something to `sync`, and room for it."""
        await self._wake.wait()
        await self._store.writable()

    async def sync(self) -> None:
        """Deal with the definitions that changed."""
        self._wake.clear()
        for name in list(self._queue):
            del self._queue[name]
            try:
                await self._try_reconcile(name)
            except BaseException:
                self._look_at(name)
                raise

    async def _try_reconcile(self, name: str) -> None:
        try:
            await self._reconcile(name)
        except (WriteConflict, StorageFull, Superseded):
            self._look_at(name)
        except Exception:  # noqa: BLE001 - supervision point: one bad definition stops no other
            failures = self._failures[name] = self._failures.get(name, 0) + 1
            _log.exception("custom resource definition failed", extra={"definition": name})
            wait = min(_FIRST_RETRY * 2 ** (failures - 1), _LAST_RETRY)
            self._retries[name] = asyncio.get_running_loop().call_later(wait, self._look_at, name)
        else:
            self._forget_failures(name)

    def _forget_failures(self, name: str) -> None:
        self._failures.pop(name, None)
        if retry := self._retries.pop(name, None):
            retry.cancel()

    def _look_at(self, name: str) -> None:
        self._queue[name] = None
        self._wake.set()

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
        known = self._families.get(name)
        if known is not None and known.identity == identity(crd):
            return
        spec = crd["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        if any(not each.is_custom for each in self._table.versions_of(group, plural)):
            group += _BESIDE_BUILTIN
        bucket = self._store.bucket(group, plural, namespaced=spec["scope"] == "Namespaced")
        family = Family.build(crd, bucket, self._make_converter(crd))
        family.is_terminating = "deletionTimestamp" in crd["metadata"]
        gone: list[Resource] = list(known.served()) if known is not None else []
        self._families[name] = family
        self._table.replace_custom(gone, list(family.served()))
        # Watches show objects as their definition had them, so they end with it, as upstream's do.
        self._on_unserved(gone)
        if known is not None:
            known.is_superseded = True
            known.converter.close()

    def _withdraw(self, name: str) -> None:
        known = self._families.pop(name, None)
        if known is not None:
            known.is_superseded = True
            gone: list[Resource] = list(known.served())
            self._table.replace_custom(gone, [])
            self._on_unserved(gone)
            known.converter.close()
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
            family = self._families[name]
            resource = next(r for r in family.versions.values() if r.api_version == family.storage_version)
            bucket = resource.bucket
            if name not in self._watched:
                token = object()
                bucket.subscribers[token] = lambda events: self._instances_changed(name, bucket)
                self._watched[name] = (bucket, token)
            await self._delete_instances(resource)
            if bucket.count:  # some have finalizers
                return
        self._set(crd, "Terminating", "False", "InstanceDeletionCompleted", "removed all instances")
        finalizers = [each for each in crd["metadata"].get("finalizers") or () if each != FINALIZER]
        if finalizers:
            crd["metadata"]["finalizers"] = finalizers
            await self._write(entry, crd)
            return
        crd["metadata"].pop("finalizers", None)
        await self._store.delete(self._bucket, "", name, expected=entry.rev, value=encode_value(crd))

    async def _delete_instances(self, resource: CustomResource) -> None:
        """Delete the instances that nobody has deleted yet; new ones are refused by now."""
        left = [each for each in resource.bucket.scan() if not each.is_deleting]
        for start in range(0, len(left), _TOGETHER):
            some = left[start : start + _TOGETHER]
            deletions = [self._delete_instance(resource, each.namespace, each.name) for each in some]
            for error in await asyncio.gather(*deletions, return_exceptions=True):
                if error is not None and not (isinstance(error, status.StatusError) and error.code == 404):
                    raise error

    def _instances_changed(self, name: str, bucket: Bucket) -> None:
        if not bucket.count:
            self._look_at(name)


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
