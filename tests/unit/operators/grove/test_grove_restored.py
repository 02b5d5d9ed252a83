"""Everything that Grove made comes back: deleted, edited or replaced, at every stage of a set's life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind, to_dict
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client, MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique, PodCliqueSet

from .childtable import CHILDREN, PODS, Child, fetched, made_set, made_world, removed, settled, why_not_whole
from .grovekit import NS, Grove

POD = Child(gvk=GroupVersionKind("", "v1", "Pod"), name="")


async def delete(client: Client, child: Child) -> None:
    await removed(client, child)


async def edit(client: Client, child: Child) -> None:
    """Another content."""
    found = await fetched(client, child)
    assert found is not None
    await client.patch(found, MergePatch({**child.damage, "metadata": {"labels": {"mine": "yes"}}}))


async def strip(client: Client, child: Child) -> None:
    """No labels, no owner."""
    found = await fetched(client, child)
    assert found is not None
    await client.patch(found, MergePatch({"metadata": {"labels": None, "ownerReferences": None}}))


async def replace(client: Client, child: Child) -> None:
    """A copy in its place, as `kubectl replace --force` makes one."""
    found = await fetched(client, child)
    assert found is not None
    document = found.to_dict()
    document.pop("status", None)
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        document["metadata"].pop(field, None)
    await removed(client, child)
    await client.create(DynamicObject(document))


ACTIONS = {"deleted": delete, "edited": edit, "stripped": strip, "replaced": replace}


async def change_image(client: Client, tag: int) -> None:
    found = await client.get(PodCliqueSet, "w", NS)
    cliques = to_dict(found.spec.template.cliques)
    for each in cliques:
        each["spec"]["podSpec"]["containers"][0]["image"] = f"example.com/main:{tag}"
    await client.patch(found, MergePatch({"spec": {"template": {"cliques": cliques}}}))


def leaves(document: Mapping[str, Any], pattern: Mapping[str, Any]) -> Any:
    """The part of a document that a patch is about."""
    return {
        key: leaves(document[key], value) if isinstance(value, dict) and value else document.get(key)
        for key, value in pattern.items()
    }


def decided(found: DynamicObject | None, child: Child) -> Any:
    """What the operator decides about, without the names of pods."""
    assert found is not None
    document = found.to_dict()
    for each in document.get("spec", {}).get("podgroups", []) if child.gvk.kind == "PodGang" else []:
        each["podReferences"] = len(each["podReferences"])
    ours = {key for key in document["metadata"]["labels"] if key != names.TEMPLATE_HASH and key != "mine"}
    return leaves(document, child.damage), ours, [each.uid for each in found.metadata.owner_references]


async def under_way(grove: Grove) -> bool:
    progress = (await grove.client.get(PodCliqueSet, "w", NS)).status.update_progress
    return bool(progress) and not progress.update_ended_at


@pytest.mark.parametrize("stage", ["coming up", "running", "updating"])
@pytest.mark.parametrize("child", CHILDREN, ids=str)
async def test_what_was_made_comes_back(child: Child, stage: str) -> None:
    async with made_world(child) as grove:
        client = grove.client
        await client.create(made_set())
        await settled(grove)
        healthy = decided(await fetched(client, child), child)
        for tag, (name, action) in enumerate(ACTIONS.items()):
            if stage == "coming up":
                await client.delete(PodCliqueSet, "w", NS)
                await settled(grove, 1)
                await client.create(made_set())
                await grove.settle()
            if stage == "updating":
                await change_image(client, tag + 2)
                await grove.settle()
                assert await under_way(grove)
            await action(client, child)
            await settled(grove, 3 if stage == "running" else 8)
            assert (name, await why_not_whole(client, child)) == (name, "")
            parts, labels, owners = decided(await fetched(client, child), child)
            assert (name, parts, labels) == (name, healthy[0], healthy[1])
            assert len(owners) == 1
            assert not await under_way(grove)
            if stage == "updating":
                pods = await client.list(Pod, namespace=NS)
                assert {each.spec.containers[0].image for each in pods} == {f"example.com/main:{tag + 2}"}


@pytest.mark.parametrize("action", ["deleted", "labels", "owner"])
@pytest.mark.parametrize("clique", ["w-0-router", "w-0-g-0-worker", "w-0-g-1-worker"])
async def test_pods_come_back(clique: str, action: str) -> None:
    async with made_world(POD) as grove:
        client = grove.client
        await client.create(made_set())
        await settled(grove)
        pods = await client.list(Pod, namespace=NS)
        chosen = next(each for each in pods if each.metadata.labels[names.PODCLIQUE] == clique)
        if action == "deleted":
            await client.delete(chosen, grace_period=0)
        elif action == "labels":
            await client.patch(chosen, MergePatch({"metadata": {"labels": {names.PODGANG: "other"}}}))
        else:
            await client.patch(chosen, MergePatch({"metadata": {"ownerReferences": None}}))
        await settled(grove)
        owner = await client.get(PodClique, clique, NS)
        ours = [
            each
            for each in await client.list(Pod, namespace=NS)
            if [owner.uid for owner in each.metadata.owner_references] and not each.metadata.is_deleting
        ]
        assert len(ours) == PODS
        assert not [each.metadata.name for each in ours if each.spec.scheduling_gates]
        gangs = {
            each.metadata.labels[names.PODGANG]
            for each in ours
            if each.metadata.labels[names.PODCLIQUE] == clique
        }
        assert gangs == {owner.metadata.labels[names.PODGANG]}
