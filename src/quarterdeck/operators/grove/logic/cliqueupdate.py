"""The update of one PodClique: its pods are replaced, those that work one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from quarterdeck.api import UNSET, Maybe, Time, UnsetType
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove.types import CliqueUpdate, PodsSelected

from .podstate import is_ready, template_hash

__all__ = ["CliqueStep", "begin_update", "is_updating", "next_step", "noted_update"]


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


def next_step(progress: CliqueUpdate, pods: Sequence[Pod], *, least: int, now: Time) -> CliqueStep:
    """The next step, given all pods of the PodClique, those that terminate included."""
    alive = [pod for pod in pods if not pod.metadata.is_deleting]
    old = [pod for pod in alive if template_hash(pod) != progress.pod_template_hash]
    doomed = [pod for pod in old if not is_ready(pod)]
    selected = progress.ready_pods_selected_to_update
    completed: tuple[str, ...] = () if isinstance(selected, UnsetType) else tuple(selected.completed)
    current = "" if isinstance(selected, UnsetType) else selected.current
    if current:
        # chosen by one who ended before deleting it: nobody else will
        doomed += [pod for pod in old if pod.metadata.name == current and is_ready(pod)]
        replaced = sum(is_ready(pod) and template_hash(pod) == progress.pod_template_hash for pod in alive)
        if any(pod.metadata.name == current for pod in pods) or replaced <= len(completed):
            return CliqueStep(progress, tuple(doomed))
        completed = (*completed, current)
    working = sorted((pod for pod in old if is_ready(pod)), key=_age)
    if not working:
        if doomed:
            return CliqueStep(progress, tuple(doomed))
        return CliqueStep(progress.evolve(update_ended_at=now, ready_pods_selected_to_update=UNSET))
    if sum(map(is_ready, alive)) < least:
        return CliqueStep(progress, tuple(doomed))
    chosen = PodsSelected(current=working[0].metadata.name, completed=completed)
    return CliqueStep(progress.evolve(ready_pods_selected_to_update=chosen), (*doomed, working[0]))


def _age(pod: Pod) -> tuple[str, str]:
    created = pod.metadata.creation_timestamp
    return str(created) if created else "", pod.metadata.name
