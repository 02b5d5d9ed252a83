"""Grouping cases of kai: a pod, its owners, and the PodGroup that comes of it.

The server gives objects their UIDs. Those of a case stand for them: wherever a case expects a name that
contains one, the real one is expected in its place.
"""

from __future__ import annotations

import copy
import re
from typing import Any, Final

from quarterdeck.api.k8s import Pod
from tests.harness.case import Case, CaseFailure, expect_equal
from tests.harness.objects import ServerObjects
from tests.harness.words import words

from .admission import KaiKind
from .server import KaiServer

Json = dict[str, Any]

POD_GROUP: Final = "scheduling.run.ai/v2alpha2"
_TEMPLATE: Final[dict[str, Json]] = {
    "metadata": {"labels": {"case": "kai"}},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}
_SELECTED: Final = {"selector": {"matchLabels": {"case": "kai"}}, "template": _TEMPLATE}
_JOB: Final = {
    "suspend": True,
    "template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}},
}
_LEAST: Final[dict[str, Json]] = {
    "Deployment": {**_SELECTED, "replicas": 0},
    "ReplicaSet": {**_SELECTED, "replicas": 0},
    "StatefulSet": {**_SELECTED, "replicas": 0, "serviceName": "none"},
    "DaemonSet": {**_SELECTED},
    "Job": _JOB,
    "CronJob": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": _JOB}},
}
"""What the API server demands of built-in kinds, so that nothing comes of them."""


class GrouperKind(KaiKind):
    """One pod is looked at."""

    given = words("objects", "pod")
    when = words(reconcile=frozenset({"pod"}))
    then = words(
        "error",
        "event",
        podGroup=words("name", "spec", "ownerKind", "labels", "annotations"),
        pod=words("podGroupAnnotation", "subGroupLabel"),
    )

    def check(self, case: Case, server: KaiServer) -> None:
        objects = server.connect()
        operator = server.operator
        with server.namespace(objects) as namespace:
            placed = _PlacedObjects(objects, namespace)
            pod = placed.set(case)
            operator.wait_seen(Pod, namespace, pod["metadata"]["resourceVersion"])
            operator.settle()
            if case.then.get("podGroup"):
                objects.wait(lambda: _is_grouped(objects.read(pod)), f"not grouped: {placed.notes()}")
            self._check_group(case, placed)
            self._check_pod(case, placed, objects.read(pod))
            self._check_event(case, placed, pod)

    def _check_group(self, case: Case, placed: _PlacedObjects) -> None:
        if "podGroup" not in case.then:
            return
        found, wanted = placed.pod_groups(), case.then["podGroup"]
        if wanted is None:
            expect_equal("pod groups", placed.given_groups, sorted(found))
            return
        name = placed.real_name(wanted["name"])
        if name not in found:
            raise CaseFailure(f"there is no pod group {name}: {sorted(found)}", *placed.notes())
        group = found[name]
        for key, value in (wanted.get("spec") or {}).items():
            expect_equal(f"spec.{key}", _plain(value), _plain(group["spec"].get(key)), group["spec"])
        owners = group["metadata"].get("ownerReferences") or []
        if "ownerKind" in wanted:
            expect_equal("owners", [wanted["ownerKind"]], [owner["kind"] for owner in owners])
        for field in ("labels", "annotations"):
            for key, value in (wanted.get(field) or {}).items():
                expect_equal(f"{field}.{key}", value, (group["metadata"].get(field) or {}).get(key))

    def _check_pod(self, case: Case, placed: _PlacedObjects, pod: Json) -> None:
        wanted = case.then.get("pod") or {}
        metadata = pod["metadata"]
        if "podGroupAnnotation" in wanted:
            name = wanted["podGroupAnnotation"]
            real = placed.real_name(name) if name is not None else None
            expect_equal("annotation", real, (metadata.get("annotations") or {}).get("pod-group-name"))
        if "subGroupLabel" in wanted:
            labels = metadata.get("labels") or {}
            expect_equal("label", wanted["subGroupLabel"], labels.get("kai.scheduler/subgroup-name"))

    def _check_event(self, case: Case, placed: _PlacedObjects, pod: Json) -> None:
        if "error" not in case.then and "event" not in case.then:
            return
        wanted, reason = case.then.get("error", ""), case.then.get("event", "PodGrouperWarning")
        name = pod["metadata"]["name"]

        def is_told() -> bool:
            return any(
                event["reason"] == reason
                and event.get("type") == "Warning"
                and event["regarding"]["name"] == name
                and placed.in_case(wanted) in event.get("note", "")
                for event in placed.events()
            )

        placed.objects.wait(is_told, f"no event {reason} with {wanted!r}: {placed.notes()}", timeout=10.0)


class _PlacedObjects:
    """The objects of one case."""

    def __init__(self, objects: ServerObjects, namespace: str) -> None:
        self.objects: Final = objects
        self._namespace: Final = namespace
        self._case_namespace = ""
        self._uids: dict[str, str] = {}
        self.given_groups: list[str] = []

    def set(self, case: Case) -> Json:
        """Create everything, owners before what they own; returns the pod."""
        pod = case.given["pod"]
        self._case_namespace = pod["metadata"].get("namespace", "default")
        waiting = list(case.given.get("objects") or [])
        known = {each["metadata"].get("uid") for each in waiting}
        while waiting:
            ready = [each for each in waiting if not (_owners(each) & known - self._uids.keys())]
            ready = [each for each in ready if each["kind"] != "PodGroup"] or ready
            if not ready:
                raise CaseFailure("the owners of the given objects make a ring")
            for each in ready:
                self._make(each)
                waiting.remove(each)
        return self._make(pod)

    def _make(self, document: Json) -> Json:
        made = copy.deepcopy(document)
        metadata = made["metadata"]
        uid = metadata.pop("uid", "")
        if metadata.get("namespace") is not None or made["kind"] == "Pod":
            metadata["namespace"] = self._namespace
        for owner in metadata.get("ownerReferences") or []:
            owner["uid"] = self._uids.get(owner["uid"], owner["uid"])
        self._complete(made)
        if made["kind"] == "PriorityClass":
            self.objects.create(made)  # all cases use the same ones
            return made
        stored = self.objects.make(made)
        if uid:
            self._uids[uid] = stored["metadata"]["uid"]
        return stored

    def _complete(self, document: Json) -> None:
        kind = document["kind"]
        if kind in _LEAST and not document["apiVersion"].startswith("scheduling.run.ai"):
            document["spec"] = {**_LEAST[kind], **(document.get("spec") or {})}
        if kind == "Pod" and not document["spec"].get("containers"):
            document["spec"]["containers"] = [{"name": "c", "image": "x"}]
        if kind == "PodGroup":
            document["metadata"]["name"] = self.real_name(document["metadata"]["name"])
            self.given_groups.append(document["metadata"]["name"])
        for reference in _references(document):
            if reference.get("namespace") == self._case_namespace:
                reference["namespace"] = self._namespace

    def real_name(self, name: str) -> str:
        """A name of the case with the UID that the server gave."""
        for uid in sorted(self._uids, key=len, reverse=True):
            found = list(re.finditer(rf"-{re.escape(uid)}(?=-|$)", name))
            if found:
                last = found[-1]
                return f"{name[: last.start()]}-{self._uids[uid]}{name[last.end() :]}"
        return name

    def in_case(self, text: str) -> str:
        """A text of the case with the namespace it really is about."""
        return re.sub(rf"\b{re.escape(self._case_namespace)}\b", self._namespace, text)

    def pod_groups(self) -> dict[str, Json]:
        """The PodGroups of the namespace, by name."""
        path = f"/apis/{POD_GROUP}/namespaces/{self._namespace}/podgroups"
        items = self.objects.request("GET", path).json()["items"]
        return {each["metadata"]["name"]: each for each in items}

    def events(self) -> list[Json]:
        """The events of the namespace."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self._namespace}/events"
        found: list[Json] = self.objects.request("GET", path).json()["items"]
        return found

    def notes(self) -> list[str]:
        """What the events say."""
        return [f"  {event['reason']}: {event.get('note', '')}" for event in self.events()]


def _is_grouped(pod: Json) -> bool:
    return "pod-group-name" in (pod["metadata"].get("annotations") or {})


def _owners(document: Json) -> set[str]:
    return {owner["uid"] for owner in document["metadata"].get("ownerReferences") or []}


def _references(document: Json) -> list[Json]:
    """The pod references of a PodGang."""
    if document["kind"] != "PodGang":
        return []
    groups = (document.get("spec") or {}).get("podgroups") or []
    return [each for group in groups for each in group.get("podReferences") or []]


def _plain(value: Any) -> Any:
    """A value as cases compare it: what is empty is as if it were not there."""
    if isinstance(value, dict):
        shown = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in shown.items() if item not in (None, "", 0)} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    return value or None if not isinstance(value, bool) else value
