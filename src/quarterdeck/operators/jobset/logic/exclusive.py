"""Exclusive placement: each Job of a set has a domain of a topology (a rack, a node pool) to itself.

The pod with completion index 0 leads: affinity and anti-affinity find it a domain that no other Job is in.
The others follow it by a node selector, and only once it has a node. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from quarterdeck.api import LabelSelector, Time
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.api.k8s.placement import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity
from quarterdeck.api.k8s.pod import PodCondition
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.operators.jobset.types import names

_COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_ENDED: Final = ("Failed", "Succeeded")
TRANSIENT: Final = "this is an expected, transient error"


def is_leader(pod: Pod) -> bool:
    """Whether a pod has completion index 0."""
    return pod.metadata.annotations.get(_COMPLETION_INDEX) == "0"


def is_placed_exclusively(pod: Pod) -> bool:
    """Whether a pod of a JobSet is placed by affinity; the node selector strategy needs nothing more."""
    annotations = pod.metadata.annotations
    return (
        names.JOBSET_NAME in annotations
        and names.EXCLUSIVE_TOPOLOGY in annotations
        and names.NODE_SELECTOR_STRATEGY not in annotations
    )


def with_priority_label(pod: Pod) -> Pod:
    """The pod with its priority as a label: exclusive is a Job only among those of its own priority."""
    annotations = pod.metadata.annotations
    if names.JOBSET_NAME not in annotations or names.NODE_SELECTOR_STRATEGY in annotations:
        return pod
    if not isinstance(pod.spec.priority, int):
        return pod
    labels = {**pod.metadata.labels, names.PRIORITY: str(pod.spec.priority)}
    return pod.evolve(metadata=pod.metadata.evolve(labels=labels))


def with_leader_affinity(pod: Pod) -> Pod:
    """A leader with affinity to its own Job and aversion to all others of its priority."""
    labels, topology = pod.metadata.labels, pod.metadata.annotations[names.EXCLUSIVE_TOPOLOGY]
    own = (labels.get(names.JOB_KEY, ""),)

    def term(*requirements: LabelSelectorRequirement) -> PodAffinityTerm:
        return PodAffinityTerm(
            label_selector=LabelSelector(match_expressions=requirements),
            topology_key=topology,
            namespace_selector=LabelSelector(),
        )

    together = term(LabelSelectorRequirement(key=names.JOB_KEY, operator="In", values=own))
    apart = term(
        LabelSelectorRequirement(key=names.JOB_KEY, operator="Exists"),
        LabelSelectorRequirement(key=names.JOB_KEY, operator="NotIn", values=own),
        LabelSelectorRequirement(key=names.PRIORITY, operator="In", values=(labels.get(names.PRIORITY, ""),)),
    )
    affinity = pod.spec.affinity or Affinity()
    attraction = affinity.pod_affinity or PodAffinity()
    aversion = affinity.pod_anti_affinity or PodAntiAffinity()
    required = "required_during_scheduling_ignored_during_execution"
    affinity = affinity.evolve(
        pod_affinity=attraction.evolve(**{required: (*getattr(attraction, required), together)}),
        pod_anti_affinity=aversion.evolve(**{required: (*getattr(aversion, required), apart)}),
    )
    return pod.evolve(spec=pod.spec.evolve(affinity=affinity))


def leader_labels(follower: Pod) -> Mapping[str, str]:
    """What the leader of a pod is found by."""
    key = follower.metadata.labels.get(names.JOB_KEY, "")
    return {names.JOB_KEY: key, _COMPLETION_INDEX: "0"}


def leader_among(pods: Iterable[Pod], follower: Pod) -> Pod | str:
    """The one leader that lives, or why there is none."""
    found = [pod for pod in pods if not pod.metadata.is_deleting and pod.status.phase not in _ENDED]
    if len(found) != 1:
        labels = follower.metadata.labels
        parts = (names.JOBSET_NAME, names.REPLICATED_JOB_NAME, names.JOB_INDEX)
        name = "-".join((*(labels.get(part, "") for part in parts), "0"))
        return f"expected 1 leader pod ({name}), but got {len(found)}. {TRANSIENT}"
    leader = found[0]
    own, other = _controller_uid(follower), _controller_uid(leader)
    if not own:
        return "follower pod has no owner reference"
    if not other:
        return f'leader pod "{leader.metadata.name}" has no owner reference'
    if own != other:
        return f"follower pod owner UID ({own}) != leader pod owner UID ({other})"
    return leader


def _controller_uid(pod: Pod) -> str:
    return next((each.uid for each in pod.metadata.owner_references if each.controller is True), "")


def follower_of(pod: Pod, node: Node) -> Pod | str:
    """A follower that goes where its leader's node is, or why it cannot."""
    topology = pod.metadata.annotations[names.EXCLUSIVE_TOPOLOGY]
    domain = node.metadata.labels.get(topology)
    if domain is None:
        return f"node does not have topology label: {topology}"
    selector = {**pod.spec.node_selector, topology: domain}
    return pod.evolve(spec=pod.spec.evolve(node_selector=selector))


def admission_problem(pod: Pod) -> str:
    """What is wrong with a follower before its leader is looked at; "" when nothing is."""
    topology = pod.metadata.annotations[names.EXCLUSIVE_TOPOLOGY]
    if not pod.spec.node_selector:
        return "follower pod node selector not set"
    if topology not in pod.spec.node_selector:
        return f"follower pod node selector for topology domain not found. missing selector: {topology}"
    return ""


def misplaced(leader: Pod, domain: str, pods: Iterable[Pod]) -> bool:
    """Whether a follower was sent to another domain than its leader is in."""
    topology = leader.metadata.annotations[names.EXCLUSIVE_TOPOLOGY]
    return any(pod.spec.node_selector.get(topology) != domain for pod in pods if not is_leader(pod))


def disrupted(pod: Pod, now: Time) -> Pod:
    """A follower that is to go, marked so that a Job's failure policy can tell."""
    if any(each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions):
        return pod
    mark = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason="ExclusivePlacementViolation",
        message="Pod violated JobSet exclusive placement policy",
        last_transition_time=now,
    )
    others = [each for each in pod.status.conditions if each.type != "DisruptionTarget"]
    return pod.evolve(status=pod.status.evolve(conditions=(*others, mark)))
