"""Gangs by the names that users know: their TrainJob, their JobSet, their PodCliqueSet. Pure."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Final

from quarterdeck.api import Key
from quarterdeck.errors import SchemaError
from quarterdeck.scheduler.snapshot import PodGroupInfo, Snapshot

_POD_GROUP: Final = "podgroup"
_JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
_LABELS: Final[Mapping[str, str]] = {
    "jobset": _JOB_SET,
    "trainjob": _JOB_SET,  # its JobSet has its name
    "podcliqueset": "app.kubernetes.io/part-of",
    "podgang": "grove.io/podgang",
    "job": "batch.kubernetes.io/job-name",
}
"""The label of pods that has the name of what they belong to, by its kind."""
_SHORT: Final = {"pg": _POD_GROUP, "pcs": "podcliqueset"}
_OF_WORKLOAD: Final = re.compile(r"pg-(?P<name>.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-.+)?")
"""How the scheduler names the group of a workload: with its name and its UID."""


def gangs_named(snapshot: Snapshot, text: str, namespace: str) -> tuple[Key, ...]:
    """The pod groups that a name means, in order.

    It is a name in ``namespace``, or ``namespace/name``, or ``kind/name`` with the kinds of workloads:
    ``trainjob/resnet``, ``jobset/resnet``, ``pcs/chat``. Raises ``SchemaError`` if it means none.
    """
    first, _, name = text.rpartition("/")
    kind = _kind(first)
    if not kind and first:
        namespace = first
    names = _names(snapshot, namespace)
    found = [
        group.key
        for group in snapshot.pod_groups
        if group.namespace == namespace and name in _matching(names[group.name], kind)
    ]
    if not found:
        known = {each for by_kind in names.values() for each in _matching(by_kind, kind)}
        close = difflib.get_close_matches(name, known, n=1)
        guess = f"; did you mean {close[0]}?" if close else ""
        what = f"{kind or 'gang'} {namespace}/{name}"
        raise SchemaError(f"there is no {what} in the snapshot{guess}")
    return tuple(sorted(found, key=str))


def _kind(word: str) -> str:
    """The kind that a word means, also in the plural or short; empty if it means none."""
    word = _SHORT.get(word.lower(), word.lower())
    singular = word.removesuffix("s")
    return next((each for each in (word, singular) if each in _LABELS or each == _POD_GROUP), "")


def _matching(by_kind: Mapping[str, set[str]], kind: str) -> set[str]:
    return by_kind.get(kind, set()) if kind else set().union(*by_kind.values())


def _names(snapshot: Snapshot, namespace: str) -> dict[str, dict[str, set[str]]]:
    """What each pod group of a namespace may be called, by kind; ``""`` is the name without a kind."""
    found = {each.name: _own_names(each) for each in snapshot.pod_groups if each.namespace == namespace}
    for pod in snapshot.pods:
        if pod.namespace == namespace and pod.pod_group in found:
            for kind, label in _LABELS.items():
                if label in pod.labels:
                    found[pod.pod_group][kind].add(pod.labels[label])
    return found


def _own_names(group: PodGroupInfo) -> dict[str, set[str]]:
    names: dict[str, set[str]] = defaultdict(set)
    names[_POD_GROUP].add(group.name)
    if workload := _OF_WORKLOAD.fullmatch(group.name):
        names[""].add(workload["name"])
    return names
