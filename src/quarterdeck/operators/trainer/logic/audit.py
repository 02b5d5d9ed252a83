"""Whether a JobSet still has the variables that the system gave it.

The values that are expected follow from the JobSet as it is: its own parallelism, name and subdomain. A
TrainJob that was edited while it runs must not leak into it. The number of processes is the one value that
nothing else of the JobSet tells: it counts as changed if somebody other than the operator owns it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import msgspec

from quarterdeck.api import to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import MLPolicy

from .systemenv import EnvOwner, Shape, SystemEnv
from .template import any_container_of, replicated_jobs, upsert_env

_plain: Final = msgspec.json.Decoder().decode


class Drift(msgspec.Struct, frozen=True):
    """Variables of one container that are not what they should be."""

    job: str
    container: str
    entries: Sequence[Json]
    """As they should be."""

    @property
    def names(self) -> list[str]:
        """Which variables."""
        return [entry["name"] for entry in self.entries]


def find_drift(owner: EnvOwner, policy: MLPolicy, jobset: JobSet, processes: str) -> list[Drift]:
    """What differs in a live JobSet; ``processes`` is what it was rendered with, empty if nobody knows."""
    template: Json = to_dict(jobset.spec)
    shape = Shape(job_name=jobset.metadata.name, template=template, policy=policy, processes=processes)
    found: list[Drift] = []
    for target in owner.system_env(shape):
        container = _container(template, target.job, target.container)
        if container is None:
            continue
        present = {entry.get("name"): entry for entry in container.get("env") or ()}
        wrong = [
            entry
            for entry in target.entries
            if not _is_same(present.get(entry["name"]), entry)
            and _is_known(entry, target, processes, present, jobset)
        ]
        if wrong:
            found.append(Drift(target.job, target.container, wrong))
    return found


def _is_same(present: Json | None, wanted: Json) -> bool:
    """Whether a variable has the value; what the server adds to a reference is no difference."""
    if present is None or present.get("value", "") != wanted.get("value", ""):
        return False
    field = (present.get("valueFrom") or {}).get("fieldRef") or {}
    wanted_field = (wanted.get("valueFrom") or {}).get("fieldRef") or {}
    is_reference = bool(present.get("valueFrom"))
    return is_reference == bool(wanted_field) and field.get("fieldPath") == wanted_field.get("fieldPath")


def _is_known(entry: Json, target: SystemEnv, processes: str, present: Json, jobset: JobSet) -> bool:
    """Whether it is certain that an entry should be otherwise."""
    if entry["name"] != target.processes_entry:
        return True
    if not processes:
        return False
    return entry["name"] not in present or not _is_own(jobset, target, entry["name"])


def _is_own(jobset: JobSet, target: SystemEnv, variable: str) -> bool:
    """Whether the operator was the last to set the value of a variable."""
    template = (
        "f:spec",
        "f:replicatedJobs",
        _key(target.job),
        "f:template",
        "f:spec",
        "f:template",
        "f:spec",
    )
    entry_path = (_key(target.container), "f:env", _key(variable), "f:value")
    return any(
        entry.manager == names.FIELD_MANAGER
        and not isinstance(entry.fields_v1, msgspec.UnsetType)
        and any(
            _has(_plain(entry.fields_v1), (*template, containers, *entry_path))
            for containers in ("f:containers", "f:initContainers")
        )
        for entry in jobset.metadata.managed_fields
    )


@cache
def _key(name: str) -> str:
    return f'k:{{"name":"{name}"}}'


def _has(fields: Any, path: Sequence[str]) -> bool:
    for step in path:
        if not isinstance(fields, dict) or step not in fields:
            return False
        fields = fields[step]
    return True


def _container(template: Json, job: str, name: str) -> Json | None:
    found = next((each for each in replicated_jobs(template) if each.get("name") == job), None)
    return any_container_of(found, name) if found is not None else None


def repaired(jobset: JobSet, drift: Sequence[Drift]) -> JobSet:
    """The JobSet with exactly these entries put right."""
    document = copy.deepcopy(to_dict(jobset))
    for each in drift:
        container = _container(document["spec"], each.job, each.container)
        if container is not None:
            upsert_env(container, each.entries)
    return JobSet.from_dict(document)
