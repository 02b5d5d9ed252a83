"""What is wrong in a state or a log, told without knowing what the operator is for. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.testing.torture.finding import Problem
from quarterdeck.testing.torture.picture import NOISE, Difference, StoredObject

MAY_END: Final = frozenset({"refuse", "lose", "block", "cut", "pause", "stale"})
"""Patterns under which a process may end with an error, to be started again; it must not panic."""
KEEPS_OBJECTS: Final = frozenset(
    {"kill", "refuse", "lose", "cut", "hold", "miss", "stale", "pause", "block", "starve"}
)
"""Patterns that are no reason to delete anything that is not deleted without them."""
_PANIC: Final = re.compile(r"^panic: |Observed a panic|^fatal error: |SIGSEGV", re.MULTILINE)
_TRACE: Final = re.compile(r"^Traceback \(most recent call last\)|^Exception in thread ", re.MULTILINE)
_READY: Final = frozenset({"Ready", "Available", "Healthy", "Running", "AllReplicasReady"})
_CONTENT: Final = ("spec", "data", "stringData", "rules", "subjects", "roleRef")


def has_panicked(log: str) -> bool:
    """Whether a program has failed in a way that no answer of a server excuses."""
    return _PANIC.search(log) is not None


def has_lost_lease(log: str) -> bool:
    """Whether a program has ended because it does not lead any more, as it should."""
    return "leader election lost" in log[-2000:]


def last_words(log: str) -> str:
    """The line of a log that says most about its end."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    told = next((line for line in lines if _PANIC.search(line)), "")
    if not told and _TRACE.search(log):
        told = lines[-1]
    return f"the process ended: {(told or (lines[-1] if lines else 'without a word'))[:300]}"


def endless(step: int, label: str, writes: Sequence[str], differences: Sequence[Difference]) -> Problem:
    """Writes that do not end."""
    counted = Counter(writes)
    most, often = counted.most_common(1)[0]
    told = (
        f"after “{label}” it wrote {len(writes)} times and went on, mostly {most.replace(',', ' ')} ({often})"
    )
    lines = (*(f"{name.replace(',', ' ')}: {count}" for name, count in counted.most_common(8)),)
    return Problem("settle", step, told, (*lines, *map(str, differences)), (most,))


def destroyed(step: int, label: str, keys: Sequence[str]) -> Problem:
    """What was deleted that is not deleted undisturbed."""
    told = f"after “{label}” it deleted {keys[0]}, which it does not do undisturbed"
    return Problem("state", step, told, tuple(keys), ("deleted", keys[0].split(" ")[0]))


def wrong_state(step: int, label: str, found: list[Difference], *, is_delete: bool) -> Problem:
    """A state that is not as expected; after a deletion what is left is an orphan."""
    left = [each for each in found if not each.path and each.expected == "nothing"]
    if is_delete and left:
        return Problem.of_state(step, label, left, oracle="orphan")
    return Problem.of_state(step, label, found)


def orphans(
    step: int,
    label: str,
    state: Iterable[StoredObject],
    made: frozenset[str],
    kept: frozenset[str],
    baseline: frozenset[str],
) -> list[Problem]:
    """What an operator made and left behind when everything that it was made for is gone."""
    left = [
        Difference(each.key, "", "nothing", "the object")
        for each in state
        if each.key in made
        and each.uid not in baseline
        and each.resource not in kept | NOISE
        and each.resource not in _OF_THE_PROGRAM
    ]
    return [Problem.of_state(step, label, left, oracle="orphan")] if left else []


_OF_THE_PROGRAM: Final = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "apiservices.apiregistration.k8s.io",
    }
)
"""What a program makes for itself, not for an object."""


def behind(step: int, found: StoredObject) -> list[Problem]:
    """A status that has not seen the latest spec, though everything is at rest."""
    status, generation = found.document.get("status"), found.document["metadata"].get("generation")
    if not isinstance(status, Mapping) or "deletionTimestamp" in found.document["metadata"]:
        return []
    conditions = [each for each in status.get("conditions") or () if isinstance(each, Mapping)]
    places = [("status.observedGeneration", status)]
    places += [(f"status.conditions[{each.get('type')}].observedGeneration", each) for each in conditions]
    late = [
        Difference(found.key, path, generation, each["observedGeneration"])
        for path, each in places
        if isinstance(each.get("observedGeneration"), int) and each["observedGeneration"] != generation
    ]
    return [Problem.of_state(step, "everything is at rest", late, oracle="status")] if late else []


def claim_of(found: StoredObject) -> str:
    """What a status says that means "all is well", about the latest spec; empty if it does not say so."""
    status, generation = found.document.get("status"), found.document["metadata"].get("generation")
    if not isinstance(status, Mapping) or status.get("observedGeneration", generation) != generation:
        return ""
    for each in status.get("conditions") or ():
        is_current = isinstance(each, Mapping) and each.get("observedGeneration", generation) == generation
        if is_current and each.get("type") in _READY and each.get("status") == "True":
            return f"condition {each['type']} is True"
    for key in ("phase", "state"):
        if status.get(key) in _READY:
            return f"{key} is {status[key]}"
    return "ready is true" if status.get("ready") is True else ""


def lie(step: int, found: StoredObject, claim: str, reason: str, differences: list[Difference]) -> Problem:
    """A status that claims what is not so."""
    told = f"{found.key}: {claim}, while {reason} and {differences[0]}"
    return Problem("status", step, told, tuple(map(str, differences)), (found.resource, claim))


def touched(step: int, before: StoredObject, after: StoredObject | None) -> list[Problem]:
    """What was done to an object that another controller owns."""
    if after is None or after.uid != before.uid:
        told = f"{before.key} belongs to another controller and was deleted"
        return [Problem("foreign", step, told, (), (before.resource, "deleted"))]
    if "deletionTimestamp" in after.document["metadata"]:
        told = f"{before.key} belongs to another controller and is being deleted"
        return [Problem("foreign", step, told, (), (before.resource, "deleted"))]
    changed = [
        Difference(before.key, part, before.document.get(part), after.document.get(part))
        for part in _CONTENT
        if before.document.get(part) != after.document.get(part)
    ]
    for part in ("labels", "ownerReferences"):
        old, new = (each.document["metadata"].get(part) for each in (before, after))
        if old != new:
            changed.append(Difference(before.key, f"metadata.{part}", old, new))
    if not changed:
        return []
    told = f"{before.key} belongs to another controller and was changed at {changed[0].path}"
    return [Problem("foreign", step, told, tuple(map(str, changed)), (before.resource, changed[0].path))]


def shared(
    step: int, first: Mapping[str, Any], second: Mapping[str, Any], state: Iterable[StoredObject]
) -> list[Problem]:
    """Kinds of which one object has children and its neighbour, which is like it, has fewer."""
    objects = list(state)
    counts = []
    for each in (first, second):
        uid = next((x.uid for x in objects if _is(x, each)), "")
        counts.append(Counter(x.resource for x in objects if uid and uid in _owners(x)))
    fewer = [
        Difference(resource, "of the neighbour", number, counts[1][resource])
        for resource, number in counts[0].items()
        if counts[1][resource] < number
    ]
    if not fewer:
        return []
    name = second["metadata"]["name"]
    told = f"{name}, like {first['metadata']['name']} but for its name, has no {fewer[0].key} of its own"
    return [Problem("state", step, told, tuple(map(str, fewer)), ("neighbour", fewer[0].key))]


def _is(found: StoredObject, document: Mapping[str, Any]) -> bool:
    metadata = document["metadata"]
    same_kind = (found.document["apiVersion"], found.document["kind"]) == (
        document["apiVersion"],
        document["kind"],
    )
    return same_kind and (found.namespace, found.name) == (metadata.get("namespace", ""), metadata["name"])


def _owners(found: StoredObject) -> set[str]:
    return {each["uid"] for each in found.document["metadata"].get("ownerReferences") or ()}
