"""What a grove case expects at some point, compared with what is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from quarterdeck.api import Selector
from quarterdeck.operators.grove import names
from quarterdeck.testing import LoggedEvent

from .grove_check import check_names, check_objects, check_pod_gangs, check_pods, is_ready, is_scheduled
from .grove_history import History
from .grove_match import contains, differs
from .grove_operator import OperatorRun
from .grove_trace import check_ready_order, check_trace, check_write_order
from .grove_world import World

__all__ = ["Evidence", "check", "check_event", "check_metric"]

Json = dict[str, Any]
Lines = list[str]


class Marked(msgspec.Struct, frozen=True):
    """A pod as it was when it was marked."""

    clique: str
    labels: dict[str, str]


class Evidence:
    """What checks look at."""

    def __init__(self, world: World, operator: OperatorRun, history: History) -> None:
        self.world: Final = world
        self.operator: Final = operator
        self.history: Final = history
        self.error = ""
        """What the last action was refused for."""
        self.parsed: dict[str, int] = {}
        self.trace_from = 0
        self.recorded_from = 0
        self.marked: dict[str, Marked] = {}
        self.asked_before = 0

    async def mark_pods(self) -> None:
        """Remember the pods there are."""
        self.marked = {}
        for pod in await self.world.items("Pod"):
            labels = pod["metadata"].get("labels") or {}
            self.marked[pod["metadata"]["uid"]] = Marked(labels.get(names.PODCLIQUE, ""), labels)

    def mark_spies(self) -> None:
        """Remember what backends were asked."""
        self.asked_before = len(self.operator.spies.calls)


async def check(wanted: Json, evidence: Evidence) -> Lines:
    """All differences; empty when everything holds."""
    lines: Lines = []
    for word, value in wanted.items():
        checker = _CHECKS.get(word)
        lines += [f"expect.{word} is not understood"] if checker is None else await checker(value, evidence)
    return lines


def _split(ref: str) -> tuple[str, str]:
    kind, _, name = ref.partition("/")
    return kind, name


# -- pods ------------------------------------------------------------------------------------------------


async def _pods(wanted: Json, evidence: Evidence) -> Lines:
    if wanted.keys() & {"namePattern", "hostnames", "env", "envOrder", "labelsContain"}:
        return await check_pods(wanted, evidence.world)
    pods = await evidence.world.items("Pod", wanted.get("selector", ""))
    found = {
        "selector": wanted.get("selector"),
        "total": len(pods),
        "count": len(pods),
        "scheduled": sum(map(is_scheduled, pods)),
        "pending": sum(not is_scheduled(pod) for pod in pods),
        "ready": sum(map(is_ready, pods)),
        "running": sum(pod["status"].get("phase") == "Running" for pod in pods),
        "gated": sum(bool(pod["spec"].get("schedulingGates")) for pod in pods),
    }
    unknown = wanted.keys() - found.keys()
    lines = [f"expect.pods.{word} is not understood" for word in sorted(unknown)]
    for word in wanted.keys() & found.keys():
        if wanted[word] != found[word]:
            lines += differs(f"pods {word}", wanted[word], found[word])
    return lines


async def _by_clique(evidence: Evidence, counts: Callable[[Json], bool]) -> Counter[str]:
    pods = await evidence.world.items("Pod")
    return Counter(
        (pod["metadata"].get("labels") or {}).get(names.PODCLIQUE, "") for pod in pods if counts(pod)
    )


async def _scheduled_by_clique(wanted: Json, evidence: Evidence) -> Lines:
    found = await _by_clique(evidence, is_scheduled)
    return contains("scheduled", wanted, {name: found[name] for name in wanted})


async def _ready_by_clique(wanted: Json, evidence: Evidence) -> Lines:
    found = await _by_clique(evidence, is_ready)
    return contains("ready", wanted, {name: found[name] for name in wanted})


async def _pod_count(wanted: Json, evidence: Evidence) -> Lines:
    if isinstance(wanted, int):
        wanted = {"count": wanted}
    found = await evidence.world.items("Pod", wanted.get("selector", ""))
    return [] if len(found) == wanted["count"] else differs("podCount", wanted, len(found))


async def _gated_pods(wanted: Json, evidence: Evidence) -> Lines:
    pods = await evidence.world.items("Pod", wanted.get("selector", ""))
    found = sum(
        any(gate["name"] == names.GATE for gate in pod["spec"].get("schedulingGates") or ()) for pod in pods
    )
    return [] if found == wanted["count"] else differs(f"gatedPods {wanted.get('selector')}", wanted, found)


async def _pod_gates(wanted: Json, evidence: Evidence) -> Lines:
    pods = await evidence.world.items("Pod", wanted.get("selector", ""))
    lines: Lines = [] if pods else [f"podGates: no pods match {wanted.get('selector')}"]
    for pod in pods:
        found = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        if sorted(found) != sorted(wanted["gates"]):
            lines += differs(f"gates of pod {pod['metadata']['name']}", wanted["gates"], found)
    return lines


async def _hostnames(wanted: Json, evidence: Evidence) -> Lines:
    pods = await evidence.world.items("Pod", wanted.get("selector", ""))
    found = sorted(pod["spec"].get("hostname", "") for pod in pods)
    return [] if found == sorted(wanted["set"]) else differs("hostnames", wanted["set"], found)


async def _scheduler_names(wanted: dict[str, list[str]], evidence: Evidence) -> Lines:
    lines: Lines = []
    for selector, schedulers in wanted.items():
        pods = await evidence.world.items("Pod", selector)
        found = sorted({pod["spec"].get("schedulerName", "") for pod in pods})
        if found != sorted(schedulers):
            lines += differs(f"schedulers of {selector}", schedulers, found)
    return lines


def _image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


async def _images_of(wanted: dict[str, str], evidence: Evidence) -> Lines:
    lines: Lines = []
    for clique, image in wanted.items():
        pods = await evidence.world.items("Pod", f"{names.PODCLIQUE}={clique}")
        found = sorted({_image(pod) for pod in pods})
        if found != [image]:
            lines += differs(f"images of {clique}", image, found)
    return lines


async def _image_counts(wanted: dict[str, dict[str, int]], evidence: Evidence) -> Lines:
    lines: Lines = []
    for clique, counts in wanted.items():
        pods = await evidence.world.items("Pod", f"{names.PODCLIQUE}={clique}")
        found = dict(Counter(map(_image, pods)))
        if found != counts:
            lines += differs(f"images of {clique}", counts, found)
    return lines


# -- since a mark ----------------------------------------------------------------------------------------


async def _since_mark(wanted: Any, evidence: Evidence) -> Lines:
    if not evidence.marked:
        return ["no pods were marked"]
    pods = {pod["metadata"]["uid"]: pod for pod in await evidence.world.items("Pod")}
    gone = {uid: each for uid, each in evidence.marked.items() if uid not in pods}
    fresh = [pod for uid, pod in pods.items() if uid not in evidence.marked]
    if wanted == "unchanged":
        return [] if not gone and not fresh else [f"{len(gone)} pods are gone, {len(fresh)} are new"]
    if wanted == "allReplaced":
        if len(gone) == len(evidence.marked) and pods:
            return []
        return [f"{len(evidence.marked) - len(gone)} of {len(evidence.marked)} pods are still there"]
    if not isinstance(wanted, dict):
        return [f"podUIDsSinceMark {wanted} is not understood"]
    lines: Lines = []
    for word, value in wanted.items():
        lines += _since_mark_word(word, value, evidence.marked, gone, fresh)
    return lines


def _since_mark_word(
    word: str, value: Any, marked: dict[str, Marked], gone: dict[str, Marked], fresh: list[Json]
) -> Lines:
    match word:
        case "replacedOnly":
            changed = {each.clique for each in gone.values()}
            changed |= {(pod["metadata"].get("labels") or {}).get(names.PODCLIQUE, "") for pod in fresh}
            return [] if changed <= set(value) else differs("replaced pods", value, sorted(changed))
        case "allOf":
            kept = {each.clique for uid, each in marked.items() if uid not in gone and each.clique in value}
            return [] if not kept else differs("cliques with all pods replaced", value, sorted(kept))
        case "unchangedSelector":
            selector = Selector.of(value)
            count = sum(selector.matches(each.labels) for each in gone.values())
            return [] if not count else [f"{count} pods that match {value} are gone"]
        case "allReplacedSelector":
            selector = Selector.of(value)
            kept_pods = [
                uid for uid, each in marked.items() if uid not in gone and selector.matches(each.labels)
            ]
            return [] if not kept_pods else [f"{len(kept_pods)} pods that match {value} are still there"]
        case _:
            return [f"podUIDsSinceMark.{word} is not understood"]


async def _replaced_count(wanted: int, evidence: Evidence) -> Lines:
    present = {pod["metadata"]["uid"] for pod in await evidence.world.items("Pod")}
    found = len(evidence.marked.keys() - present)
    return [] if found == wanted else differs("replaced pods", wanted, found)


# -- gangs -----------------------------------------------------------------------------------------------


async def _gang(wanted: Json, evidence: Evidence) -> Lines:
    return await check_pod_gangs(
        {wanted["name"]: {k: v for k, v in wanted.items() if k != "name"}}, evidence.world
    )


async def _gang_condition(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for each in wanted if isinstance(wanted, list) else [wanted]:
        rest = {key: value for key, value in each.items() if key != "name"}
        lines += await _condition({**rest, "object": f"PodGang/{each['name']}"}, evidence)
    return lines


async def _gang_phase(wanted: dict[str, str], evidence: Evidence) -> Lines:
    lines: Lines = []
    for name, phase in wanted.items():
        gang = await evidence.world.need("PodGang", name)
        lines += contains(f"phase of {name}", phase, (gang.get("status") or {}).get("phase"))
    return lines


async def _gang_label(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for name, labels in wanted.items():
        gang = await evidence.world.need("PodGang", name)
        lines += contains(f"labels of {name}", labels, gang["metadata"].get("labels"))
    return lines


async def _references_sorted(name: str, evidence: Evidence) -> Lines:
    gang = await evidence.world.need("PodGang", name)
    lines: Lines = []
    for group in gang["spec"]["podgroups"]:
        found = [reference["name"] for reference in group["podReferences"]]
        if not found or found != sorted(found):
            lines += differs(f"references of {group['name']}", sorted(found), found)
    return lines


# -- objects ---------------------------------------------------------------------------------------------


async def _condition(wanted: Json, evidence: Evidence) -> Lines:
    known = {"object", "type", "status", "reason", "message", "messageContains", "absent"}
    if wanted.keys() - known:
        return [f"condition.{word} is not understood" for word in sorted(wanted.keys() - known)]
    found = await evidence.world.need(*_split(wanted["object"]))
    conditions = (found.get("status") or {}).get("conditions") or ()
    present = next((each for each in conditions if each["type"] == wanted["type"]), None)
    what = f"condition {wanted['type']} of {wanted['object']}"
    if wanted.get("absent"):
        return [] if present is None else differs(what, "nothing", present)
    if present is None:
        return [f"{what} is not there"]
    lines = [
        line
        for word in ("status", "reason", "message")
        if word in wanted
        for line in contains(f"{what}: {word}", wanted[word], present.get(word))
    ]
    part = wanted.get("messageContains")
    if part is not None and part not in present.get("message", ""):
        lines += differs(f"{what}: message", part, present.get("message"))
    return lines


async def _conditions(wanted: list[Json], evidence: Evidence) -> Lines:
    return [line for each in wanted for line in await _condition(each, evidence)]


async def _conditions_absent(wanted: list[Json], evidence: Evidence) -> Lines:
    return [line for each in wanted for line in await _condition({**each, "absent": True}, evidence)]


async def _status_fields(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = await evidence.world.need(*_split(ref))
        lines += contains(f"status of {ref}", fields, found.get("status") or {})
    return lines


async def _status_absent(wanted: dict[str, Any], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = (await evidence.world.need(*_split(ref))).get("status") or {}
        for field in fields if isinstance(fields, list) else [fields]:
            if found.get(field) not in (None, [], {}):
                lines += differs(f"{field} of {ref}", "nothing", found[field])
    return lines


async def _spec_replicas(wanted: dict[str, int], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, count in wanted.items():
        found = await evidence.world.need(*_split(ref))
        lines += contains(f"spec.replicas of {ref}", count, found["spec"].get("replicas", 0))
    return lines


async def _spec_fields(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = await evidence.world.need(*_split(ref))
        lines += contains(f"spec of {ref}", fields, found.get("spec") or {})
    return lines


async def _absent(wanted: list[str], evidence: Evidence) -> Lines:
    return [f"{ref} is still there" for ref in wanted if await evidence.world.read(*_split(ref)) is not None]


async def _present(wanted: list[str], evidence: Evidence) -> Lines:
    return [f"{ref} is not there" for ref in wanted if await evidence.world.read(*_split(ref)) is None]


async def _names(wanted: dict[str, list[str]], evidence: Evidence) -> Lines:
    return await check_names(wanted, evidence.world)


async def _objects(wanted: list[Json], evidence: Evidence) -> Lines:
    return await check_objects(wanted, evidence.world)


async def _pod_gangs(wanted: Json, evidence: Evidence) -> Lines:
    return await check_pod_gangs(wanted, evidence.world)


async def _update_ended(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref in wanted if isinstance(wanted, list) else [wanted]:
        found = await evidence.world.need(*_split(ref))
        progress = (found.get("status") or {}).get("updateProgress") or {}
        if not progress.get("updateEndedAt"):
            lines.append(f"the update of {ref} has not ended: {progress}")
    return lines


async def _last_errors(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for each in wanted if isinstance(wanted, list) else [wanted]:
        found = (await evidence.world.need(*_split(each["object"]))).get("status") or {}
        errors = found.get("lastErrors") or []
        part = each.get("descriptionContains", each.get("messageContains", ""))
        fits = [
            error
            for error in errors
            if error["code"] == each.get("code", error["code"]) and part in error["description"]
        ]
        if not fits:
            lines += differs(f"lastErrors of {each['object']}", each, errors)
    return lines


# -- events, metrics, backends ---------------------------------------------------------------------------


def check_event(wanted: Json, events: list[LoggedEvent]) -> Lines:
    """Whether an event was recorded."""
    known = {"object", "type", "reason", "message", "messageContains", "count"}
    if wanted.keys() - known:
        return [f"event.{word} is not understood" for word in sorted(wanted.keys() - known)]
    kind, name = _split(wanted["object"]) if "object" in wanted else ("", "")

    def fits(event: LoggedEvent) -> bool:
        about = event.regarding
        return (
            (not kind or (about.kind, about.metadata.name) == (kind, name))
            and event.type == wanted.get("type", event.type)
            and event.reason == wanted.get("reason", event.reason)
            and event.note == wanted.get("message", event.note)
            and wanted.get("messageContains", "") in event.note
        )

    found = sum(map(fits, events))
    if "count" in wanted:
        return [] if found == wanted["count"] else differs("events", wanted, found)
    return [] if found else differs("an event", wanted, [str(each) for each in events])


async def _event(wanted: Any, evidence: Evidence) -> Lines:
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [line for each in chosen for line in check_event(each, evidence.operator.events.events)]


async def _event_absent(wanted: Any, evidence: Evidence) -> Lines:
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [
        line for each in chosen for line in check_event({**each, "count": 0}, evidence.operator.events.events)
    ]


_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def check_metric(wanted: Json, text: str) -> Lines:
    """Whether a metric has a value; series whose labels fit are added up."""
    known = {"name", "labels", "value", "atLeast"}
    if wanted.keys() - known:
        return [f"metric.{word} is not understood" for word in sorted(wanted.keys() - known)]
    total, found = 0.0, False
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is None or match[1] != wanted["name"]:
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        if all(labels.get(key) == value for key, value in (wanted.get("labels") or {}).items()):
            total, found = total + float(match[3]), True
    if not found and wanted.get("value") != 0:
        return [f"there is no metric {wanted['name']} with {wanted.get('labels')}"]
    if "atLeast" in wanted:
        return [] if total >= wanted["atLeast"] else differs(f"metric {wanted['name']}", wanted, total)
    return [] if total == wanted["value"] else differs(f"metric {wanted['name']}", wanted, total)


async def _metric(wanted: Any, evidence: Evidence) -> Lines:
    text = evidence.operator.metrics.registry.expose().decode()
    chosen = wanted if isinstance(wanted, list) else [wanted]
    return [line for each in chosen for line in check_metric(each, text)]


def _check_calls(wanted: dict[str, Json], evidence: Evidence, begin: int) -> Lines:
    lines: Lines = []
    for hook, rule in wanted.items():
        if rule.keys() - {"podGang", "atLeast", "exactly", "atMost", "backend"}:
            lines.append(f"spyCalls.{hook}: {sorted(rule)} is not understood")
            continue
        found = sum(
            call.hook == hook
            and call.pod_gang == rule.get("podGang", call.pod_gang)
            and call.backend == rule.get("backend", call.backend)
            for call in evidence.operator.spies.calls[begin:]
        )
        if found < rule.get("atLeast", 0) or found > rule.get("atMost", found):
            lines += differs(f"calls of {hook}", rule, found)
        if found != rule.get("exactly", found):
            lines += differs(f"calls of {hook}", rule, found)
    return lines


async def _spy_calls(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    return _check_calls(wanted, evidence, 0)


async def _spy_calls_since(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    return _check_calls(wanted, evidence, evidence.asked_before)


async def _parsed(wanted: dict[str, int], evidence: Evidence) -> Lines:
    return [] if wanted == evidence.parsed else differs("arguments", wanted, evidence.parsed)


async def _error(wanted: Any, evidence: Evidence) -> Lines:
    parts = wanted if isinstance(wanted, list) else [wanted]
    return [
        line
        for part in parts
        if part not in evidence.error
        for line in differs("the error", part, evidence.error)
    ]


async def _write_order(wanted: list[str], evidence: Evidence) -> Lines:
    records = evidence.history.since(evidence.recorded_from)
    return check_write_order(wanted, records)


async def _ready_order(wanted: list[list[list[str]]], evidence: Evidence) -> Lines:
    cliques = {each["metadata"]["name"]: each for each in await evidence.world.items("PodClique")}
    return check_ready_order(wanted, evidence.history.since(kinds=("Pod",)), cliques)


async def _trace(wanted: Json, evidence: Evidence) -> Lines:
    cliques = {each["metadata"]["name"]: each for each in await evidence.world.items("PodClique")}
    return check_trace(wanted, evidence.history, evidence.trace_from, cliques)


_CHECKS: Final[dict[str, Callable[[Any, Evidence], Awaitable[Lines]]]] = {
    "pods": _pods,
    "scheduledByClique": _scheduled_by_clique,
    "readyByClique": _ready_by_clique,
    "podCount": _pod_count,
    "gatedPods": _gated_pods,
    "podGates": _pod_gates,
    "hostnames": _hostnames,
    "podSchedulerNames": _scheduler_names,
    "imagesOf": _images_of,
    "imageCounts": _image_counts,
    "podUIDsSinceMark": _since_mark,
    "replacedPodCount": _replaced_count,
    "podGang": _gang,
    "podGangs": _pod_gangs,
    "podGangCondition": _gang_condition,
    "podGangPhase": _gang_phase,
    "podGangLabel": _gang_label,
    "podReferencesSortedByName": _references_sorted,
    "conditions": _conditions,
    "conditionsAbsent": _conditions_absent,
    "statusFields": _status_fields,
    "statusFieldAbsent": _status_absent,
    "specReplicas": _spec_replicas,
    "specFields": _spec_fields,
    "absent": _absent,
    "present": _present,
    "names": _names,
    "objects": _objects,
    "updateEnded": _update_ended,
    "lastErrors": _last_errors,
    "event": _event,
    "events": _event,
    "eventAbsent": _event_absent,
    "metric": _metric,
    "metrics": _metric,
    "spyCalls": _spy_calls,
    "spyCallsSinceMark": _spy_calls_since,
    "parsed": _parsed,
    "errorContains": _error,
    "writeOrder": _write_order,
    "readyOrder": _ready_order,
    "trace": _trace,
}
