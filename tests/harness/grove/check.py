"""Checks on children: which there are, and what they are."""

from __future__ import annotations

import re
from typing import Any, Final

from quarterdeck.operators.grove import names
from tests.harness.case import CaseFailure

from .caseobjects import CaseObjects
from .match import contains, controller_of, differs

__all__ = [
    "check_names",
    "check_objects",
    "check_pod_gangs",
    "check_pods",
    "check_starts_after",
    "is_ready",
    "is_scheduled",
]

Json = dict[str, Any]
Lines = list[str]

_OF_SETS: Final = f"{names.MANAGED_BY}={names.OPERATOR}"


def _has_condition(pod: Json, type: str) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(each["type"] == type and each["status"] == "True" for each in conditions)


def is_scheduled(pod: Json) -> bool:
    """Whether a pod has a node."""
    return _has_condition(pod, "PodScheduled")


def is_ready(pod: Json) -> bool:
    """Whether a pod works."""
    return _has_condition(pod, "Ready")


async def check_names(wanted: dict[str, list[str]], objects: CaseObjects, pcs: str = "") -> Lines:
    """The names of the objects of each kind that belong to a set, or to any."""
    selector = f"{names.PART_OF}={pcs}" if pcs else _OF_SETS
    lines: Lines = []
    for kind, expected in wanted.items():
        found = sorted(each["metadata"]["name"] for each in await objects.items(kind, selector))
        if found != sorted(expected):
            lines += differs(f"names of {kind}", sorted(expected), found)
    return lines


async def check_starts_after(wanted: dict[str, list[str]], objects: CaseObjects) -> Lines:
    """The parents of each PodClique, in any order."""
    lines: Lines = []
    for name, expected in wanted.items():
        pclq = await objects.need("PodClique", name)
        found = sorted(pclq["spec"].get("startsAfter") or ())
        if found != sorted(expected):
            lines += differs(f"startsAfter of {name}", sorted(expected), found)
    return lines


async def check_pod_gangs(wanted: dict[str, Json], objects: CaseObjects) -> Lines:
    """What gangs say."""
    lines: Lines = []
    for name, expected in wanted.items():
        gang = await objects.need("PodGang", name)
        for word, value in expected.items():
            lines += _check_gang(f"PodGang {name}", word, value, gang)
    return lines


def _check_gang(what: str, word: str, value: Any, gang: Json) -> Lines:
    spec, groups = gang["spec"], gang["spec"]["podgroups"]
    match word:
        case "podgroups":
            found = [[group["name"], group["minReplicas"]] for group in groups]
            return [] if found == value else differs(f"{what} podgroups", value, found)
        case "podReferenceCounts":
            counts = {group["name"]: len(group["podReferences"]) for group in groups}
            return contains(f"{what} references", value, counts)
        case "podgroupConstraints":
            constraints = {group["name"]: group.get("topologyConstraint") for group in groups}
            return contains(f"{what} constraints", value, constraints)
        case "topologyConstraint" | "topologyConstraintGroupConfigs" | "priorityClassName":
            return contains(f"{what} {word}", value, spec.get(word))
        case "specContains":
            return contains(f"{what} spec", value, spec)
        case _:
            return _check_metadata(what, word, value, gang)


def _check_metadata(what: str, word: str, value: Any, document: Json) -> Lines:
    metadata = document["metadata"]
    match word:
        case "labelsContain" | "annotationsContain":
            field = word.removesuffix("Contain")
            return contains(f"{what} {field}", value, metadata.get(field) or {})
        case "labelsPresent" | "annotationsPresent":
            field = word.removesuffix("Present")
            missing = sorted(set(value) - (metadata.get(field) or {}).keys())
            return [] if not missing else [f"{what}: {field} {missing} are not there"]
        case "labelsAbsent" | "annotationsAbsent":
            field = word.removesuffix("Absent")
            present = sorted(set(value) & (metadata.get(field) or {}).keys())
            return [] if not present else [f"{what}: {field} {present} are there"]
        case "labels" | "annotations":
            found = metadata.get(word) or {}
            return [] if found == value else differs(f"{what} {word}", value, found)
        case "finalizers":
            found = metadata.get("finalizers") or []
            return [] if sorted(found) == sorted(value) else differs(f"{what} finalizers", value, found)
        case "controllerOwner":
            owner = controller_of(document)
            return [] if owner == value else differs(f"{what} controller", value, owner)
        case _:
            return [f"{what}: {word} is not understood"]


_ABOUT_METADATA: Final = frozenset(
    {
        "labelsContain",
        "labelsPresent",
        "labelsAbsent",
        "labels",
        "annotationsContain",
        "annotationsPresent",
        "annotationsAbsent",
        "annotations",
        "finalizers",
        "controllerOwner",
    }
)


async def check_objects(wanted: list[Json], objects: CaseObjects) -> Lines:
    """Single objects; a word that is no check of its own is a field of the object, or of its spec."""
    lines: Lines = []
    for expected in wanted:
        kind, name = expected["kind"], expected["name"]
        what = f"{kind} {name}"
        found = await objects.read(kind, name)
        if expected.get("absent"):
            lines += [] if found is None else [f"{what} is there"]
            continue
        if found is None:
            lines.append(f"{what} is not there")
            continue
        for word, value in expected.items():
            if word in ("kind", "name", "absent", "apiVersion"):
                continue
            lines += _check_object(what, word, value, found)
    return lines


def _check_object(what: str, word: str, value: Any, found: Json) -> Lines:
    if word in _ABOUT_METADATA:
        return _check_metadata(what, word, value, found)
    if word.endswith("Contains"):
        field = word.removesuffix("Contains")
        return contains(f"{what} {field}", value, found.get(field))
    holder = found if word in found else found.get("spec") or {}
    if word not in holder:
        return [f"{what} has no field {word}"]
    return contains(f"{what} {word}", value, holder.get(word))


async def check_pods(wanted: Any, objects: CaseObjects) -> Lines:
    """The pods of a selector, all of which must fit."""
    if isinstance(wanted, list):
        return [line for each in wanted for line in await check_pods(each, objects)]
    pods = await objects.items("Pod", wanted.get("selector", ""))
    what = f"pods {wanted.get('selector', '')}"
    if not pods and wanted.get("count") != 0:
        return [f"{what}: there are none"]
    lines: Lines = []
    for word, value in wanted.items():
        if word == "selector":
            continue
        together = _check_all(what, word, value, pods)
        if together is not None:
            lines += together
            continue
        for pod in pods:
            lines += _check_pod(f"pod {pod['metadata']['name']}", word, value, pod)
    return lines


def _check_all(what: str, word: str, value: Any, pods: list[Json]) -> Lines | None:
    """Checks on all pods together; nothing for a word that is about single ones."""
    match word:
        case "count":
            return [] if len(pods) == value else differs(f"{what} count", value, len(pods))
        case "hostnames":
            found = sorted(pod["spec"].get("hostname", "") for pod in pods)
            return [] if found == sorted(value) else differs(f"{what} hostnames", value, found)
        case "labelValues":
            lines: Lines = []
            for label, values in value.items():
                found = sorted((pod["metadata"].get("labels") or {}).get(label, "") for pod in pods)
                if found != sorted(values):
                    lines += differs(f"{what} label {label}", values, found)
            return lines
        case _:
            return None


def _check_pod(what: str, word: str, value: Any, pod: Json) -> Lines:
    spec = pod["spec"]
    if word in _ABOUT_METADATA:
        return _check_metadata(what, word, value, pod)
    match word:
        case "namePattern":
            name = pod["metadata"]["name"]
            return [] if re.search(value, name) else differs(f"{what} name", value, name)
        case "envOrder" | "env" | "envAbsent":
            containers = [*spec["containers"], *(spec.get("initContainers") or ())]
            own = [each for each in containers if each["name"] != names.INIT_CONTAINER]
            return [line for each in own for line in _check_env(what, word, value, each)]
        case "initContainer":
            return _check_init(what, value, spec)
        case "initContainerAbsent" | "noInitContainer":
            wanted = names.INIT_CONTAINER if value is True else value
            inits = [each["name"] for each in spec.get("initContainers") or ()]
            return [f"{what} has init container {wanted}"] if wanted in inits else []
        case "volumesContain":
            volumes = {each["name"]: each for each in spec.get("volumes") or ()}
            return [
                line
                for each in value
                for line in contains(f"{what} volume {each['name']}", each, volumes.get(each["name"]))
            ]
        case "gates" | "schedulingGates":
            found = [gate["name"] for gate in spec.get("schedulingGates") or ()]
            wanted_gates = [each["name"] if isinstance(each, dict) else each for each in value]
            return [] if sorted(found) == sorted(wanted_gates) else differs(f"{what} gates", value, found)
        case "specContains":
            return contains(f"{what} spec", value, spec)
        case "statusContains":
            return contains(f"{what} status", value, pod.get("status"))
        case _ if word in spec or word in _SPEC_FIELDS:
            return contains(f"{what} {word}", value, spec.get(word))
        case _:
            return [f"pods.{word} is not understood"]


_SPEC_FIELDS: Final = frozenset(
    {
        "subdomain",
        "schedulerName",
        "priorityClassName",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "serviceAccountName",
        "nodeName",
        "resourceClaims",
        "schedulingGroup",
    }
)


def _check_env(what: str, word: str, value: Any, container: Json) -> Lines:
    variables = container.get("env") or []
    found = [each["name"] for each in variables]
    title = f"{what} container {container['name']}"
    if word == "envOrder":
        return [] if found[: len(value)] == value else differs(f"{title} env", value, found)
    if word == "envAbsent":
        present = sorted(set(value) & set(found))
        return [] if not present else [f"{title}: variables {present} are there"]
    lines: Lines = []
    by_name = {each["name"]: each for each in variables}
    for name, expected in value.items():
        variable = by_name.get(name)
        if found.count(name) > 1:
            lines.append(f"{title}: variable {name} is there {found.count(name)} times")
        if variable is None:
            lines.append(f"{title}: variable {name} is not there")
        elif isinstance(expected, dict):
            source = (variable.get("valueFrom") or {}).get("fieldRef") or {}
            lines += contains(f"{title} {name}", expected.get("fieldRef"), source.get("fieldPath"))
        else:
            lines += contains(f"{title} {name}", expected, variable.get("value"))
    return lines


def _check_init(what: str, wanted: Json, spec: Json) -> Lines:
    known = {"name", "argsSet", "mounts", "image", "isLast", "env"}
    if wanted.keys() - known:
        raise CaseFailure(*(f"initContainer.{word} is not understood" for word in wanted.keys() - known))
    inits = spec.get("initContainers") or []
    found = next((each for each in inits if each["name"] == wanted["name"]), None)
    if found is None:
        return [f"{what} has no init container {wanted['name']}"]
    lines: Lines = []
    if wanted.get("isLast", True) and inits[-1]["name"] != wanted["name"]:
        lines.append(f"{what}: init container {wanted['name']} is not the last")
    if "argsSet" in wanted and sorted(found.get("args") or ()) != sorted(wanted["argsSet"]):
        lines += differs(f"{what} args", wanted["argsSet"], found.get("args"))
    if "mounts" in wanted:
        mounts = {each["name"]: each["mountPath"] for each in found.get("volumeMounts") or ()}
        lines += contains(f"{what} mounts", wanted["mounts"], mounts)
    if "image" in wanted and not str(found.get("image", "")).startswith(wanted["image"]):
        lines += differs(f"{what} image", wanted["image"], found.get("image"))
    if "env" in wanted:
        lines += contains(f"{what} env", wanted["env"], found.get("env") or [])
    return lines
