"""What a grove case expects of pods, also of those it marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from quarterdeck.api import Selector
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.initc import parse_arguments
from quarterdeck.operators.grove.initc.waiting import missing_pods, waits_of
from tests.harness.words import refuse_unknown, words

from .check import check_pods, is_ready, is_scheduled
from .evidence import Check, Evidence, Json, Lines, Marked
from .match import contains, differs

__all__ = ["POD_CHECKS"]


async def _pods(wanted: Json, evidence: Evidence) -> Lines:
    if wanted.keys() & {"namePattern", "hostnames", "env", "envOrder", "labelsContain"}:
        return await check_pods(wanted, evidence.objects)
    pods = await evidence.objects.items("Pod", wanted.get("selector", ""))
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
    pods = await evidence.objects.items("Pod")
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
    refuse_unknown(wanted, words("selector", "count"), "podCount")
    found = await evidence.objects.items("Pod", wanted.get("selector", ""))
    return [] if len(found) == wanted["count"] else differs("podCount", wanted, len(found))


async def _gated_pods(wanted: Json, evidence: Evidence) -> Lines:
    refuse_unknown(wanted, words("selector", "count"), "gatedPods")
    pods = await evidence.objects.items("Pod", wanted.get("selector", ""))
    found = sum(
        any(gate["name"] == names.GATE for gate in pod["spec"].get("schedulingGates") or ()) for pod in pods
    )
    return [] if found == wanted["count"] else differs(f"gatedPods {wanted.get('selector')}", wanted, found)


async def _pod_gates(wanted: Json, evidence: Evidence) -> Lines:
    refuse_unknown(wanted, words("selector", "gates"), "podGates")
    pods = await evidence.objects.items("Pod", wanted.get("selector", ""))
    lines: Lines = [] if pods else [f"podGates: no pods match {wanted.get('selector')}"]
    for pod in pods:
        found = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
        if sorted(found) != sorted(wanted["gates"]):
            lines += differs(f"gates of pod {pod['metadata']['name']}", wanted["gates"], found)
    return lines


async def _hostnames(wanted: Json, evidence: Evidence) -> Lines:
    refuse_unknown(wanted, words("selector", "set"), "hostnames")
    pods = await evidence.objects.items("Pod", wanted.get("selector", ""))
    found = sorted(pod["spec"].get("hostname", "") for pod in pods)
    return [] if found == sorted(wanted["set"]) else differs("hostnames", wanted["set"], found)


async def _init_done(wanted: dict[str, bool], evidence: Evidence) -> Lines:
    """Whether the waiting init container of a PodClique's pods would end now."""
    everybody = [Pod.from_dict(each) for each in await evidence.objects.items("Pod")]
    lines: Lines = []
    for clique, is_done in wanted.items():
        pods = [pod for pod in everybody if pod.metadata.labels.get(names.PODCLIQUE) == clique]
        waits = [(pod, waits_of(pod)) for pod in pods]
        if not pods or any(arguments is None for _, arguments in waits):
            lines.append(f"initDone: {clique} has no pods that wait")
            continue
        for pod, arguments in waits:
            gang = pod.metadata.labels.get(names.PODGANG)
            near = [each for each in everybody if each.metadata.labels.get(names.PODGANG) == gang]
            missing = missing_pods(parse_arguments(arguments or ()), near)
            if (not missing) is not is_done:
                lines += differs(f"initDone of {pod.metadata.name}", is_done, f"missing {missing}")
    return lines


async def _scheduler_names(wanted: dict[str, list[str]], evidence: Evidence) -> Lines:
    lines: Lines = []
    for selector, schedulers in wanted.items():
        pods = await evidence.objects.items("Pod", selector)
        found = sorted({pod["spec"].get("schedulerName", "") for pod in pods})
        if found != sorted(schedulers):
            lines += differs(f"schedulers of {selector}", schedulers, found)
    return lines


def _image(pod: Json) -> str:
    return str(pod["spec"]["containers"][0].get("image", ""))


async def _images_of(wanted: dict[str, str], evidence: Evidence) -> Lines:
    lines: Lines = []
    for clique, image in wanted.items():
        pods = await evidence.objects.items("Pod", f"{names.PODCLIQUE}={clique}")
        found = sorted({_image(pod) for pod in pods})
        if found != [image]:
            lines += differs(f"images of {clique}", image, found)
    return lines


async def _image_counts(wanted: dict[str, dict[str, int]], evidence: Evidence) -> Lines:
    lines: Lines = []
    for clique, counts in wanted.items():
        pods = await evidence.objects.items("Pod", f"{names.PODCLIQUE}={clique}")
        found = dict(Counter(map(_image, pods)))
        if found != counts:
            lines += differs(f"images of {clique}", counts, found)
    return lines


async def _since_mark(wanted: Any, evidence: Evidence) -> Lines:
    if not evidence.marked:
        return ["no pods were marked"]
    pods = {pod["metadata"]["uid"]: pod for pod in await evidence.objects.items("Pod")}
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
    present = {pod["metadata"]["uid"] for pod in await evidence.objects.items("Pod")}
    found = len(evidence.marked.keys() - present)
    return [] if found == wanted else differs("replaced pods", wanted, found)


POD_CHECKS: Final[dict[str, Check]] = {
    "initDone": _init_done,
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
}
