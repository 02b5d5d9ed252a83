"""Which grouper is whose: a table by the kind of the top owner.

Distributions may bring groupers for kinds of their own, or better ones for kinds that are known: an entry
point of the group ``quarterdeck.podgroupers`` names a function that gives a list of ``Known``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from quarterdeck.api import DynamicObject
from quarterdeck.api.kind import GroupKind
from quarterdeck.errors import ConfigError

from . import grove, kubeflow, ray
from .builtin import group_cron_job, group_deployment, group_job, group_pod
from .default import group_by_owner
from .jobset import group_job_set
from .knative import group_revision, related_revision
from .leaderworkerset import group_leader_worker_set
from .plan import GroupPlan
from .single import group_aml_job, group_notebook, group_runai_job, group_spot_request
from .workload import Reference, Workload

ENTRY_POINTS: Final = "quarterdeck.podgroupers"

MakePlan: TypeAlias = Callable[[Workload], GroupPlan]


class Grouper(msgspec.Struct, frozen=True):
    """How the pods of a kind of workload are grouped."""

    plan: MakePlan
    """Raises ``GroupingError`` for a workload that it cannot make sense of."""
    related: Callable[[Workload], Reference] | None = None
    """Names another object in the pod's namespace that the plan needs."""
    companions: Callable[[Workload], Mapping[str, str]] | None = None
    """Labels of other pods in the namespace that the plan needs to see; none if it is empty."""
    needs_groups: bool = False
    """Whether the plan needs to see the PodGroups that the top owner has already."""


class Known(msgspec.Struct, frozen=True):
    """A row of the table: a kind that owns pods, and who groups them."""

    kind: GroupKind
    resource: str
    """Its name in URLs: the operator asks for the right to read it."""
    grouper: Grouper | None = None
    """None skips the kind: it wraps another workload, which is grouped in its place."""
    is_only_on_top: bool = False
    """Whether the row counts for a top owner alone, not for one that is below a kind that is skipped."""


class GrouperRegistry:
    """Groupers by the group and kind of the top owner, whatever its version."""

    def __init__(self, known: Iterable[Known], *, otherwise: Grouper) -> None:
        """Later rows win over earlier ones of the same kind."""
        self._known: Final = {row.kind: row for row in known}
        self._otherwise: Final = otherwise

    def resolve(self, workload: Workload) -> tuple[Grouper, Workload]:
        """The grouper of a workload, and the workload as the grouper should see it."""
        row = self._known.get(_kind_of(workload.top_owner))
        while workload.owners and row is not None and row.grouper is None:
            workload = workload.without_top_owner()
            row = self._known.get(_kind_of(workload.top_owner))
            if row is not None and row.is_only_on_top:
                row = None
        grouper = row.grouper if row is not None else None
        return grouper or self._otherwise, workload

    def resources(self) -> dict[str, tuple[str, ...]]:
        """What must be read to follow owners: resources by their API group."""
        found: dict[str, set[str]] = {}
        for row in self._known.values():
            if row.kind.group or row.kind.kind != "Pod":
                found.setdefault(row.kind.group, set()).add(row.resource)
        return {group: tuple(sorted(resources)) for group, resources in sorted(found.items())}


def _kind_of(owner: DynamicObject) -> GroupKind:
    return owner.gvk.group_kind


_BY_OWNER: Final = Grouper(group_by_owner)
_GANG: Final = Grouper(grove.group_gang, grove.related_gang)
_DISTRIBUTED: Final = Grouper(kubeflow.group_distributed)

_ONLY_ON_TOP: Final = frozenset(
    {
        "DistributedInferenceWorkload",
        "DistributedWorkload",
        "DynamoGraphDeployment",
        "InferenceWorkload",
        "InteractiveWorkload",
        "TrainingWorkload",
    }
)
"""Kinds that KAI knows in any version, which it does not look for below another one that it skips."""

KNOWN: Final = tuple(
    Known(GroupKind(group, kind), resource, grouper, kind in _ONLY_ON_TOP)
    for group, kind, resource, grouper in (
        ("", "Pod", "pods", Grouper(group_pod)),
        ("apps", "DaemonSet", "daemonsets", _BY_OWNER),
        ("apps", "Deployment", "deployments", Grouper(group_deployment)),
        ("apps", "ReplicaSet", "replicasets", _BY_OWNER),
        ("apps", "StatefulSet", "statefulsets", _BY_OWNER),
        ("batch", "CronJob", "cronjobs", Grouper(group_cron_job)),
        ("batch", "Job", "jobs", Grouper(group_job, needs_groups=True)),
        ("jobset.x-k8s.io", "JobSet", "jobsets", Grouper(group_job_set, needs_groups=True)),
        ("trainer.kubeflow.org", "TrainJob", "trainjobs", None),
        ("kubeflow.org", "JAXJob", "jaxjobs", _DISTRIBUTED),
        ("kubeflow.org", "MPIJob", "mpijobs", Grouper(kubeflow.group_mpi, None, kubeflow.launchers)),
        ("kubeflow.org", "Notebook", "notebooks", Grouper(group_notebook)),
        ("kubeflow.org", "PyTorchJob", "pytorchjobs", Grouper(kubeflow.group_pytorch)),
        ("kubeflow.org", "ScheduledWorkflow", "scheduledworkflows", _BY_OWNER),
        ("kubeflow.org", "TFJob", "tfjobs", _DISTRIBUTED),
        ("kubeflow.org", "XGBoostJob", "xgboostjobs", _DISTRIBUTED),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", Grouper(group_leader_worker_set)),
        ("ray.io", "RayCluster", "rayclusters", Grouper(ray.group_cluster)),
        ("ray.io", "RayJob", "rayjobs", Grouper(ray.group_above_cluster, ray.related_to_job)),
        ("ray.io", "RayService", "rayservices", Grouper(ray.group_above_cluster, ray.related_to_service)),
        ("serving.knative.dev", "Revision", "revisions", _BY_OWNER),
        ("serving.knative.dev", "Configuration", "configurations", _BY_OWNER),
        ("serving.knative.dev", "Service", "services", Grouper(group_revision, related_revision)),
        ("amlarc.azureml.com", "AmlJob", "amljobs", Grouper(group_aml_job)),
        ("egx.nvidia.io", "SPOTRequest", "spotrequests", Grouper(group_spot_request)),
        ("run.ai", "RunaiJob", "runaijobs", Grouper(group_runai_job)),
        ("run.ai", "DistributedInferenceWorkload", "distributedinferenceworkloads", None),
        ("run.ai", "DistributedWorkload", "distributedworkloads", None),
        ("run.ai", "InferenceWorkload", "inferenceworkloads", None),
        ("run.ai", "InteractiveWorkload", "interactiveworkloads", None),
        ("run.ai", "TrainingWorkload", "trainingworkloads", None),
        ("argoproj.io", "Workflow", "workflows", None),
        ("nvidia.com", "DynamoGraphDeployment", "dynamographdeployments", None),
        (grove.GROUP, "PodClique", "podcliques", _BY_OWNER),
        (grove.GROUP, "PodCliqueScalingGroup", "podcliquescalinggroups", _BY_OWNER),
        (grove.GROUP, "PodCliqueSet", "podcliquesets", _GANG),
        (grove.GROUP, "PodGangSet", "podgangsets", _GANG),
        ("kubevirt.io", "VirtualMachineInstance", "virtualmachineinstances", _BY_OWNER),
        ("machinelearning.seldon.io", "SeldonDeployment", "seldondeployments", _BY_OWNER),
        ("tekton.dev", "PipelineRun", "pipelineruns", _BY_OWNER),
        ("tekton.dev", "TaskRun", "taskruns", _BY_OWNER),
        ("workspace.devfile.io", "DevWorkspace", "devworkspaces", _BY_OWNER),
    )
)
"""The kinds that are known here. Pods of all others are grouped by their top owner."""


def default_registry() -> GrouperRegistry:
    """The groupers of the table and of installed distributions; ``ConfigError`` for one that is broken."""
    from importlib.metadata import entry_points  # slow to load

    rows = list(KNOWN)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        where = f"entry point {point.name} of {ENTRY_POINTS}"
        try:
            brought = list(point.load()())
        except Exception as error:
            raise ConfigError(f"{where} cannot be loaded: {error}") from error
        for row in brought:
            if not isinstance(row, Known):
                raise ConfigError(f"{where} gives {row!r}: it must give rows of type Known")
        rows += brought
    return GrouperRegistry(rows, otherwise=_BY_OWNER)
