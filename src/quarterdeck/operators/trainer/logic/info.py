"""A TrainJob merged with its runtime: what the plugins look at and complete.

An ``Info`` works on private documents. ``merged_info`` starts from the runtime's template; ``running_info``
from a JobSet that runs already, whose children must follow what runs and not what the TrainJob has become.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from quarterdeck.api import Quantity, to_dict
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import ResourceRequirements
from quarterdeck.api.quota import pod_requests
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.types import (
    AnyRuntime,
    MLPolicy,
    PodGroupPolicy,
    Trainer,
    TrainJob,
    TrainJobSpec,
)

from .override import merge_overrides, patched_metadata
from .systemenv import EnvOwner
from .template import (
    any_container_of,
    container_of,
    job_labels,
    job_spec,
    pod_spec,
    replicated_jobs,
    subdomain_of,
)

_NO_SPEC: Final = TrainJobSpec()
_NO_TRAINER: Final = Trainer()


def spec_of(job: TrainJob) -> TrainJobSpec:
    """The spec of a TrainJob, which the schema lets be absent."""
    return job.spec or _NO_SPEC


def trainer_of(job: TrainJob) -> Trainer:
    """What a TrainJob says about its trainer; nothing at all if it does not."""
    return spec_of(job).trainer or _NO_TRAINER


class PodSet:
    """The pods of one replicated job: a view of the template, and how many there are of each replica."""

    __slots__ = ("count", "endpoints", "job")

    def __init__(self, job: Json, count: int) -> None:
        self.job: Final = job
        """The replicated job."""
        self.count = count
        self.endpoints: list[str] = []
        """DNS names of the pods; known after the extension point PodNetwork."""

    @property
    def name(self) -> str:
        """Name of the replicated job."""
        name: str = self.job.get("name", "")
        return name

    @property
    def replicas(self) -> int:
        """Jobs of these pods; what a step of the TrainJob configures has one."""
        return 1 if self.ancestor in names.STEPS else self.job.get("replicas", 1)

    @property
    def ancestor(self) -> str:
        """The step of the TrainJob that configures it; empty if none does."""
        ancestor: str = job_labels(self.job).get(names.ANCESTOR_LABEL, "")
        return ancestor

    def container(self, name: str) -> Json | None:
        """A container; init containers do not count."""
        return container_of(self.job, name)

    def any_container(self, name: str) -> Json | None:
        """A container or else an init container."""
        return any_container_of(self.job, name)

    @property
    def requests(self) -> Mapping[str, Quantity]:
        """What one pod requests."""
        return pod_requests({"spec": pod_spec(self.job)})


class Info:
    """Everything the plugins know; mutable, of one rendering."""

    __slots__ = (
        "annotations",
        "command",
        "containers",
        "env_owner",
        "has_arguments",
        "job_name",
        "labels",
        "ml_policy",
        "pod_annotations",
        "pod_group_policy",
        "pod_labels",
        "pod_sets",
        "processes",
        "record",
        "runtime_command",
        "runtime_resources",
        "template",
    )

    def __init__(
        self,
        job_name: str,
        template: Json,
        *,
        ml_policy: MLPolicy | None,
        pod_group_policy: PodGroupPolicy | None,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
    ) -> None:
        self.job_name: Final = job_name
        self.template: Final = template
        """The JobSetSpec to be."""
        self.ml_policy: Final = ml_policy if ml_policy is not None else MLPolicy()
        self.pod_group_policy: Final = pod_group_policy if pod_group_policy is not None else PodGroupPolicy()
        self.labels: Final = dict(labels)
        """Labels of the JobSet."""
        self.annotations: Final = dict(annotations)
        """Annotations of the JobSet."""
        self.pod_labels: Final[dict[str, str]] = {}
        """Labels that the scheduler wants on every pod."""
        self.pod_annotations: Final[dict[str, str]] = {}
        self.containers: Final[dict[str, frozenset[str]]] = {
            job.get("name", ""): frozenset(_container_names(job)) for job in replicated_jobs(template)
        }
        """Names of all containers of the runtime, by replicated job, before overrides."""
        node = _node_container(template)
        self.runtime_command: Final[Sequence[str]] = tuple(node.get("command") or ())
        self.runtime_resources: Final[Json] = node.get("resources") or {}
        self.pod_sets: list[PodSet] = []
        self.processes = ""
        """Processes on each node, as the ML policy counts them; empty if it does not."""
        self.record: dict[str, str] = {}
        """What the objects are rendered with, for those who compare them later."""
        self.env_owner: EnvOwner | None = None
        """The plugin that sets the system's variables."""
        self.command: Sequence[str] = ()
        """What the trainer runs instead of the TrainJob's command; empty leaves that alone."""
        self.has_arguments = True
        """Whether the trainer has arguments beside its command."""

    @property
    def subdomain(self) -> str:
        """The subdomain of all pods."""
        return subdomain_of(self.template, self.job_name)

    @property
    def is_launcher_node(self) -> bool:
        """Whether MPI trains on its launcher, too: then nodes are configured as the trainer is."""
        mpi = self.ml_policy.mpi
        return bool(mpi and mpi.run_launcher_as_node)

    def pod_set(self, name: str) -> PodSet | None:
        """The pods of a replicated job."""
        return next((each for each in self.pod_sets if each.name == name), None)

    def trainers(self) -> list[PodSet]:
        """The pods that the trainer of a TrainJob configures."""
        return [
            each
            for each in self.pod_sets
            if each.ancestor == names.TRAINER or (self.is_launcher_node and each.name == names.NODE)
        ]

    def ancestor(self, step: str) -> PodSet | None:
        """The first pods that a step of the TrainJob configures."""
        return next((each for each in self.pod_sets if each.ancestor == step), None)


def merged_info(job: TrainJob, runtime: AnyRuntime, *, reserved: Collection[str]) -> Info:
    """The runtime's template with the overrides of a TrainJob, ``reserved`` variables left out of them."""
    spec = spec_of(job)
    wanted = runtime.spec or None
    source = wanted.template if wanted is not None else None
    labels, annotations = patched_metadata(spec)
    head = source.metadata if source else None
    info = Info(
        job.metadata.name,
        to_dict(source.spec) if source else {},
        ml_policy=(wanted.ml_policy or None) if wanted is not None else None,
        pod_group_policy=(wanted.pod_group_policy or None) if wanted is not None else None,
        labels={**(head.labels if head else {}), **spec.labels, **labels},
        annotations={**(head.annotations if head else {}), **spec.annotations, **annotations},
    )
    merge_overrides(info.template, spec, reserved=reserved)
    has_policy = wanted is not None and bool(wanted.ml_policy)
    for replicated in replicated_jobs(info.template):
        pods = PodSet(replicated, job_spec(replicated).get("parallelism", 1))
        if has_policy and pods.ancestor == names.TRAINER:
            pods.count = info.ml_policy.num_nodes or 1
        pods.count = max(pods.count, 1)
        info.pod_sets.append(pods)
    _add_resources(info, job)
    return info


def _add_resources(info: Info, job: TrainJob) -> None:
    """Give the trainer its resources: here, because gang schedulers count them."""
    wanted = trainer_of(job).resources_per_node
    for pods in info.trainers() if wanted else ():
        container = pods.container(names.NODE)
        if container is not None:
            container["resources"] = merge_resources(container.get("resources") or {}, to_dict(wanted))


def running_info(job: TrainJob, runtime: AnyRuntime, jobset: JobSet, record: Mapping[str, str]) -> Info:
    """The same as a JobSet has it that runs, with what was noted about it."""
    policy = runtime.spec or None
    info = Info(
        job.metadata.name,
        to_dict(jobset.spec),
        ml_policy=(policy.ml_policy or None) if policy is not None else None,
        pod_group_policy=(policy.pod_group_policy or None) if policy is not None else None,
        labels=jobset.metadata.labels,
        annotations=jobset.metadata.annotations,
    )
    info.record = dict(record)
    info.processes = record.get(names.PROCESSES_PER_NODE, "")
    info.pod_sets = [
        PodSet(replicated, job_spec(replicated).get("parallelism", 1))
        for replicated in replicated_jobs(info.template)
    ]
    return info


def merge_resources(known: Json, wanted: Json) -> Json:
    """Resources of a container with those of a TrainJob laid over, name by name.

    >>> merge_resources({"requests": {"cpu": "1", "memory": "1Gi"}}, {"requests": {"cpu": "4"}})
    {'requests': {'cpu': '4', 'memory': '1Gi'}}
    """
    merged = dict(known)
    for key in ("limits", "requests"):
        if wanted.get(key):
            merged[key] = {**(known.get(key) or {}), **wanted[key]}
    if wanted.get("claims"):
        claims = {each.get("name"): each for each in known.get("claims") or ()}
        claims.update({each.get("name"): each for each in wanted["claims"]})
        merged["claims"] = list(claims.values())
    return merged


def _container_names(job: Json) -> list[str]:
    spec = pod_spec(job)
    return [each.get("name", "") for key in ("containers", "initContainers") for each in spec.get(key) or ()]


def _node_container(template: Json) -> Json:
    """The trainer's container: of the first job that has it and is named ``node`` or the trainer's."""
    for job in replicated_jobs(template):
        if job.get("name") == names.NODE or job_labels(job).get(names.ANCESTOR_LABEL) == names.TRAINER:
            container = container_of(job, names.NODE)
            if container is not None:
                return container
    return {}


def resources_of(info: Info, job: TrainJob) -> ResourceRequirements:
    """What one node has: as the TrainJob says, else as the runtime does."""
    return trainer_of(job).resources_per_node or ResourceRequirements(
        limits=_quantities(info.runtime_resources.get("limits")),
        requests=_quantities(info.runtime_resources.get("requests")),
    )


def _quantities(values: Json | None) -> dict[str, Quantity]:
    return {name: Quantity(value) for name, value in (values or {}).items()}
