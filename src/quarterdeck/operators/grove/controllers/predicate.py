"""Which changes wake which controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.membership import min_available_of
from quarterdeck.operators.grove.logic.podstate import has_failed, has_our_gate, is_ready
from quarterdeck.operators.grove.types import PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.predicate import Predicate, label_matches


def _no(event: ObjectEvent[Any]) -> bool:
    return False


def _facts_changed(facts: Callable[[Any], object]) -> Callable[[ObjectEvent[Any]], bool]:
    return lambda event: facts(event.old_object) != facts(event.object)


IS_MANAGED: Final = label_matches({names.MANAGED_BY: names.OPERATOR})
"""Made by this operator."""

NEWS: Final = 0.1
"""Seconds for which changes are gathered that are told about, and little else."""


def _child_facts(child: Any) -> object:
    """What others may change of a child that is not its status."""
    metadata = child.metadata
    body = tuple(getattr(child, field, None) for field in _BODY)
    return (
        metadata.is_deleting,
        metadata.generation,
        metadata.labels,
        metadata.owner_references,
        body,
    )


_BODY: Final = ("spec", "rules", "subjects", "role_ref", "automount_service_account_token")
IS_TOUCHED: Final = Predicate("is_touched", create=_no, update=_facts_changed(_child_facts), generic=_no)
"""Deleted, or edited: a child that is not as it was made."""

IS_NEW: Final = Predicate(
    "is_new", create=lambda event: not event.is_initial, update=_no, delete=_no, generic=_no
)
"""Created just now."""


def _set_facts(pcs: PodCliqueSet) -> object:
    metadata = pcs.metadata
    trigger = metadata.annotations.get(names.RECONCILE_TRIGGER)
    return metadata.generation, metadata.is_deleting, trigger, metadata.labels, _other_annotations(pcs)


def _other_annotations(pcs: PodCliqueSet) -> dict[str, str]:
    """Annotations that gangs mirror."""
    return {key: value for key, value in pcs.metadata.annotations.items() if not key.startswith(names.PREFIX)}


SET_MATTERS: Final = Predicate("set_matters", update=_facts_changed(_set_facts))
"""A set was changed, its trigger pulled, or what its gangs mirror of it."""


def _set_update_facts(pcs: PodCliqueSet) -> object:
    progress = pcs.status.update_progress
    updating = progress.currently_updating if progress else ()
    ended = progress.update_ended_at if progress else None
    return (
        pcs.metadata.generation,
        pcs.status.current_generation_hash,
        tuple(each.replica_index for each in updating),
        bool(ended),
    )


SET_UPDATES: Final = Predicate("set_updates", create=_no, update=_facts_changed(_set_update_facts))
"""The update of a set moved on."""


def _breach(conditions: Any) -> str:
    return _status(conditions, names.MIN_AVAILABLE_BREACHED)


def _status(conditions: Any, type: str) -> str:
    found = find_condition(conditions, type)
    return found.status if found is not None else ""


def _clique_facts(pclq: PodClique) -> object:
    status = pclq.status
    return (
        pclq.metadata.generation,
        pclq.metadata.is_deleting,
        pclq.metadata.labels,
        pclq.metadata.owner_references,
        status.replicas,
        status.ready_replicas,
        status.scheduled_replicas,
        status.updated_replicas,
        status.schedule_gated_replicas,
        status.current_pod_template_hash,
        status.current_pod_clique_set_generation_hash,
        status.update_progress,
        _breach(status.conditions),
    )


CLIQUE_MATTERS_TO_SET: Final = Predicate(
    "clique_matters_to_set", create=_no, update=_facts_changed(_clique_facts)
)
"""A PodClique changed what its set looks at, or is gone."""


def _member_facts(pclq: PodClique) -> object:
    """What the status and the update of a group are made of: minimums, not numbers."""
    status, least = pclq.status, min_available_of(pclq.spec.replicas, pclq.spec.min_available)
    return (
        pclq.metadata.generation,
        pclq.metadata.is_deleting,
        pclq.metadata.labels,
        pclq.metadata.owner_references,
        status.ready_replicas >= least,
        status.scheduled_replicas >= least,
        status.current_pod_clique_set_generation_hash,
        _status(status.conditions, names.PODCLIQUE_SCHEDULED),
        _breach(status.conditions),
    )


CLIQUE_MATTERS_TO_GROUP: Final = Predicate(
    "clique_matters_to_group", create=_no, update=_facts_changed(_member_facts)
)
"""A PodClique changed what its scaling group looks at, or is gone."""


def _group_clique_facts(pclq: PodClique) -> object:
    """What changes when a pod comes or goes that the gang has to name before its gate is lifted, and with
    the template, whose arrival ends an update that leaves pods alone."""
    status = pclq.status
    return (
        pclq.metadata.is_deleting,
        pclq.metadata.labels.get(names.TEMPLATE_HASH),
        status.replicas,
        status.schedule_gated_replicas,
    )


GROUP_CLIQUE_MATTERS_TO_SET: Final = Predicate(
    "group_clique_matters_to_set", create=_no, update=_facts_changed(_group_clique_facts)
)
"""A PodClique of a scaling group has other pods or another template, whatever the group's own facts say."""


def _group_facts(pcsg: PodCliqueScalingGroup) -> object:
    status = pcsg.status
    return (
        pcsg.metadata.generation,
        pcsg.metadata.is_deleting,
        pcsg.metadata.labels,
        pcsg.metadata.owner_references,
        status.available_replicas,
        status.updated_replicas,
        status.current_pod_clique_set_generation_hash,
        status.update_progress,
        _breach(status.conditions),
    )


GROUP_MATTERS_TO_SET: Final = Predicate(
    "group_matters_to_set", create=_no, update=_facts_changed(_group_facts)
)
"""A group changed what its set looks at, or is gone."""


def _whole_gang(gang: PodGang) -> object:
    metadata = gang.metadata
    return metadata.is_deleting, metadata.generation, metadata.labels, metadata.owner_references, gang.status


GANG_MATTERS_TO_SET: Final = Predicate("gang_matters_to_set", update=_facts_changed(_whole_gang))
"""A gang is there, is gone, or is another than it was."""


def _gang_facts(gang: PodGang) -> object:
    found = find_condition(gang.status.conditions, names.INITIALIZED)
    is_initialized = found is not None and found.status == "True"
    return is_initialized, gang.metadata.generation if is_initialized else 0


GANG_MATTERS_TO_CLIQUE: Final = Predicate(
    "gang_matters_to_clique", delete=_no, update=_facts_changed(_gang_facts)
)
"""A gang was initialized, or changed after it was."""


def _is_scheduled(pclq: PodClique) -> object:
    return pclq.status.scheduled_replicas >= min_available_of(pclq.spec.replicas, pclq.spec.min_available)


SCHEDULED_CHANGED: Final = Predicate(
    "scheduled_changed", create=_no, delete=_no, update=_facts_changed(_is_scheduled)
)
"""The minimum of a PodClique has nodes, or no longer has."""

GROUP_MATTERS_TO_CLIQUE: Final = Predicate(
    "group_matters_to_clique",
    create=_no,
    delete=_no,
    update=_facts_changed(
        lambda pcsg: (pcsg.status.current_pod_clique_set_generation_hash, pcsg.status.update_progress)
    ),
)
"""The update of a group moved on."""


def _pod_facts(pod: Pod) -> object:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return (
        pod.metadata.is_deleting,
        pod.metadata.labels,
        pod.metadata.owner_references,
        pod.status.phase,
        is_ready(pod),
        has_failed(pod),
        has_our_gate(pod),
        tuple((each.name, each.started, each.ready) for each in statuses),
        tuple((each.status, each.reason) for each in pod.status.conditions if each.type == "PodScheduled"),
    )


def _is_managed(obj: Any) -> bool:
    return bool(obj.metadata.labels.get(names.MANAGED_BY) == names.OPERATOR)


IS_OR_WAS_MANAGED: Final = IS_MANAGED | Predicate(
    "was_managed", create=_no, update=lambda event: _is_managed(event.old_object), delete=_no, generic=_no
)
"""Made by this operator, though somebody may have taken the label off just now."""

POD_MATTERS: Final = Predicate("pod_matters", update=_facts_changed(_pod_facts))
"""A pod is there, is gone, or changed what its PodClique counts."""
