"""Which grouper is whose."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

import msgspec

from quarterdeck.api import DynamicObject, GroupKind
from quarterdeck.api.k8s import Pod

from . import grove, kubeflow
from .builtin import group_deployment, group_job
from .default import group_by_owner
from .jobset import group_job_set
from .plan import GroupPlan
from .workload import Reference, Workload

__all__ = ["Grouper", "GrouperRegistry", "default_registry"]

MakePlan: TypeAlias = Callable[[Workload], GroupPlan]


class Grouper(msgspec.Struct, frozen=True):
    """How the pods of a kind of workload are grouped."""

    plan: MakePlan
    """Raises ``GroupingError`` for a workload that it cannot make sense of."""
    related: Callable[[Pod], Reference] | None = None
    """Names another object in the pod's namespace that the plan needs."""


class GrouperRegistry:
    """Groupers by the group and kind of the top owner, whatever its version."""

    def __init__(
        self,
        groupers: Mapping[GroupKind, Grouper],
        *,
        otherwise: Grouper,
        skipped: Collection[GroupKind] = (),
    ) -> None:
        """Owners of a ``skipped`` kind only wrap another workload, which is grouped in their place."""
        self._groupers: Final = dict(groupers)
        self._otherwise: Final = otherwise
        self._skipped: Final = frozenset(skipped)

    def resolve(self, workload: Workload) -> tuple[Grouper, Workload]:
        """The grouper of a workload, and the workload as the grouper should see it."""
        while workload.owners and _kind_of(workload.owners[-1]) in self._skipped:
            workload = workload.without_top_owner()
        return self._groupers.get(_kind_of(workload.top_owner), self._otherwise), workload


def _kind_of(owner: DynamicObject) -> GroupKind:
    return owner.gvk.group_kind


def default_registry() -> GrouperRegistry:
    """The groupers of all kinds that are known here."""
    gang = Grouper(grove.group_gang, grove.related_gang)
    distributed = Grouper(kubeflow.group_distributed)
    kinds = {
        GroupKind("apps", "Deployment"): Grouper(group_deployment),
        GroupKind("batch", "Job"): Grouper(group_job),
        GroupKind("jobset.x-k8s.io", "JobSet"): Grouper(group_job_set),
        GroupKind(grove.GROUP, "PodCliqueSet"): gang,
        GroupKind(grove.GROUP, "PodGangSet"): gang,
        **{GroupKind("kubeflow.org", kind): distributed for kind in kubeflow.REPLICA_SPECS},
        GroupKind("kubeflow.org", "PyTorchJob"): Grouper(kubeflow.group_pytorch),
    }
    return GrouperRegistry(
        kinds,
        otherwise=Grouper(group_by_owner),
        skipped=[GroupKind("trainer.kubeflow.org", "TrainJob")],
    )
