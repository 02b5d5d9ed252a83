"""The revisions of a DaemonSet: named after the hash of the template that its pods carry as a label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from quarterdeck.api import ObjectMeta, Selector, from_dict, owner_reference, value_or
from quarterdeck.api.frozen import thaw
from quarterdeck.api.k8s import ControllerRevision, DaemonSet, PodTemplateSpec
from quarterdeck.client import MergePatch
from quarterdeck.cluster.podset.podview import PodView
from quarterdeck.cluster.podset.revision import REVISION_LABEL, list_revisions, revision_data, template_of
from quarterdeck.cluster.podset.templatehash import template_hash
from quarterdeck.errors import AlreadyExists, ForeignObject, ReconcileError, ignore_not_found
from quarterdeck.runtime.reconcile.context import Context


class History(NamedTuple):
    """What is known of the templates of a DaemonSet."""

    digest: str
    """The hash of the newest, which its pods carry."""
    old: Sequence[ControllerRevision]


async def sync_history(
    ctx: Context[DaemonSet], template: Mapping[str, Any], selector: Selector, pods: Sequence[PodView]
) -> History:
    """Find or make the revision of the template, given as the server writes it."""
    data = revision_data(template)
    decoded = from_dict(template, PodTemplateSpec)
    current: list[ControllerRevision] = []
    old: list[ControllerRevision] = []
    for each in await list_revisions(ctx, selector):
        found = each
        if REVISION_LABEL not in found.metadata.labels:
            labels = {**found.metadata.labels, REVISION_LABEL: found.metadata.name}
            found = await ctx.update(found.evolve(metadata=found.metadata.evolve(labels=labels)))
        is_same = thaw(found.data or {}) == data or template_of(found) == decoded
        (current if is_same else old).append(found)
    number = max((value_or(each.revision, 0) for each in old), default=0) + 1
    if not current:
        newest = await _create(ctx, data, decoded, number)
    else:
        newest = await _only(ctx, current, pods)
        if value_or(newest.revision, 0) < number:
            newest = await ctx.update(newest.evolve(revision=number))
    return History(newest.metadata.labels[REVISION_LABEL], old)


async def _create(
    ctx: Context[DaemonSet], data: dict[str, Any], template: PodTemplateSpec, number: int
) -> ControllerRevision:
    daemon_set = ctx.obj
    count = daemon_set.status.collision_count
    digest = template_hash(template, count if isinstance(count, int) else None)
    wanted = ControllerRevision(
        metadata=ObjectMeta(
            name=f"{daemon_set.metadata.name}-{digest}",
            namespace=daemon_set.metadata.namespace,
            labels={**template.metadata.labels, REVISION_LABEL: digest},
            annotations=daemon_set.metadata.annotations,
            owner_references=(owner_reference(daemon_set, controller=True),),
        ),
        data=data,
        revision=number,
    )
    try:
        return await ctx.create(wanted)
    except (AlreadyExists, ForeignObject) as error:
        found = await ctx.get(ControllerRevision, wanted.metadata.name, wanted.metadata.namespace, live=True)
        if thaw(found.data or {}) == data or template_of(found) == template:
            return found
        status = daemon_set.status.evolve(collision_count=value_or(count, 0) + 1)
        ctx.replace(await ctx.client.status.update(daemon_set.evolve(status=status)))
        raise ReconcileError(f"{error}; the hash collides, trying another one") from error


async def _only(
    ctx: Context[DaemonSet], current: Sequence[ControllerRevision], pods: Iterable[PodView]
) -> ControllerRevision:
    """The newest of several revisions of one template; pods of the others become its own."""
    kept = max(reversed(current), key=lambda each: value_or(each.revision, 0))
    if len(current) == 1:
        return kept
    digest = kept.metadata.labels[REVISION_LABEL]
    for pod in pods:
        if pod.labels.get(REVISION_LABEL) != digest:
            with ignore_not_found():
                await ctx.patch(pod.reference, MergePatch({"metadata": {"labels": {REVISION_LABEL: digest}}}))
    for each in current:
        if each is not kept:
            with ignore_not_found():
                await ctx.delete(each)
    return kept


async def clean_up(
    ctx: Context[DaemonSet], old: Sequence[ControllerRevision], pods: Iterable[PodView]
) -> None:
    """Delete the oldest revisions that no pod is of, beyond the history limit."""
    doomed = len(old) - value_or(ctx.obj.spec.revision_history_limit, 10)
    live = {pod.labels.get(REVISION_LABEL) for pod in pods}
    for each in sorted(old, key=lambda each: value_or(each.revision, 0)):
        if doomed <= 0:
            return
        if each.metadata.labels.get(REVISION_LABEL) in live:
            continue
        with ignore_not_found():
            await ctx.delete(each)
        doomed -= 1
