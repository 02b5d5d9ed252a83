"""What trainer cases expect of the cluster at a moment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from tests.harness.case import CaseFailure
from tests.harness.matching import MISSING, json_equal, show
from tests.harness.variable import lookup
from tests.harness.words import Table, refuse_unknown, words

from .caseobjects import CaseObjects
from .match import object_mismatches

Json = dict[str, Any]

_EXACTLY: Final = ("equals", "count", "is", "value", "n", "number", "expected")
_AT_LEAST: Final = ("atLeast", "min")
_AT_MOST: Final = ("atMost", "max")

REF: Final = words("apiVersion", "kind", "namespace", "name", "metadata")
_COMPARED: Final[Table] = [words("path", "remembered", ref=REF)]
_COUNT: Final = words(
    "apiVersion", "kind", "namespace", "selector", "labels", "labelSelector", "namePattern", "withCondition",
    *_EXACTLY, *_AT_LEAST, *_AT_MOST, ownedBy=REF,
)  # fmt: skip
_PODS: Final = words(
    "namespace", "selector", "phaseIn", "live", "count", "each", "hostnames", "namePattern",
    "indexOnLabelAndAnnotation", "envPresent", "allEqualAt",
)  # fmt: skip
_PARTS: Final = words(
    "objects",
    "pods",  # one or a list; see pod_mismatches
    "count",  # one, a list, or numbers by kind; see count_mismatches
    absent=[REF],
    events=[words("type", "reason", "messageContains", about=REF)],
    differs=_COMPARED,
    same=_COMPARED,
)
EXPECTATION: Final = words(anyOf=[_PARTS], **_PARTS)
"""The words of an expectation."""


class Expectation:
    """Checks parts of a step against the cluster; `remembered` are values of earlier steps."""

    def __init__(self, objects: CaseObjects, remembered: Mapping[str, Any]) -> None:
        self._objects: Final = objects
        self._remembered: Final = remembered

    async def mismatches(self, wanted: Json) -> list[str]:
        """Everything that is not so; raises `CaseFailure` for words that are not understood."""
        refuse_unknown(wanted, EXPECTATION, "expectation")
        found: list[str] = []
        for each in wanted.get("objects") or ():
            found += await self._object(each)
        for each in wanted.get("absent") or ():
            found += await self._absent(each)
        for each in wanted.get("events") or ():
            found += await self._event(each)
        if "pods" in wanted:
            for each in _listed(wanted["pods"]):
                found += await self._pods(each)
        for each in _listed(wanted.get("count") or []):
            found += await self._count(each)
        for each in wanted.get("differs") or ():
            found += await self._compare(each, is_same=False)
        for each in wanted.get("same") or ():
            found += await self._compare(each, is_same=True)
        if "anyOf" in wanted:
            found += await self._any_of(wanted["anyOf"])
        return found

    async def _any_of(self, alternatives: list[Json]) -> list[str]:
        found: list[str] = []
        for each in alternatives:
            lines = await self.mismatches(each)
            if not lines:
                return []
            found += lines
        return ["none of the alternatives holds:", *found]

    async def _object(self, wanted: Json) -> list[str]:
        name = f"{wanted['kind']} {wanted['metadata']['name']}"
        actual = await self._objects.read(wanted)
        if not actual:
            return [f"{name} is not there"]
        expected = await self._objects.resolved(self._objects.real(wanted))
        return [f"{name}: {line}" for line in object_mismatches(expected, actual)]

    async def _absent(self, ref: Json) -> list[str]:
        actual = await self._objects.read(ref)
        name = (ref.get("metadata") or ref)["name"]
        return [f"{ref['kind']} {name} is there: {show(actual)}"] if actual else []

    async def _event(self, wanted: Json) -> list[str]:
        about = wanted["about"]
        ref = {"kind": "Event", "namespace": about.get("namespace")}
        events = [each for each in await self._objects.list(ref) if _is_about(each, about)]
        if any(_is_like(each, wanted) for each in events):
            return []
        seen = [(each.get("type"), each.get("reason"), each.get("message")) for each in events]
        return [f"no event like {show(wanted)} among {show(seen)}"]

    async def _count(self, wanted: Json) -> list[str]:
        found: list[str] = []
        for each in counts_of(wanted):
            found += count_mismatches(each, await self._objects.list(each, selector_of(each)))
        return found

    async def _compare(self, wanted: Json, *, is_same: bool) -> list[str]:
        before = self._remembered.get(wanted["remembered"], MISSING)
        now = await self.value(wanted["ref"], wanted["path"])
        if json_equal(before, now) == is_same and now is not MISSING:
            return []
        word = "the same as" if is_same else "different from"
        return [f"{wanted['path']}: expected {word} {show(before)}, got {show(now)}"]

    async def value(self, ref: Json, path: str) -> Any:
        """A value of a live object; `MISSING` if there is none."""
        try:
            return lookup(await self._objects.read(ref), path)
        except KeyError:
            return MISSING

    async def _pods(self, wanted: Json) -> list[str]:
        ref = {"apiVersion": "v1", "kind": "Pod", "namespace": wanted.get("namespace")}
        return pod_mismatches(wanted, await self._objects.list(ref, wanted.get("selector")))


def counts_of(wanted: Json) -> list[Json]:
    """The single counts of a `count`: one that names its kind, or numbers by kind."""
    merged = {**(wanted.get("ref") or {}), **{key: each for key, each in wanted.items() if key != "ref"}}
    if "kind" in merged:
        return [merged]
    return [{"kind": kind, "equals": number} for kind, number in merged.items()]


def selector_of(wanted: Json) -> Json:
    """The labels by which a count chooses."""
    return next((wanted[key] for key in ("selector", "labels", "labelSelector") if key in wanted), {})


def count_mismatches(wanted: Json, items: list[Json]) -> list[str]:
    """Whether there are as many objects as there should be."""
    refuse_unknown(wanted, _COUNT, "count")
    if "withCondition" in wanted:
        items = [each for each in items if _has_condition(each, wanted["withCondition"])]
    if "namePattern" in wanted:
        items = [each for each in items if re.search(wanted["namePattern"], each["metadata"]["name"])]
    if "ownedBy" in wanted:
        items = [each for each in items if _is_owned(each, wanted["ownedBy"])]
    exact = next((wanted[key] for key in _EXACTLY if key in wanted), None)
    low = next((wanted[key] for key in _AT_LEAST if key in wanted), exact)
    high = next((wanted[key] for key in _AT_MOST if key in wanted), exact)
    if low is None and high is None:
        raise CaseFailure("count says no number")
    if (low is None or len(items) >= low) and (high is None or len(items) <= high):
        return []
    names = sorted(each["metadata"]["name"] for each in items)
    return [f"expected {show(wanted)}, got {len(items)}: {names}"]


def _has_condition(item: Json, type: str) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(each["type"] == type and each["status"] == "True" for each in conditions)


def _is_owned(item: Json, owner: Json) -> bool:
    references = item["metadata"].get("ownerReferences") or ()
    return any(
        (each.get("kind"), each.get("name")) == (owner.get("kind"), owner.get("name")) for each in references
    )


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_about(event: Json, about: Json) -> bool:
    subject = event.get("involvedObject") or {}
    return (subject.get("kind"), subject.get("name")) == (about["kind"], about["name"])


def _is_like(event: Json, wanted: Json) -> bool:
    texts = _listed(wanted.get("messageContains") or [])
    return all(event.get(key) == wanted[key] for key in ("type", "reason") if key in wanted) and all(
        text in (event.get("message") or "") for text in texts
    )


def is_live(pod: Json) -> bool:
    """Whether a pod counts as running: not ended, not about to."""
    return not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") in (
        "Pending",
        "Running",
    )


def pod_mismatches(wanted: Json, pods: list[Json]) -> list[str]:
    """What is not so with pods that a selector chose."""
    refuse_unknown(wanted, _PODS, "pods")
    if "phaseIn" in wanted:
        pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") in wanted["phaseIn"]]
    if wanted.get("live"):
        pods = [pod for pod in pods if is_live(pod)]
    names = sorted(pod["metadata"]["name"] for pod in pods)
    found: list[str] = []
    if "count" in wanted and len(pods) != wanted["count"]:
        found.append(f"expected {wanted['count']} pods, got {names}")
    if "hostnames" in wanted:
        hostnames = sorted(pod["spec"].get("hostname", "") for pod in pods)
        if hostnames != sorted(wanted["hostnames"]):
            found.append(f"expected the hostnames {wanted['hostnames']}, got {hostnames}")
    if "allEqualAt" in wanted:
        values = [_value_at(pod, wanted["allEqualAt"]) for pod in pods]
        if any(not json_equal(values[0], value) for value in values[1:]):
            found.append(f"{wanted['allEqualAt']} differs among pods: {show(values)}")
    for pod in pods:
        found += [f"Pod {pod['metadata']['name']}: {line}" for line in _pod_lines(wanted, pod)]
    return found


def _value_at(pod: Json, path: str) -> Any:
    try:
        return lookup(pod, path)
    except KeyError:
        return None


def _pod_lines(wanted: Json, pod: Json) -> list[str]:
    found = object_mismatches(wanted["each"], pod) if "each" in wanted else []
    metadata = pod["metadata"]
    if "namePattern" in wanted and not re.search(wanted["namePattern"], metadata["name"]):
        found.append(f"the name is not like {wanted['namePattern']}")
    key = wanted.get("indexOnLabelAndAnnotation")
    if key is not None:
        label = (metadata.get("labels") or {}).get(key)
        if label is None or label != (metadata.get("annotations") or {}).get(key):
            found.append(f"{key} is not on label and annotation alike")
    present = {entry["name"] for each in pod["spec"]["containers"] for entry in each.get("env") or ()}
    missing = sorted(set(wanted.get("envPresent") or ()) - present)
    return [*found, *(f"env {name} is missing" for name in missing)]
