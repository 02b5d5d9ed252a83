"""Checks on the order of things: writes, readiness, updates."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any, Final

from quarterdeck.operators.grove import names

from .check import is_ready
from .history import History, Record
from .match import differs

__all__ = ["check_ready_order", "check_trace", "check_write_order"]

Json = dict[str, Any]
Lines = list[str]

_INITIALIZED: Final = "Initialized"


def check_write_order(wanted: list[str], records: list[Record]) -> Lines:
    """Everything of one kind happens before anything of the next."""
    places: dict[str, list[int]] = {text: [] for text in wanted}
    before: dict[str, Json] = {}
    pods: dict[str, set[str]] = defaultdict(set)
    for place, record in enumerate(records):
        for text in _what_happened(record, before.get(record.uid), pods):
            if text in places:
                places[text].append(place)
        before[record.uid] = record.document
        if record.kind == "Pod":
            pods[record.labels.get(names.PODCLIQUE, "")].add(record.name)
    lines = [f"{text!r} did not happen" for text, found in places.items() if not found]
    if lines:
        return lines
    for first, second in itertools.pairwise(wanted):
        if max(places[first]) >= min(places[second]):
            lines.append(f"{first!r} did not happen before {second!r}")
    return lines


def _what_happened(record: Record, before: Json | None, pods: dict[str, set[str]]) -> list[str]:
    """What a change is called in cases; some have several names."""
    if record.kind == "PodGang":
        return _gang_changes(record, before, pods)
    if record.kind != "Pod":
        return []
    gates = _gates(record.document)
    if before is None:
        plain = ["Pod create"] if gates else ["Pod create", "Pod create without gate"]
        return plain + [f"Pod create with gate {gate}" for gate in gates]
    removed = [gate for gate in _gates(before) if gate not in gates]
    texts = ["Pod gate removed"] if names.GATE in removed else []
    return texts + (["Pod delete"] if record.type == "DELETED" else [])


def _gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def _gang_changes(record: Record, before: Json | None, pods: dict[str, set[str]]) -> list[str]:
    title = f"PodGang/{record.name}"
    if before is None:
        return [f"{title} create"]
    if record.type == "DELETED":
        return [f"{title} delete"]
    texts: list[str] = []
    if record.document["spec"] != before["spec"] and _is_complete(record.document, pods):
        texts.append(f"{title} spec podReferences complete")
    status = _initialized(record.document)
    if status and status != _initialized(before):
        texts.append(f"{title} status Initialized={status}")
    return texts


def _is_complete(gang: Json, pods: dict[str, set[str]]) -> bool:
    groups = gang["spec"]["podgroups"]
    return all(
        group["podReferences"]
        and {each["name"] for each in group["podReferences"]} == pods.get(group["name"], set())
        for group in groups
    )


def _initialized(gang: Json) -> str:
    conditions = (gang.get("status") or {}).get("conditions") or ()
    return next((each["status"] for each in conditions if each["type"] == _INITIALIZED), "")


def check_ready_order(
    chains: list[list[list[str]]], records: list[Record], cliques: dict[str, Json]
) -> Lines:
    """No pod of a later entry starts before each PodClique of the one before has its minimum ready."""
    ready: dict[str, dict[str, int]] = defaultdict(dict)
    started: dict[str, dict[str, int]] = defaultdict(dict)
    for record in records:
        clique = record.labels.get(names.PODCLIQUE, "")
        if is_ready(record.document):
            ready[clique].setdefault(record.uid, record.version)
        if _has_started(record.document):
            started[clique].setdefault(record.uid, record.version)
    lines: Lines = []
    for chain in chains:
        for earlier, later in itertools.pairwise(chain):
            moment = 0
            for name in earlier:
                least = cliques[name]["spec"].get("minAvailable") or cliques[name]["spec"]["replicas"]
                moments = sorted(ready[name].values())
                if len(moments) < least:
                    lines.append(f"{name} has never had {least} ready pods")
                else:
                    moment = max(moment, moments[least - 1])
            for name in later:
                first = min(started[name].values(), default=0)
                if not first:
                    lines.append(f"no pod of {name} has started")
                elif first <= moment:
                    lines.append(f"a pod of {name} started before {', '.join(earlier)} were ready")
    return lines


def _has_started(pod: Json) -> bool:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return any(each.get("started") or (each.get("state") or {}).get("running") for each in statuses)


def check_trace(wanted: Json, history: History, since: int, cliques: dict[str, Json]) -> Lines:
    """What happened since the trace began."""
    timeline = _Timeline(history.since(kinds=("Pod",)), since)
    lines: Lines = []
    for word, value in wanted.items():
        match word:
            case "maxConcurrentDeletedPods":
                for clique, most in value.items():
                    found = timeline.most_missing(lambda pod, clique=clique: _clique(pod) == clique)
                    lines += [] if found <= most else differs(f"pods of {clique} down at once", most, found)
            case "maxConcurrentPCSGReplicasDown":
                found = timeline.most_groups_down(names.SCALING_GROUP, names.SCALING_GROUP_INDEX, cliques)
                lines += [] if found <= value else differs("group replicas down at once", value, found)
            case "maxConcurrentPCSReplicasUpdating":
                found = max(timeline.most_sets_changing(), _most_updating(history.since(since)))
                lines += [] if found <= value else differs("set replicas updated at once", value, found)
            case "firstReplicaUpdated":
                first = timeline.first_changed_replica()
                lines += [] if first == value else differs("first replica", value, first)
            case "podsOfPCLQRecreated":
                for clique, count in value.items():
                    gone = timeline.deleted(clique)
                    lines += [] if gone == count else differs(f"pods of {clique} deleted", count, gone)
            case _:
                lines.append(f"trace.{word} is not understood")
    return lines


def _clique(pod: Record) -> str:
    return pod.labels.get(names.PODCLIQUE, "")


def _most_updating(records: list[Record]) -> int:
    most = 0
    for record in records:
        if record.kind == "PodCliqueSet":
            progress = (record.document.get("status") or {}).get("updateProgress") or {}
            most = max(most, len(progress.get("currentlyUpdating") or ()))
    return most


class _Timeline:
    """Pods over time: which are ready, from the beginning of the trace on."""

    def __init__(self, records: list[Record], since: int) -> None:
        self._before: Final = [record for record in records if record.version <= since]
        self._after: Final = [record for record in records if record.version > since]

    def _ready_at_begin(self) -> dict[str, Record]:
        ready: dict[str, Record] = {}
        for record in self._before:
            _take(ready, record)
        return ready

    def most_missing(self, belongs: Any) -> int:
        """How many of the pods that were ready at the beginning were missing at once."""
        ready = {uid: record for uid, record in self._ready_at_begin().items() if belongs(record)}
        begin, most = len(ready), 0
        for record in self._after:
            if belongs(record):
                _take(ready, record)
                most = max(most, begin - len(ready))
        return most

    def most_groups_down(self, group: str, index: str, cliques: dict[str, Json]) -> int:
        """How many replicas of one group had too few ready pods at once."""
        ready = self._ready_at_begin()
        watched = {
            (pod.labels[group], pod.labels[index], _clique(pod))
            for pod in ready.values()
            if group in pod.labels
        }
        most = 0
        for record in self._after:
            _take(ready, record)
            counts: dict[str, int] = defaultdict(int)
            for pod in ready.values():
                counts[_clique(pod)] += 1
            down: dict[str, set[str]] = defaultdict(set)
            for name, place, clique in watched:
                spec = cliques.get(clique, {}).get("spec", {})
                if counts[clique] < (spec.get("minAvailable") or spec.get("replicas") or 1):
                    down[name].add(place)
            most = max(most, max(map(len, down.values()), default=0))
        return most

    def most_sets_changing(self) -> int:
        """How many replicas of a set lacked ready pods at once."""
        ready = self._ready_at_begin()
        begin: dict[str, int] = defaultdict(int)
        for pod in ready.values():
            begin[pod.labels.get(names.SET_INDEX, "")] += 1
        most = 0
        for record in self._after:
            _take(ready, record)
            counts: dict[str, int] = defaultdict(int)
            for pod in ready.values():
                counts[pod.labels.get(names.SET_INDEX, "")] += 1
            most = max(most, sum(counts[index] < count for index, count in begin.items()))
        return most

    def first_changed_replica(self) -> int:
        """The replica of the set whose pods were deleted first; -1 if none were."""
        for record in self._after:
            if record.type == "DELETED" or record.document["metadata"].get("deletionTimestamp"):
                return int(record.labels.get(names.SET_INDEX, -1))
        return -1

    def deleted(self, clique: str) -> int:
        """How many pods of a PodClique were deleted."""
        return len(
            {
                record.uid
                for record in self._after
                if _clique(record) == clique
                and (record.type == "DELETED" or record.document["metadata"].get("deletionTimestamp"))
            }
        )


def _take(ready: dict[str, Record], record: Record) -> None:
    is_going = record.type == "DELETED" or record.document["metadata"].get("deletionTimestamp")
    if is_ready(record.document) and not is_going:
        ready[record.uid] = record
    else:
        ready.pop(record.uid, None)
