"""What a JobSet makes: Jobs, a headless Service, volume claims."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from quarterdeck.api import ObjectMeta, set_controller_reference, value_or
from quarterdeck.api.k8s import (
    Job,
    PersistentVolumeClaim,
    PodSpec,
    PodTemplateSpec,
    Service,
    Toleration,
    Volume,
)
from quarterdeck.api.k8s.service import ServiceSpec
from quarterdeck.api.k8s.volume import PersistentVolumeClaimVolumeSource
from quarterdeck.operators.jobset.types import (
    JobSet,
    ReplicatedJob,
    VolumeClaimPolicy,
    VolumeClaimTemplate,
    names,
)

JOB_RESTART_ATTEMPT = "jobset.sigs.k8s.io/job-restart-attempt"
"""Label of Jobs that were restarted on their own: how often."""


def replicas_of(job: ReplicatedJob) -> int:
    """How many Jobs are wanted."""
    return value_or(job.replicas, 1)


def job_name(jobset: JobSet, job: ReplicatedJob, index: int) -> str:
    """The name of a child Job."""
    return f"{jobset.metadata.name}-{job.name}-{index}"


def is_suspended(jobset: JobSet) -> bool:
    """Whether no Job may run."""
    return jobset.spec.suspend is True


def has_hostnames(jobset: JobSet) -> bool:
    """Whether pods have host names in DNS."""
    network = jobset.spec.network
    return bool(network and network.enable_dns_hostnames is True)


def subdomain_of(jobset: JobSet) -> str:
    """The name of the headless Service."""
    return (jobset.spec.network.subdomain if jobset.spec.network else "") or jobset.metadata.name


def coordinator_endpoint(jobset: JobSet) -> str:
    """Where the coordinator pod is found; empty without one."""
    wanted = jobset.spec.coordinator
    if not wanted:
        return ""
    indexes = f"{value_or(wanted.job_index, 0)}-{value_or(wanted.pod_index, 0)}"
    return f"{jobset.metadata.name}-{wanted.replicated_job}-{indexes}.{subdomain_of(jobset)}"


def make_job(jobset: JobSet, job: ReplicatedJob, index: int, *, own_restarts: int = 0) -> Job:
    """A child Job; ``own_restarts`` is how often it was restarted on its own."""
    marks = _marks(jobset, job, index, own_restarts)
    extra = _exclusive_placement(jobset, job)
    template, spec = job.template, job.template.spec
    metadata = ObjectMeta(
        name=job_name(jobset, job, index),
        namespace=jobset.metadata.namespace,
        labels={**template.metadata.labels, **marks},
        annotations={**template.metadata.annotations, **marks, **extra},
    )
    pod = spec.template
    pod = pod.evolve(
        metadata=pod.metadata.evolve(
            labels={**pod.metadata.labels, **marks},
            annotations={**pod.metadata.annotations, **marks, **extra},
        ),
        spec=_pod_spec(jobset, metadata, pod),
    )
    return Job(
        metadata=set_controller_reference(jobset, metadata),
        spec=spec.evolve(template=pod, suspend=is_suspended(jobset)),
    )


def _marks(jobset: JobSet, job: ReplicatedJob, index: int, own_restarts: int) -> dict[str, str]:
    """Labels, and annotations of the same names, of a Job and its pods."""
    jobs = jobset.spec.replicated_jobs
    group = [each for each in jobs if each.group_name == job.group_name]
    name = f"{jobset.metadata.namespace}/{job_name(jobset, job, index)}"
    marks = {
        names.JOBSET_NAME: jobset.metadata.name,
        names.JOBSET_UID: jobset.metadata.uid,
        names.REPLICATED_JOB_NAME: job.name,
        names.RESTART_ATTEMPT: str(value_or(jobset.status.restarts, 0)),
        names.REPLICATED_JOB_REPLICAS: str(replicas_of(job)),
        names.GLOBAL_REPLICAS: str(sum(map(replicas_of, jobs))),
        names.JOB_INDEX: str(index),
        names.JOB_KEY: hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(),
        names.JOB_GLOBAL_INDEX: str(_before(jobs, job) + index),
        names.GROUP_NAME: job.group_name or "default",
        names.GROUP_REPLICAS: str(sum(map(replicas_of, group))),
        names.JOB_GROUP_INDEX: str(_before(group, job) + index),
    }
    if jobset.spec.coordinator:
        marks[names.COORDINATOR] = coordinator_endpoint(jobset)
    if own_restarts:
        marks[JOB_RESTART_ATTEMPT] = str(own_restarts)
    return marks


def _before(jobs: Sequence[ReplicatedJob], job: ReplicatedJob) -> int:
    """How many Jobs come before the first of ``job``."""
    place = next(place for place, each in enumerate(jobs) if each.name == job.name)
    return sum(map(replicas_of, jobs[:place]))


def _exclusive_placement(jobset: JobSet, job: ReplicatedJob) -> dict[str, str]:
    """Annotations about exclusive placement: the job's own win over those of the set."""
    found: dict[str, str] = {}
    sources: tuple[Mapping[str, str], ...] = (jobset.metadata.annotations, job.template.metadata.annotations)
    for source in sources:
        if names.EXCLUSIVE_TOPOLOGY in source:
            wanted = (names.EXCLUSIVE_TOPOLOGY, names.NODE_SELECTOR_STRATEGY)
            found |= {name: source[name] for name in wanted if name in source}
    return found


def _pod_spec(jobset: JobSet, job: ObjectMeta, pod: PodTemplateSpec) -> PodSpec:
    spec = pod.spec
    if has_hostnames(jobset):
        spec = spec.evolve(subdomain=subdomain_of(jobset))
    if {names.EXCLUSIVE_TOPOLOGY, names.NODE_SELECTOR_STRATEGY} <= job.annotations.keys():
        own_nodes = {names.NAMESPACED_JOB: f"{job.namespace}_{job.name}"}
        toleration = Toleration(key=names.NO_SCHEDULE_TAINT, operator="Exists", effect="NoSchedule")
        spec = spec.evolve(
            node_selector={**spec.node_selector, **own_nodes},
            tolerations=(*spec.tolerations, toleration),
        )
    claims = [
        Volume(
            name=template.metadata.name,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(
                claim_name=claim_name(jobset, template)
            ),
        )
        for policy in jobset.spec.volume_claim_policies
        for template in policy.templates
        if _mounts(spec, template.metadata.name)
    ]
    return spec.evolve(volumes=(*spec.volumes, *claims)) if claims else spec


def _mounts(spec: PodSpec, volume: str) -> bool:
    return any(
        mount.name == volume
        for container in (*spec.init_containers, *spec.containers)
        for mount in container.volume_mounts
    )


def make_service(jobset: JobSet) -> Service:
    """The headless Service that gives pods their names."""
    metadata = ObjectMeta(name=subdomain_of(jobset), namespace=jobset.metadata.namespace)
    network = jobset.spec.network
    return Service(
        metadata=set_controller_reference(jobset, metadata),
        spec=ServiceSpec(
            cluster_ip="None",
            selector={names.JOBSET_NAME: jobset.metadata.name},
            publish_not_ready_addresses=value_or(network.publish_not_ready_addresses, True)
            if network
            else True,
        ),
    )


def claim_name(jobset: JobSet, template: VolumeClaimTemplate) -> str:
    """The name of a volume claim that pods share."""
    return f"{template.metadata.name}-{jobset.metadata.name}"


def make_claim(
    jobset: JobSet, policy: VolumeClaimPolicy, template: VolumeClaimTemplate
) -> PersistentVolumeClaim:
    """A volume claim; it goes with the JobSet unless it is to be retained."""
    metadata = ObjectMeta(
        name=claim_name(jobset, template),
        namespace=jobset.metadata.namespace,
        labels={**template.metadata.labels, names.JOBSET_NAME: jobset.metadata.name},
        annotations=template.metadata.annotations,
    )
    retained = policy.retention_policy and policy.retention_policy.when_deleted == names.RETAIN
    return PersistentVolumeClaim(
        metadata=metadata if retained else set_controller_reference(jobset, metadata), spec=template.spec
    )
