"""The pod grouper on a cluster: pods are put into groups, once, and again when the reason changes."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.client import MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.controllers.owner import MEMORY, RememberingReader, owners_of
from quarterdeck.operators.kai.logic.grouping import GroupingError
from quarterdeck.operators.kai.types import PodGroup
from quarterdeck.runtime.loop.clock import LoopClock

from .kaikit import NS, Kai, group, kai, pod, queue

Json = dict[str, Any]
GANG = GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang")


def definition(group: str, kind: str, version: str = "v1alpha1") -> Json:
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def make(
    found: Kai, api_version: str, kind: str, name: str, spec: Json, **metadata: Any
) -> DynamicObject:
    return await found.client.create(
        DynamicObject(
            {
                "apiVersion": api_version,
                "kind": kind,
                "metadata": {"name": name, "namespace": NS, **metadata},
                "spec": spec,
            }
        )
    )


def owned_by(*owners: DynamicObject) -> Json:
    references = [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.metadata.name,
            "uid": each.metadata.uid,
        }
        for each in owners
    ]
    return {"ownerReferences": references}


async def groups(found: Kai) -> list[PodGroup]:
    return list(await found.client.list(PodGroup))


async def test_a_bare_pod_gets_a_group_and_is_marked() -> None:
    async with kai() as found:
        await found.create(pod("solo"))
        await found.settle()
        stored = await found.pod("solo")
        (made,) = await groups(found)
        assert made.metadata.name == f"pg-solo-{stored.metadata.uid}"
        assert stored.metadata.annotations[names.POD_GROUP_ANNOTATION] == made.metadata.name
        assert made.spec.queue == names.DEFAULT_QUEUE


async def test_pods_of_others_are_left_alone() -> None:
    async with kai() as found:
        mine = {names.POD_GROUP_ANNOTATION: "mine"}
        await found.create(
            pod("other", schedulerName="default-scheduler"),
            pod("mine", metadata={"annotations": mine}),
            pod("skipped", metadata={"annotations": {names.SKIP_GROUPER_ANNOTATION: "true"}}),
        )
        await found.settle()
        assert await groups(found) == []
        assert names.POD_GROUP_ANNOTATION not in (await found.pod("skipped")).metadata.annotations


async def test_all_pods_of_an_owner_share_a_group() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        machine = await make(found, "example.com/v1", "Machine", "m", {})
        await found.create(*(pod(f"m-{n}", metadata=owned_by(machine)) for n in range(5)))
        await found.settle()
        (made,) = await groups(found)
        assert made.metadata.name == f"pg-m-{machine.metadata.uid}"
        assert made.metadata.owner_references[0].uid == machine.metadata.uid
        for n in range(5):
            annotations = (await found.pod(f"m-{n}")).metadata.annotations
            assert annotations[names.POD_GROUP_ANNOTATION] == made.metadata.name


async def test_what_others_change_about_a_group_stays() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        machine = await make(found, "example.com/v1", "Machine", "m", {})
        await found.create(pod("m-0", metadata=owned_by(machine)))
        await found.settle()
        (made,) = await groups(found)
        await found.client.patch(
            made, MergePatch({"spec": {"queue": "moved", "minMember": 9}, "metadata": {"labels": {"a": "b"}}})
        )
        await found.create(pod("m-1", metadata=owned_by(machine)))
        await found.settle()
        (made,) = await groups(found)
        assert (made.spec.queue, made.spec.min_member) == ("moved", 1)
        assert made.metadata.labels == {"a": "b"}


async def test_a_gang_that_lists_its_pods_late_is_followed() -> None:
    async with kai() as found:
        await found.cluster.install(
            definition("grove.io", "PodCliqueSet"), definition("scheduler.grove.io", "PodGang")
        )
        top = await make(found, "grove.io/v1alpha1", "PodCliqueSet", "pcs", {})
        part: Json = {"name": "a", "minReplicas": 2, "podReferences": []}
        gang = await make(found, "scheduler.grove.io/v1alpha1", "PodGang", "gang", {"podgroups": [part]})
        metadata = {**owned_by(top), "labels": {"grove.io/podgang": "gang"}}
        await found.create(pod("a-0", metadata=metadata))
        await found.settle()
        waiting = await found.pod("a-0")
        assert waiting.metadata.annotations[names.POD_GROUP_ANNOTATION] == f"pg-gang-{gang.metadata.uid}"
        assert names.SUB_GROUP_LABEL not in waiting.metadata.labels
        await found.cluster.clock.sleep(60)  # the watch of a kind that was not there before
        await found.settle()
        part["podReferences"] = [{"namespace": NS, "name": "a-0"}]
        await found.client.patch(gang, MergePatch({"spec": {"podgroups": [part]}}))
        await found.settle()
        assert (await found.pod("a-0")).metadata.labels[names.SUB_GROUP_LABEL] == "a"


async def test_an_error_is_told_and_tried_again() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        gone = DynamicObject(
            {"apiVersion": "example.com/v1", "kind": "Machine", "metadata": {"name": "m", "uid": "u"}}
        )
        await found.create(pod("p", metadata=owned_by(gone)))
        await found.settle()
        assert found.log.about("p")[0].startswith(
            "Warning PodGrouperWarning failed to find Machine: <default/m>"
        )
        assert await groups(found) == []
        machine = await make(found, "example.com/v1", "Machine", "m", {})
        stored = await found.pod("p")
        await found.client.patch(stored, MergePatch({"metadata": owned_by(machine)}))
        await found.settle()
        assert len(await groups(found)) == 1


async def test_defaults_by_kind_come_from_a_config_map() -> None:
    async with kai(default_priorities_config_map="default/priorities") as found:
        types = '[{"typeName": "Pod", "priorityName": "gold", "preemptibility": "non-preemptible"}]'
        await found.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "priorities", "namespace": NS},
                "data": {"types": types},
            },
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "gold"},
                "value": 9,
            },
        )
        await found.settle()
        await found.create(pod("solo"))
        await found.settle()
        (made,) = await groups(found)
        assert (made.spec.priority_class_name, made.spec.preemptibility) == ("gold", "non-preemptible")


async def test_groups_of_one_name_in_two_namespaces_are_two() -> None:
    async with kai() as found:
        await found.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}})
        await found.create(queue("team"), group("same", 1), group("same", 2, namespace="b"))
        await found.create(pod("a-0", "same"), pod("b-0", "same", namespace="b"))
        await found.settle()
        assert (await found.group("same")).status.pending == 1
        assert (await found.group("same", "b")).status.pending == 1


async def test_owners_are_followed_to_the_top_and_remembered() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        top = await make(found, "example.com/v1", "Machine", "top", {})
        middle = await make(found, "example.com/v1", "Machine", "middle", {}, **owned_by(top))
        await found.create(pod("p", metadata=owned_by(middle), schedulerName="other"))
        reader = RememberingReader(found.client, LoopClock())
        given = await found.pod("p")
        assert [each.metadata.name for each in await owners_of(given, reader)] == ["middle", "top"]
        await found.client.delete(top)
        assert len(await owners_of(given, reader)) == 2
        await found.cluster.clock.sleep(MEMORY + 1)
        with pytest.raises(GroupingError, match="failed to find Machine"):
            await owners_of(given, reader)


async def test_an_owner_of_another_uid_is_not_the_owner() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        first = await make(found, "example.com/v1", "Machine", "m", {})
        await found.client.delete(first)
        await make(found, "example.com/v1", "Machine", "m", {})
        await found.create(pod("p", metadata=owned_by(first), schedulerName="other"))
        with pytest.raises(GroupingError, match=r"Owner resource with uid .* not found"):
            await owners_of(await found.pod("p"), RememberingReader(found.client, LoopClock()))


async def test_an_owner_with_several_owners_is_an_error() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        one = await make(found, "example.com/v1", "Machine", "one", {})
        two = await make(found, "example.com/v1", "Machine", "two", {})
        torn = await make(found, "example.com/v1", "Machine", "torn", {}, **owned_by(one, two))
        await found.create(pod("p", metadata=owned_by(torn), schedulerName="other"))
        reader = RememberingReader(found.client, LoopClock())
        with pytest.raises(GroupingError, match="with multiple owners: Machine one, Machine two"):
            await owners_of(await found.pod("p"), reader)
        # of a pod with several owners the first counts
        await found.create(pod("q", metadata=owned_by(one, two), schedulerName="other"))
        assert [each.metadata.name for each in await owners_of(await found.pod("q"), reader)] == ["one"]


async def test_an_owner_that_may_not_be_read_ends_the_way() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        top = await make(found, "example.com/v1", "Machine", "top", {})
        await found.create(pod("p", metadata=owned_by(top), schedulerName="other"))
        stranger = RememberingReader(found.cluster.as_user("stranger"), LoopClock())
        assert await owners_of(await found.pod("p"), stranger) == ()


async def test_a_pod_that_goes_before_it_is_marked_is_no_error() -> None:
    async with kai() as found:
        await found.create(pod("p"))
        await found.client.delete(await found.pod("p"), grace_period=0)
        await found.settle()
        with pytest.raises(NotFound):
            await found.pod("p")
        assert found.log.reasons == []


async def test_a_waiting_gang_whose_group_was_deleted_starts_all_the_same() -> None:
    async with kai() as found:
        await found.cluster.install(definition("example.com", "Machine", "v1"))
        machine = await make(found, "example.com/v1", "Machine", "m", {})
        await found.create(queue(names.DEFAULT_QUEUE))
        await found.create(*(pod(f"m-{n}", metadata=owned_by(machine)) for n in range(2)))
        await found.schedule()
        (before,) = await groups(found)
        await found.client.delete(before)
        await found.settle()
        (after,) = await groups(found)
        assert (after.metadata.name, after.spec) == (before.metadata.name, before.spec)
        assert after.metadata.uid != before.metadata.uid
        await found.add_nodes("n1")
        await found.schedule()
        assert {(await found.pod(f"m-{n}")).spec.node_name for n in range(2)} == {"n1"}


@pytest.mark.parametrize("has_old_group", [False, True])
async def test_a_job_set_is_grouped_as_a_tree_unless_it_was_grouped_flat_before(has_old_group: bool) -> None:
    async with kai() as found:
        await found.cluster.install(definition("jobset.x-k8s.io", "JobSet", "v1alpha2"))
        jobs = [{"name": "worker", "replicas": 2, "template": {"spec": {"parallelism": 1}}}]
        top = await make(found, "jobset.x-k8s.io/v1alpha2", "JobSet", "js", {"replicatedJobs": jobs})
        name = f"pg-js-{top.metadata.uid}"
        if has_old_group:
            old = group(f"{name}-other", 1)
            old["metadata"] |= owned_by(top)
            await found.create(old)
            await found.settle()
        labels = {
            "jobset.sigs.k8s.io/replicatedjob-name": "worker",
            "jobset.sigs.k8s.io/job-index": "1",
        }
        given = pod("js-p")
        given["metadata"] |= {"labels": labels, **owned_by(top)}
        await found.create(given)
        await found.settle()
        made = {each.metadata.name: each for each in await groups(found)}
        stored = (await found.pod("js-p")).metadata
        if has_old_group:
            assert stored.annotations[names.POD_GROUP_ANNOTATION] == f"{name}-worker"
            assert made[f"{name}-worker"].spec.sub_groups == ()
        else:
            assert stored.annotations[names.POD_GROUP_ANNOTATION] == name
            assert stored.labels[names.SUB_GROUP_LABEL] == "worker-replica-1"
            parts = [each.name for each in made[name].spec.sub_groups]
            assert parts == ["worker", "worker-replica-0", "worker-replica-1"]
