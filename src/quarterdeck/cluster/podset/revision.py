"""The history of a template: ControllerRevisions.

A revision holds the template as a patch of the object it belongs to; its name is made of the hash of that.
Going back to a template that is known makes its revision the newest again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from quarterdeck.api import ObjectMeta, Resource, Selector, from_dict, owner_reference, value_or
from quarterdeck.api.frozen import thaw
from quarterdeck.api.k8s import ControllerRevision, PodTemplateSpec
from quarterdeck.cluster.podset.claim import claim
from quarterdeck.cluster.podset.templatehash import fnv32, safe_encode
from quarterdeck.errors import AlreadyExists, ForeignObject, ignore_not_found
from quarterdeck.runtime.reconcile.context import Context

HASH_LABEL: Final = "controller.kubernetes.io/hash"
REVISION_LABEL: Final = "controller-revision-hash"
"""Label of pods: which revision they are of."""
_LONGEST_PREFIX: Final = 223
_HTML: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class Revised(NamedTuple):
    """The revision for the present template."""

    revision: ControllerRevision
    collisions: int
    """How often a hash has collided so far."""


def revision_data(template: Mapping[str, Any]) -> dict[str, Any]:
    """What a revision keeps of a template, given as the server writes it.

    Keys are in order: clients compare revisions by their bytes.
    """
    kept: dict[str, Any] = _in_order({"spec": {"template": {**template, "$patch": "replace"}}})
    return kept


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(each) for each in value] if isinstance(value, list) else value


def revision_hash(data: Mapping[str, Any], collisions: int | None) -> str:
    """The hash in the name of a revision."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).translate(_HTML)
    probe = "" if collisions is None else str(collisions)
    return safe_encode(str(fnv32((text + probe).encode())))


def template_of(revision: ControllerRevision) -> PodTemplateSpec:
    """The template that a revision has kept."""
    data: Any = thaw(revision.data or {})
    template = {k: v for k, v in data.get("spec", {}).get("template", {}).items() if k != "$patch"}
    return from_dict(template, PodTemplateSpec)


def _order(revision: ControllerRevision) -> tuple[int, str, str]:
    metadata = revision.metadata
    return value_or(revision.revision, 0), str(metadata.creation_timestamp or ""), metadata.name


async def list_revisions(ctx: Context[Any], selector: Selector) -> list[ControllerRevision]:
    """The revisions of the reconciled object, oldest first; orphans are adopted."""
    entries = await claim(ctx, ControllerRevision, selector)
    decode = ctx.cache.informer(ControllerRevision).decoder(ControllerRevision)
    return sorted((decode(entry) for entry in entries), key=_order)


async def sync_revision(
    ctx: Context[Any],
    template: Mapping[str, Any],
    revisions: Sequence[ControllerRevision],
    collisions: int,
    labels: Mapping[str, str],
) -> Revised:
    """The revision for a template as the server writes it: the newest, an old one made new, or a new one."""
    data = revision_data(template)
    newest = revisions[-1] if revisions else None
    number = value_or(newest.revision, 0) + 1 if newest is not None else 1
    equal = [each for each in revisions if thaw(each.data or {}) == data]
    if newest is not None and newest in equal:
        return Revised(newest, collisions)
    if equal:
        return Revised(await ctx.update(equal[-1].evolve(revision=number)), collisions)
    if newest is not None and template_of(newest) == from_dict(template, PodTemplateSpec):
        return Revised(newest, collisions)  # another way to write the same
    return await _create(ctx, data, number, collisions, labels)


async def _create(
    ctx: Context[Any], data: dict[str, Any], number: int, collisions: int, labels: Mapping[str, str]
) -> Revised:
    owner: Resource = ctx.obj
    while True:
        digest = revision_hash(data, collisions)
        wanted = ControllerRevision(
            metadata=ObjectMeta(
                name=f"{owner.metadata.name[:_LONGEST_PREFIX]}-{digest}",
                namespace=owner.metadata.namespace,
                labels={**labels, HASH_LABEL: digest},
                annotations=owner.metadata.annotations,
                owner_references=(owner_reference(owner, controller=True),),
            ),
            data=data,
            revision=number,
        )
        try:
            return Revised(await ctx.create(wanted), collisions)
        except (AlreadyExists, ForeignObject):
            found = await ctx.get(
                ControllerRevision, wanted.metadata.name, wanted.metadata.namespace, live=True
            )
            if thaw(found.data or {}) == data:
                return Revised(found, collisions)
            collisions += 1


async def truncate_history(
    ctx: Context[Any], revisions: Sequence[ControllerRevision], live: Collection[str], limit: int
) -> None:
    """Delete the oldest revisions that nothing is of, beyond the limit; ``live`` names the others."""
    old = [each for each in revisions if each.metadata.name not in live]
    for each in old[: max(0, len(old) - limit)] if limit >= 0 else ():
        with ignore_not_found():
            await ctx.delete(each)
