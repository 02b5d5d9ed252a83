"""CoScheduling and Volcano: pods that start together or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from quarterdeck.api import UNSET, ObjectMeta, Quantity, owner_reference
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.api.quantity import sum_quantities
from quarterdeck.operators.jobset.types import names as jobset_names
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.info import Info, PodSet, spec_of
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts, Component, Present, Watch
from quarterdeck.operators.trainer.logic.template import pod_spec, replicated_jobs
from quarterdeck.operators.trainer.types import (
    CoschedulingPodGroup,
    CoschedulingPodGroupSpec,
    TrainJob,
    VolcanoPodGroup,
    VolcanoPodGroupSpec,
)
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

_DEFAULT_TIMEOUT: Final = 60


class CoScheduling:
    """For runtimes with ``podGroupPolicy.coscheduling``."""

    name: Final = "CoScheduling"

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Name the group on every pod."""
        if info.pod_group_policy.coscheduling:
            info.pod_labels[names.COSCHEDULING_LABEL] = job.metadata.name

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The group, unless there is one that the TrainJob runs in."""
        policy = info.pod_group_policy.coscheduling
        if not policy or _is_settled(job, present):
            return []
        timeout = policy.schedule_timeout_seconds
        spec = CoschedulingPodGroupSpec(
            min_member=_members(info),
            min_resources=_resources(info),
            schedule_timeout_seconds=_DEFAULT_TIMEOUT if timeout is UNSET else timeout,
        )
        return [Component(CoschedulingPodGroup(metadata=_metadata(job), spec=spec))]

    def watches(self) -> list[Watch]:
        """The group."""
        return [Watch(CoschedulingPodGroup, is_optional=True)]


class Volcano:
    """For runtimes with ``podGroupPolicy.volcano``."""

    name: Final = "Volcano"

    def enforce_pod_group_policy(self, info: Info, job: TrainJob) -> None:
        """Name the group on every pod."""
        if info.pod_group_policy.volcano:
            info.pod_annotations[names.VOLCANO_ANNOTATION] = job.metadata.name

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The group, unless there is one that the TrainJob runs in."""
        policy = info.pod_group_policy.volcano
        if not policy or _is_settled(job, present):
            return []
        spec = VolcanoPodGroupSpec(
            min_member=_members(info),
            min_resources=_resources(info),
            queue=info.annotations.get(names.VOLCANO_QUEUE, ""),
            priority_class_name=next(reversed(priorities_of(info.template)), ""),
            network_topology=policy.network_topology,
        )
        return [Component(VolcanoPodGroup(metadata=_metadata(job), spec=spec))]

    def watches(self) -> list[Watch]:
        """The group."""
        return [Watch(VolcanoPodGroup, is_optional=True)]

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """The queue, and priority classes that must exist."""
        if not info.pod_group_policy.volcano:
            return []
        found: list[FieldError] = []
        queue = info.annotations.get(names.VOLCANO_QUEUE)
        if queue == "":
            path = f"spec.annotations[{names.VOLCANO_QUEUE}]"
            found.append(fielderror.invalid(path, queue, "Volcano queue name must not be empty"))
        for priority in dict.fromkeys(priorities_of(info.template)):
            error = facts.missing_priorities.get(priority)
            if error is not None:
                detail = f'PriorityClass "{priority}" doesn\'t exist: {error}'
                found.append(fielderror.invalid("spec.templateSpec.priorityClassName", priority, detail))
        return found


def priorities_of(template: Json) -> list[str]:
    """The priority classes of the pods of a JobSetSpec; for the group the last one counts."""
    classes = (pod_spec(job).get("priorityClassName") for job in replicated_jobs(template))
    return [name for name in classes if name]


def _is_settled(job: TrainJob, present: Present) -> bool:
    """Whether the group must not be touched: it is there, and the TrainJob is not suspended."""
    return present.has_pod_group and not spec_of(job).suspend


def _together(info: Info) -> list[PodSet]:
    """The pods that can run at the same time: what the trainer waits for is gone before it starts."""
    trainer = info.ancestor(names.TRAINER)
    earlier: set[str] = set()
    left = [trainer] if trainer is not None else []
    while left:
        ended = set(_ended_before(left.pop())) - earlier
        earlier |= ended
        left += [pods for pods in info.pod_sets if pods.name in ended]
    return [pods for pods in info.pod_sets if pods.name not in earlier]


def _ended_before(pods: PodSet) -> Iterator[str]:
    for dependency in pods.job.get("dependsOn") or ():
        if dependency.get("status") == jobset_names.COMPLETE:
            yield dependency.get("name", "")


def _members(info: Info) -> int:
    return sum(pods.replicas * pods.count for pods in _together(info))


def _resources(info: Info) -> Mapping[str, Quantity]:
    total = sum_quantities(
        {name: amount * (pods.replicas * pods.count) for name, amount in pods.requests.items()}
        for pods in _together(info)
    )
    return total or EMPTY_MAP


def _metadata(job: TrainJob) -> ObjectMeta:
    return ObjectMeta(
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        owner_references=(owner_reference(job, controller=True),),
    )
