"""What PodCliques, groups and sets say about themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quarterdeck.api import Maybe, Time, UnsetType
from quarterdeck.api.condition import is_condition_true
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupStatus,
    PodCliqueSet,
    PodCliqueSetStatus,
    PodCliqueStatus,
    PodGang,
    PodGangStatusSummary,
    TopologyLevel,
)

from . import naming
from .breach import breach_verdict, group_verdict, loss_time, scheduled_verdict, was_ever_scheduled
from .cliqueupdate import is_updating as is_clique_updating
from .groupstate import group_replicas
from .groupupdate import is_updating as is_group_updating
from .label import managed_labels, selector_text
from .membership import min_available_of, standalone_cliques
from .podstate import count_pods, template_hash
from .setupdate import is_clique_updated, is_group_updated
from .topology import constraints_of, topology_name_of, unavailable_domains
from .verdict import Verdict, with_verdicts


def clique_status(
    pclq: PodClique,
    pods: Sequence[Pod],
    *,
    expected_hash: str,
    generation_hash: Maybe[str],
    now: Time,
) -> PodCliqueStatus:
    """The status of a PodClique with these pods; ``expected_hash`` is that of its template in the set."""
    status, labels = pclq.status, pclq.metadata.labels
    count = count_pods(pods)
    alive = [pod for pod in pods if not pod.metadata.is_deleting]
    progress, label = status.update_progress, labels.get(names.TEMPLATE_HASH, "")
    target = label or status.current_pod_template_hash
    if not isinstance(progress, UnsetType):
        target = progress.pod_template_hash
    updated = sum(template_hash(pod) == target for pod in alive)
    is_running_update = is_clique_updating(progress)
    least = min_available_of(pclq.spec.replicas, pclq.spec.min_available)
    scheduled = scheduled_verdict(least, count)
    had_minimum = is_condition_true(status.conditions, names.PODCLIQUE_SCHEDULED)
    is_lost = had_minimum and scheduled.status != "True"
    conditions = with_verdicts(status.conditions, (scheduled,), now=loss_time(pclq, now) if is_lost else now)
    if status.observed_generation:  # before that nobody knows what is missing
        breach = breach_verdict(least, count, is_updating=is_running_update)
        conditions = with_verdicts(conditions, (breach,), now=now)
    after = status.evolve(
        replicas=count.existing,
        ready_replicas=count.ready,
        schedule_gated_replicas=count.gated,
        scheduled_replicas=count.scheduled,
        updated_replicas=updated,
        conditions=conditions,
    )
    if names.SCALING_GROUP not in labels:
        chosen = {**managed_labels(labels.get(names.PART_OF, "")), names.PODCLIQUE: pclq.metadata.name}
        after = after.evolve(hpa_pod_selector=selector_text(chosen))
    is_current = label == expected_hash and all(template_hash(pod) == expected_hash for pod in alive)
    if is_current and not is_running_update and generation_hash:
        after = after.evolve(
            current_pod_template_hash=expected_hash, current_pod_clique_set_generation_hash=generation_hash
        )
    return after


def group_status(
    pcsg: PodCliqueScalingGroup,
    cliques: Iterable[PodClique],
    *,
    generation_hash: Maybe[str],
    now: Time,
) -> PodCliqueScalingGroupStatus:
    """The status of a group with these PodCliques."""
    spec, status = pcsg.spec, pcsg.status
    replicas = group_replicas(cliques, count=spec.replicas, clique_names=spec.clique_names)
    hash = generation_hash or ""
    # After a termination new PodCliques are not in breach before anybody has looked at them. The episode is
    # over when they have nodes again; until then another termination would only begin the wait anew.
    is_terminating = is_condition_true(status.conditions, names.GANG_TERMINATION)
    verdict = group_verdict(
        spec.min_available,
        sum(
            replica.is_complete and not replica.is_breached and (replica.is_scheduled or not is_terminating)
            for replica in replicas
        ),
        is_updating=is_group_updating(status.update_progress),
    )
    over = (names.GANG_TERMINATION,) if verdict.status == "False" else ()
    had_nodes = sum(
        replica.is_complete and all(map(was_ever_scheduled, replica.members)) for replica in replicas
    )
    is_lost = verdict.status == "True" and had_nodes >= spec.min_available
    since = loss_time(pcsg, now) if is_lost else now
    labels = managed_labels(pcsg.metadata.labels.get(names.PART_OF, ""))
    after = status.evolve(
        replicas=spec.replicas,
        scheduled_replicas=sum(replica.is_scheduled for replica in replicas),
        available_replicas=sum(replica.is_available for replica in replicas),
        updated_replicas=sum(
            replica.is_available and bool(hash) and replica.is_converged(hash) for replica in replicas
        ),
        selector=selector_text({**labels, names.SCALING_GROUP: pcsg.metadata.name}),
        conditions=with_verdicts(status.conditions, (verdict,), now=since, without=over),
    )
    if not isinstance(after.update_progress, UnsetType):
        converged = sum(
            pclq.status.current_pod_clique_set_generation_hash == hash
            for replica in replicas
            for pclq in replica.members
        )
        counted = after.update_progress.evolve(
            updated_pod_cliques_count=converged,
            total_pod_cliques_count=spec.replicas * len(spec.clique_names),
        )
        after = after.evolve(update_progress=counted)
    if hash and all(replica.is_converged(hash) for replica in replicas):
        after = after.evolve(current_pod_clique_set_generation_hash=hash)
    return after


def set_status(
    pcs: PodCliqueSet,
    cliques: Mapping[str, PodClique],
    groups: Mapping[str, PodCliqueScalingGroup],
    gangs: Iterable[PodGang],
    hashes: Mapping[str, str],
) -> PodCliqueSetStatus:
    """The status of a set with these children, by name; conditions are not among what is computed here."""
    name, template = pcs.metadata.name, pcs.spec.template
    generation_hash = pcs.status.current_generation_hash or ""
    available = updated = updated_cliques = updated_groups = 0
    standalone = standalone_cliques(template)
    for replica in range(pcs.spec.replicas):
        own_cliques = [
            (clique, cliques.get(naming.standalone_clique(name, replica, clique.name)))
            for clique in standalone
        ]
        own_groups = [
            groups.get(naming.scaling_group(name, replica, group.name))
            for group in template.pod_clique_scaling_groups
        ]
        fresh_cliques = sum(
            pclq is not None
            and is_clique_updated(
                pclq,
                template_hash=hashes[clique.name],
                generation_hash=generation_hash,
            )
            for clique, pclq in own_cliques
        )
        fresh_groups = sum(
            pcsg is not None and is_group_updated(pcsg, generation_hash) for pcsg in own_groups
        )
        is_available = all(_is_clique_available(pclq) for _, pclq in own_cliques) and all(
            map(_is_group_available, own_groups)
        )
        updated_cliques += fresh_cliques
        updated_groups += fresh_groups
        available += is_available
        is_fresh = fresh_cliques == len(own_cliques) and fresh_groups == len(own_groups)
        updated += is_available and is_fresh
    after = pcs.status.evolve(
        replicas=pcs.spec.replicas,
        available_replicas=available,
        updated_replicas=updated,
        hpa_pod_selector=selector_text(managed_labels(name)),
        pod_gang_statuses=tuple(
            PodGangStatusSummary(
                name=gang.metadata.name, phase=gang.status.phase, conditions=gang.status.conditions
            )
            for gang in sorted(gangs, key=lambda gang: gang.metadata.name)
        ),
    )
    if isinstance(after.update_progress, UnsetType):
        return after
    counted = after.update_progress.evolve(
        updated_pod_cliques_count=updated_cliques,
        total_pod_cliques_count=pcs.spec.replicas * len(standalone),
        updated_pod_clique_scaling_groups_count=updated_groups,
        total_pod_clique_scaling_groups_count=pcs.spec.replicas * len(template.pod_clique_scaling_groups),
    )
    return after.evolve(update_progress=counted)


def _is_clique_available(pclq: PodClique | None) -> bool:
    if pclq is None or pclq.metadata.is_deleting:
        return False
    return pclq.status.ready_replicas >= min_available_of(pclq.spec.replicas, pclq.spec.min_available)


def _is_group_available(pcsg: PodCliqueScalingGroup | None) -> bool:
    if pcsg is None or pcsg.metadata.is_deleting:
        return False
    return pcsg.status.available_replicas >= pcsg.spec.min_available


def topology_verdict(
    pcs: PodCliqueSet,
    levels: Sequence[TopologyLevel] | None,
    *,
    is_enabled: bool,
    has_default: bool,
) -> Verdict | None:
    """Whether the topology has what the constraints ask for; nothing if the condition is to be removed.

    ``levels`` are those of the set's topology, nothing if it does not exist.
    """
    type, template = names.TOPOLOGY_LEVELS_UNAVAILABLE, pcs.spec.template
    has_constraints = bool(constraints_of(template))
    if not is_enabled:
        if not has_constraints:
            return None
        text = "Topology aware scheduling is disabled"
        return Verdict(type, "Unknown", "TopologyAwareSchedulingDisabled", text)
    available = "AllClusterTopologyLevelsAvailable"
    if not has_constraints:
        return Verdict(type, "False", available, "No topology constraints defined")
    if not topology_name_of(template, has_default=has_default):
        return Verdict(type, "Unknown", "TopologyNameMissing", "Topology constraints name no topology")
    if levels is None:
        text = "ClusterTopologyBinding resource not found"
        return Verdict(type, "Unknown", "ClusterTopologyNotFound", text)
    missing = unavailable_domains(template, levels)
    if missing:
        text = f"Unavailable topology domains: [{' '.join(missing)}]"
        return Verdict(type, "True", "ClusterTopologyLevelsUnavailable", text)
    return Verdict(type, "False", available, "All topology levels are available")
