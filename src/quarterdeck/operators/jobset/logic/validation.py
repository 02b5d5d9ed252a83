"""What admission refuses about a JobSet, in the words of the project it follows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from quarterdeck.api import UnsetType, value_or
from quarterdeck.api.k8s.pod import PodSpec
from quarterdeck.api.label import check_dns1035_label, check_dns1123_subdomain, check_label_value
from quarterdeck.operators.jobset.logic.child import claim_name, coordinator_endpoint, job_name, replicas_of
from quarterdeck.operators.jobset.logic.failure import compile_pattern
from quarterdeck.operators.jobset.types import FailurePolicyRule, JobSet, ReplicatedJob, names

_LONGEST_LABEL: Final = 63
_LONGEST_CLAIM: Final = 253
_LARGEST: Final = 2**31 - 1
_LONGEST_RULE_NAME: Final = 128
_RULE_NAME: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_FAILURE_REASONS: Final = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_HTTP_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


class Problem(NamedTuple):
    """One thing that is wrong."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


def _invalid(field: str, value: object, why: str) -> Problem:
    return Problem(f'Invalid value: "{value}": {why}', field)


def creation_problems(jobset: JobSet) -> list[Problem]:
    """What is wrong about a new JobSet, defaults filled in."""
    return [
        *_strategy(jobset),
        *_subdomain(jobset),
        *_manager(jobset),
        *_jobs(jobset),
        *_targets(jobset),
        *_coordinator(jobset),
        *_claims(jobset),
    ]


def _strategy(jobset: JobSet) -> Iterator[Problem]:
    policy = jobset.spec.failure_policy
    if policy and policy.restart_strategy == names.IN_PLACE_RESTART:
        text = "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled"
        yield Problem(text)
    if jobset.spec.replicated_jobs and jobset.spec.replicated_jobs[0].depends_on:
        yield Problem("DependsOn can't be set for the first ReplicatedJob")


def _subdomain(jobset: JobSet) -> Iterator[Problem]:
    subdomain = jobset.spec.network.subdomain if jobset.spec.network else ""
    if not subdomain:
        return
    field = "spec.network.subdomain"
    for why in check_dns1123_subdomain(subdomain):
        yield _invalid(field, subdomain, why)
    too_long = ".spec.network.subdomain is too long, must be less than 63 characters"
    for why in _label_problems(subdomain, too_long):
        yield _invalid(field, subdomain, why)


def _label_problems(text: str, too_long: str) -> Iterator[str]:
    """What is wrong about a name of a Service, Job or pod."""
    for why in check_dns1035_label(text):
        yield too_long if why.startswith("must be no more than") else why


def _manager(jobset: JobSet) -> Iterator[Problem]:
    manager = jobset.spec.managed_by
    if isinstance(manager, UnsetType):
        return
    domain, slash, path = manager.partition("/")
    if not domain or not slash or not path:
        yield _invalid("spec.managedBy", manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for why in check_dns1123_subdomain(domain):
            yield _invalid("spec.managedBy", manager, why)
        if not _HTTP_PATH.fullmatch(path):
            text = "Invalid path"
            yield _invalid("spec.managedBy", manager, text)
    if len(manager) > _LONGEST_LABEL:
        yield Problem(f"Too long: may not be more than {_LONGEST_LABEL} bytes", "spec.managedBy")


def _jobs(jobset: JobSet) -> Iterator[Problem]:
    earlier: set[str] = set()
    for place, job in enumerate(jobset.spec.replicated_jobs):
        field = f"spec.replicatedJobs[{place}]"
        yield from _sizes(jobset, job, field)
        for each in job.depends_on:
            if each.name not in earlier:
                yield Problem(f"replicatedJob: {job.name} cannot depend on replicatedJob: {each.name}")
        earlier.add(job.name)


def _sizes(jobset: JobSet, job: ReplicatedJob, field: str) -> Iterator[Problem]:
    spec = job.template.spec
    if value_or(spec.parallelism, 1) * replicas_of(job) > _LARGEST:
        yield Problem(
            f"the product of replicas and parallelism must not exceed {_LARGEST} for replicatedJob "
            f"'{job.name}'"
        )
    if job.group_name:
        for why in _label_problems(job.group_name, "group name is too long, must be less than 63 characters"):
            yield _invalid(f"{field}.groupName", job.group_name, why)
    if not jobset.metadata.name:
        return  # the server makes one up later
    longest = job_name(jobset, job, max(replicas_of(job) - 1, 0))
    text = "JobSet name is too long, job names generated for this JobSet will exceed 63 characters"
    for why in _label_problems(longest, text):
        yield _invalid(f"{field}.name", longest, why)
    if spec.completion_mode == "Indexed" and spec.completions:
        pod = f"{longest}-{spec.completions - 1}-abcde"
        text = "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters"
        for why in _label_problems(pod, text):
            yield _invalid(f"{field}.name", longest, why)


def _targets(jobset: JobSet) -> Iterator[Problem]:
    known = {job.name for job in jobset.spec.replicated_jobs}
    for name in jobset.spec.success_policy.target_replicated_jobs if jobset.spec.success_policy else ():
        if name not in known:
            yield Problem(f"invalid replicatedJob name '{name}' does not appear in .spec.ReplicatedJobs")
    policy = jobset.spec.failure_policy
    if not policy:
        return
    places: dict[str, list[int]] = defaultdict(list)
    for place, rule in enumerate(policy.rules):
        places[rule.name].append(place)
        yield from _rule(rule, known)
    for name, several in places.items():
        if len(several) > 1:
            indices = " ".join(map(str, several))
            yield Problem(
                f"rule names are not unique, rules with indices [{indices}] all have the same name '{name}'"
            )


def _rule(rule: FailurePolicyRule, known: set[str]) -> Iterator[Problem]:
    if not 1 <= len(rule.name) <= _LONGEST_RULE_NAME:
        yield Problem(
            f"invalid failure policy rule name of length {len(rule.name)}, the rule name must be at least 1 "
            f"characters long and at most {_LONGEST_RULE_NAME} characters long"
        )
    if not _RULE_NAME.fullmatch(rule.name):
        yield Problem(
            f"invalid failure policy rule name '{rule.name}', a failure policy rule name must start with an "
            "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and "
            "must end with an alphanumeric character or '_'"
        )
    for name in rule.target_replicated_jobs:
        if name not in known:
            yield Problem(
                f"invalid replicatedJob name '{name}' in failure policy does not appear in "
                ".spec.ReplicatedJobs"
            )
    for reason in rule.on_job_failure_reasons:
        if reason not in _FAILURE_REASONS:
            yield Problem(
                f"invalid job failure reason '{reason}' in failure policy is not a recognized job failure "
                "reason"
            )
    for pattern in rule.on_job_failure_message_patterns:
        if compile_pattern(pattern) is None:
            yield Problem(f"invalid job failure message pattern '{pattern}' in failure policy")


def _coordinator(jobset: JobSet) -> Iterator[Problem]:
    wanted = jobset.spec.coordinator
    if not wanted:
        return
    job = next((each for each in jobset.spec.replicated_jobs if each.name == wanted.replicated_job), None)
    job_index, pod_index = value_or(wanted.job_index, 0), value_or(wanted.pod_index, 0)
    if job is None:
        yield Problem(f"coordinator replicatedJob {wanted.replicated_job} does not exist")
    elif not 0 <= job_index < replicas_of(job):
        yield Problem(f"coordinator job index {job_index} is invalid for replicatedJob {job.name}")
    elif job.template.spec.completion_mode != "Indexed" or not job.template.spec.completions:
        yield Problem(
            "job for coordinator pod must be indexed completion mode, and completions number must be set"
        )
    elif not 0 <= pod_index < job.template.spec.completions:
        yield Problem(
            f"coordinator pod index {pod_index} is invalid for replicatedJob {job.name} job index {job_index}"
        )
    label = coordinator_endpoint(jobset)
    for why in check_label_value(label):
        yield Problem(
            f'spec will lead to invalid label value "{label}" for coordinator label "{names.COORDINATOR}" '
            f"(long JobSet / ReplicatedJob / SubDomain name?): {why}"
        )


def _claims(jobset: JobSet) -> Iterator[Problem]:
    known: set[str] = set()
    pods = [job.template.spec.template.spec for job in jobset.spec.replicated_jobs]
    for place, policy in enumerate(jobset.spec.volume_claim_policies):
        for number, template in enumerate(policy.templates):
            name = template.metadata.name
            field = f"spec.volumeClaimPolicies[{place}].template[{number}].name"
            if name in known:
                yield _invalid(field, name, "names must be unique for VolumeClaimPolicies template")
            known.add(name)
            for why in check_dns1123_subdomain(name):
                yield _invalid(field, name, why)
            if len(claim_name(jobset, template)) > _LONGEST_CLAIM:
                yield _invalid(field, name, "VolumeClaimPolicies template name is too long")
            yield from _mounts(pods, name)


def _mounts(pods: Sequence[PodSpec], claim: str) -> Iterator[Problem]:
    for place, pod in enumerate(pods):
        for number, volume in enumerate(pod.volumes):
            if volume.name == claim:
                path = f"spec.replicatedJobs[{place}].template.spec.template.spec.volumes[{number}].name"
                text = f"volume name conflicts with VolumeClaimPolicy template name: {claim}"
                yield _invalid(path, claim, text)
    mounts = (
        mount.name
        for pod in pods
        for container in (*pod.init_containers, *pod.containers)
        for mount in container.volume_mounts
    )
    if claim not in mounts:
        text = f"replicatedJob containers don't have a matching volumeMount: {claim} from VolumeClaimPolicies"
        yield Problem(text, "spec.replicatedJobs")


def update_problems(old: JobSet, new: JobSet) -> list[Problem]:
    """What must not change; a suspended JobSet may be given other places to run."""
    jobs = new.spec.replicated_jobs
    is_suspended = old.spec.suspend is True or new.spec.suspend is True
    if is_suspended and len(jobs) == len(old.spec.replicated_jobs):
        jobs = tuple(map(_with_placement_of, jobs, old.spec.replicated_jobs))
    problems = []
    if jobs != old.spec.replicated_jobs:
        known = [job.name for job in new.spec.replicated_jobs]
        problems.append(_invalid("spec.replicatedJobs", " ".join(known), "field is immutable"))
    if new.spec.managed_by != old.spec.managed_by:
        manager = value_or(new.spec.managed_by, "")
        problems.append(_invalid("spec.managedBy", manager, "field is immutable"))
    return problems


def _with_placement_of(job: ReplicatedJob, old: ReplicatedJob) -> ReplicatedJob:
    template, pod = job.template, job.template.spec.template
    before = old.template.spec.template
    pod = pod.evolve(
        metadata=pod.metadata.evolve(labels=before.metadata.labels, annotations=before.metadata.annotations),
        spec=pod.spec.evolve(
            node_selector=before.spec.node_selector,
            tolerations=before.spec.tolerations,
            scheduling_gates=before.spec.scheduling_gates,
        ),
    )
    return job.evolve(template=template.evolve(spec=template.spec.evolve(template=pod)))
