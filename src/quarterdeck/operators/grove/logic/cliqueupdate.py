"""The update of one PodClique: its pods are replaced, those that work one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quarterdeck.api import UNSET, Maybe, Time, UnsetType
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove.types import CliqueUpdate, PodsSelected

from .podstate import is_ready, template_hash


def is_updating(progress: Maybe[CliqueUpdate]) -> bool:
    """Whether an update is under way."""
    return not isinstance(progress, UnsetType) and isinstance(progress.update_ended_at, UnsetType)


def begin_update(generation_hash: str, template: str, now: Time) -> CliqueUpdate:
    """An update that begins."""
    return CliqueUpdate(
        update_started_at=now, pod_clique_set_generation_hash=generation_hash, pod_template_hash=template
    )


def noted_update(generation_hash: str, template: str, now: Time) -> CliqueUpdate:
    """An update that leaves pods alone: it has ended when it begins."""
    return begin_update(generation_hash, template, now).evolve(update_ended_at=now)


class CliqueStep(msgspec.Struct, frozen=True):
    """What an update does next."""

    progress: CliqueUpdate
    doomed: tuple[Pod, ...] = ()


def is_due(progress: Maybe[CliqueUpdate], pods: Sequence[Pod], generation_hash: str, template: str) -> bool:
    """Whether an update has to begin, given what came of the last one, all pods, and the present hashes.

    One that has ended says nothing of pods that were made since, while another template was wanted.
    """
    if is_updating(progress):
        # Under way for a template that was taken back it would go on for ever: nobody makes such pods.
        return not is_noted(progress, generation_hash, template)
    return any(template_hash(pod) != template for pod in pods if not pod.metadata.is_deleting)


def is_noted(progress: Maybe[CliqueUpdate], generation_hash: str, template: str) -> bool:
    """Whether the last update was one to these hashes."""
    if isinstance(progress, UnsetType):
        return False
    return (progress.pod_clique_set_generation_hash, progress.pod_template_hash) == (
        generation_hash,
        template,
    )


def next_step(
    progress: CliqueUpdate, pods: Sequence[Pod], *, replicas: int, least: int, now: Time
) -> CliqueStep:
    """The next step, given all pods of the PodClique, those that terminate included.

    ``replicas`` is how many there should be, ``least`` how many must work for one of them to be taken.
    """
    alive = [pod for pod in pods if not pod.metadata.is_deleting]
    old = [pod for pod in alive if template_hash(pod) != progress.pod_template_hash]
    new = [pod for pod in alive if template_hash(pod) == progress.pod_template_hash]
    doomed = [pod for pod in old if not is_ready(pod)]
    is_enough = sum(map(is_ready, alive)) >= min(least, replicas)
    selected = progress.ready_pods_selected_to_update
    completed: tuple[str, ...] = () if isinstance(selected, UnsetType) else tuple(selected.completed)
    current = "" if isinstance(selected, UnsetType) else selected.current
    if current:
        chosen = [pod for pod in old if pod.metadata.name == current and is_ready(pod)]
        if chosen:
            # chosen by one who ended before deleting it: nobody else will
            return CliqueStep(progress, (*doomed, *(chosen if is_enough else ())))
        replaced = sum(map(is_ready, new))
        # Whoever scales in may leave nothing to wait for: then no pod is missing, and no new one not ready.
        is_coming = len(alive) < replicas or replaced < len(new)
        if is_coming and replaced <= len(completed):
            return CliqueStep(progress, tuple(doomed))
        # As many as there are: those that were scaled away must not be waited for later.
        completed = (*completed, current)[-replaced:] if replaced else ()
    working = sorted((pod for pod in old if is_ready(pod)), key=_age)
    if not working:
        if doomed:
            return CliqueStep(progress, tuple(doomed))
        return CliqueStep(progress.evolve(update_ended_at=now, ready_pods_selected_to_update=UNSET))
    if not is_enough:
        return CliqueStep(progress, tuple(doomed))
    selection = PodsSelected(current=working[0].metadata.name, completed=completed)
    return CliqueStep(progress.evolve(ready_pods_selected_to_update=selection), (*doomed, working[0]))


def _age(pod: Pod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return str(created) if created else "", pod.metadata.name
