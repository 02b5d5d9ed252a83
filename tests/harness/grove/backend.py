"""Cases of the backends: one pod, or one gang, through the active one."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Key
from quarterdeck.api.k8s import Pod
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove.backends import HookContext
from quarterdeck.operators.grove.backends.example import ExampleBackend
from quarterdeck.operators.grove.backends.guard import awaited, guarded_client
from quarterdeck.operators.grove.controllers import backend_controller
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.log import get_logger
from quarterdeck.testing import EventLog
from tests.harness.case import Case
from tests.harness.words import words

from .caseobjects import CaseObjects
from .guard import empty_registry, make_shared, make_webhooks
from .kind import GroveKind, Json, Lines
from .match import contains, controller_of, differs, split_ref
from .recordcheck import check_event
from .server import GroveServer

__all__ = ["PrepareKind", "SyncKind"]

_NAMESPACE: Final = "default"


class PrepareKind(GroveKind):
    """One pod through the active backend."""

    given = words("config", "exampleBackend")
    when = words("pod")
    then = words(
        "schedulerName", "annotations", "labels", "annotationsContain", "labelsContain", "errorContains"
    )

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        config, registry = case.given.get("config") or {}, empty_registry()
        if case.given.get("exampleBackend"):
            registry.register(config["schedulerName"], ExampleBackend)
        shared = await make_shared(server.client, config, registry)
        then = case.then
        try:
            pod = shared.backends.prepare_pod(Pod.from_dict(case.when["pod"])).to_dict()
        except QuarterdeckError as error:
            wanted = then.get("errorContains")
            return [] if wanted and wanted in str(error) else differs("the error", wanted, str(error))
        if "errorContains" in then:
            return differs("the error", then["errorContains"], "nothing")
        lines: Lines = []
        if "schedulerName" in then:
            lines += contains("schedulerName", then["schedulerName"], pod["spec"].get("schedulerName"))
        for field in ("annotations", "labels"):
            found = pod["metadata"].get(field) or {}
            if field in then and found != then[field]:
                lines += differs(field, then[field], found)
            lines += contains(field, then.get(f"{field}Contain") or {}, found)
        return lines


class SyncKind(GroveKind):
    """One gang through the active backend."""

    when = words(
        "syncPodGang", "deletePodGroupFirst", "thenDeletePodGang", "thenPatchPodGang", "thenPatchPodGroup"
    )
    then = words(
        "podGroup",
        "podGroupAbsent",
        "errorContains",
        "noError",
        "apiWrites",
        "repeat",
        "podGroupResourceVersionUnchangedAfterFirst",
        "podGangAbsent",
        "podGangAnnotationsContain",
        "event",
    )

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        self._events = EventLog()
        shared = await make_shared(server.client, case.given.get("config") or {}, recorder=self._events)
        server.answer_with(make_webhooks(shared, server.client))
        for document in case.given.get("objects") or ():
            await objects.make(document)
        gang = await objects.make(await _owned(case.when["syncPodGang"], objects))
        name = gang["metadata"]["name"]
        if case.when.get("thenDeletePodGang"):
            return await self._delete(case, server, objects, shared, name)
        link = server.cluster.link(name="backend")
        backend = shared.backends.get()
        assert backend is not None
        hook = HookContext(guarded_client(link.client, backend.name), get_logger(__name__))
        error, versions = "", []
        for turn in range(case.then.get("repeat", 1)):
            if turn == 0 or "thenPatchPodGang" not in case.when:
                error = await self._sync(backend, hook, server, name)
            versions.append(await _version(objects, name))
        for word, kind in (("thenPatchPodGang", "PodGang"), ("thenPatchPodGroup", "PodGroup")):
            if word in case.when:
                await objects.patch(kind, name, case.when[word])
                error = await self._sync(backend, hook, server, name)
        return await self._judge(case.then, objects, name, error, versions, len(link.writes))

    async def _sync(self, backend: Any, hook: HookContext, server: GroveServer, name: str) -> str:
        gang = await server.cluster.client.get(PodGang, name, _NAMESPACE)
        try:
            await awaited(backend.sync_pod_gang(hook, gang))
        except QuarterdeckError as failure:
            return str(failure)
        return ""

    async def _delete(
        self, case: Case, server: GroveServer, objects: CaseObjects, shared: Any, name: str
    ) -> Lines:
        key, error = Key(_NAMESPACE, name), ""
        try:
            await server.cluster.reconcile_once(backend_controller(shared), key)
            if case.when.get("deletePodGroupFirst"):
                await objects.remove(objects.path("PodGroup", name))
            await objects.request("DELETE", objects.path("PodGang", name))
            await server.cluster.reconcile_once(backend_controller(shared), key)
        except QuarterdeckError as failure:
            error = str(failure)
        return await self._judge(case.then, objects, name, error, [], 0)

    async def _judge(
        self, then: Json, objects: CaseObjects, name: str, error: str, versions: list[str], writes: int
    ) -> Lines:
        wanted = then.get("errorContains")
        if (wanted is None) is bool(error) or (wanted or "") not in error:
            return differs("the error", wanted, error)
        group = await objects.read("PodGroup", name)
        lines: Lines = []
        if then.get("podGroupAbsent") and group is not None:
            lines.append(f"PodGroup {name} is there")
        if "podGroup" in then:
            lines += _judge_group(then["podGroup"], group)
        if "apiWrites" in then:
            lines += contains("writes", then["apiWrites"], writes)
        if then.get("podGroupResourceVersionUnchangedAfterFirst") and len(set(versions)) != 1:
            lines.append(f"the PodGroup was written again: {versions}")
        gang = await objects.read("PodGang", name)
        if then.get("podGangAbsent") and gang is not None:
            lines.append(f"PodGang {name} is there")
        if "podGangAnnotationsContain" in then:
            found = (gang or {}).get("metadata", {}).get("annotations") or {}
            lines += contains("annotations", then["podGangAnnotationsContain"], found)
        if "event" in then:
            lines += check_event(then["event"], self._events.events)
        return lines


def _judge_group(wanted: Json, group: Json | None) -> Lines:
    if group is None:
        return ["there is no PodGroup"]
    metadata = dict(wanted.get("metadata") or {})
    owner = metadata.pop("controllerOwner", None)
    lines = contains("PodGroup", {**wanted, "metadata": metadata}, group)
    if owner is not None and controller_of(group) != owner:
        lines += differs("controller of the PodGroup", owner, controller_of(group))
    return lines


async def _version(objects: CaseObjects, name: str) -> str:
    group = await objects.read("PodGroup", name)
    return str(group["metadata"]["resourceVersion"]) if group is not None else ""


async def _owned(document: Json, objects: CaseObjects) -> Json:
    """An object with the controller that a case names by ``ownedBy``."""
    metadata = dict(document["metadata"])
    ref = metadata.pop("ownedBy", "")
    if ref:
        kind, name = split_ref(ref)
        owner = await objects.need(kind, name)
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": name,
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {**document, "metadata": metadata}
