"""Pods with volumes and ConfigMaps: where they may run, and what happens before they are bound."""

from __future__ import annotations

import pytest

from quarterdeck.api.k8s import PersistentVolume, PersistentVolumeClaim
from quarterdeck.client import MergePatch
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.configmap import required_config_maps
from quarterdeck.operators.kai.logic.volume import VolumeDemands, suitable_volumes, volume_demands

from .kaikit import NS, Json, Kai, claim, group, kai, mounts, pod, queue, storage_class, volume


async def finish(found: Kai, name: str, holder: str) -> None:
    """What the volume controller does once it is told."""
    stored = await found.client.get(PersistentVolumeClaim, name, NS)
    stored = await found.client.patch(stored, MergePatch({"spec": {"volumeName": holder}}))
    await found.client.status.patch(stored, MergePatch({"status": {"phase": "Bound"}}))


class TestDemands:
    """Which nodes come into question for a claim that waits for its first consumer."""

    @staticmethod
    def of(wanted: Json, *volumes: Json, kind: Json) -> VolumeDemands:
        return volume_demands(
            ["data"],
            claim=lambda _: wanted,
            volume=lambda _: None,
            storage_class=lambda _: kind,
            volumes=lambda: volumes,
        )

    def test_those_that_reach_an_unused_volume(self) -> None:
        found = self.of(claim(), volume("a", "n1"), volume("b", "n2"), kind=storage_class())
        (selector,) = found.open
        hosts = [tuple(term.match_expressions[0].values) for term in selector.node_selector_terms]
        assert sorted(hosts) == [("n1",), ("n2",)]

    def test_none_if_there_is_no_volume_and_none_can_be_made(self) -> None:
        (selector,) = self.of(claim(), kind=storage_class()).open
        assert not selector.node_selector_terms

    def test_all_if_one_can_be_made_anywhere(self) -> None:
        assert self.of(claim(), kind=storage_class(provisioner="example.com/disk")) == VolumeDemands()

    def test_those_for_which_one_can_be_made(self) -> None:
        topologies = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
        kind = storage_class(provisioner="example.com/disk", allowedTopologies=topologies)
        (selector,) = self.of(claim(), kind=kind).open
        (term,) = selector.node_selector_terms
        assert (term.match_expressions[0].key, term.match_expressions[0].values) == ("zone", ("a", "b"))

    def test_the_one_for_which_it_is_being_made(self) -> None:
        wanted = claim()
        wanted["metadata"]["annotations"] = {names.SELECTED_NODE_ANNOTATION: "n7"}
        (selector,) = self.of(wanted, kind=storage_class(provisioner="example.com/disk")).open
        assert selector.node_selector_terms[0].match_fields[0].values == ("n7",)

    @pytest.mark.parametrize(
        "other",
        [
            volume("v", "n1", size="500Mi"),
            volume("v", "n1", of="other"),
            volume("v", "n1", volumeMode="Block"),
            volume("v", "n1", accessModes=["ReadOnlyMany"]),
            volume("v", "n1", claimRef={"namespace": NS, "name": "somebody"}),
            {**volume("v", "n1"), "status": {"phase": "Released"}},
        ],
    )
    def test_volumes_that_do_not_suit_do_not_count(self, other: Json) -> None:
        assert suitable_volumes(claim(), [other]) == []

    def test_the_smallest_volume_is_taken_unless_one_is_meant_for_the_claim(self) -> None:
        large, small = volume("large", "n1", size="9Gi"), volume("small", "n1", size="2Gi")
        found = suitable_volumes(claim(), [large, small])
        assert [each["metadata"]["name"] for each in found] == ["small", "large"]
        meant = volume("meant", "n1", size="9Gi", claimRef={"namespace": NS, "name": "data"})
        (only,) = suitable_volumes(claim(), [large, small, meant])
        assert only["metadata"]["name"] == "meant"


async def test_a_pod_goes_where_its_volume_is_and_waits_for_it() -> None:
    async with kai() as found:
        await found.add_nodes("n1", "n2")
        await found.create(
            queue("team"), storage_class(), claim(), volume("disk", "n2"), group("g"),
            pod("g-0", "g", volumes=mounts("data")),
        )  # fmt: skip
        await found.make_available("disk")
        await found.schedule()
        (request,) = await found.requests()
        assert request.spec.selected_node == "n2"
        assert (await found.pod("g-0")).spec.node_name == ""
        disk = await found.client.get(PersistentVolume, "disk")
        assert (disk.spec.claim_ref.namespace, disk.spec.claim_ref.name) == (NS, "data")
        await finish(found, "data", "disk")
        await found.cluster.clock.sleep(3)
        await found.settle()
        assert (await found.pod("g-0")).spec.node_name == "n2"


async def test_a_claim_is_told_for_which_node_its_volume_is_to_be_made() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        kind = storage_class("made", "example.com/disk")
        await found.create(
            queue("team"), kind, claim(of="made"), group("g"), pod("g-0", "g", volumes=mounts("data"))
        )
        await found.schedule()
        stored = await found.client.get(PersistentVolumeClaim, "data", NS)
        assert stored.metadata.annotations[names.SELECTED_NODE_ANNOTATION] == "n1"
        assert (await found.pod("g-0")).spec.node_name == ""
        await found.schedule()
        assert len(await found.requests()) == 1
        await found.create(volume("fresh", "n1", of="made"))
        await finish(found, "data", "fresh")
        await found.cluster.clock.sleep(3)
        await found.settle()
        assert (await found.pod("g-0")).spec.node_name == "n1"


async def test_volumes_that_do_not_come_are_given_up() -> None:
    async with kai(volume_bind_timeout=5.0) as found:
        await found.add_nodes("n1")
        kind = storage_class("made", "example.com/disk")
        await found.create(
            queue("team"), kind, claim(of="made"), group("g"), pod("g-0", "g", volumes=mounts("data"))
        )
        await found.schedule()
        await found.cluster.clock.sleep(10)
        await found.settle()
        (request,) = await found.requests()
        assert (request.status.phase, request.status.reason) == (
            "Failed",
            "volumes were not bound within 5 seconds",
        )
        stored = await found.client.get(PersistentVolumeClaim, "data", NS)
        assert names.SELECTED_NODE_ANNOTATION not in stored.metadata.annotations


async def test_two_pods_do_not_get_the_same_volume() -> None:
    async with kai() as found:
        await found.add_nodes("n1", "n2")
        volumes = [volume("one", "n1"), volume("two", "n2")]
        pods = [pod(f"g-{n}", "g", volumes=mounts(f"data-{n}")) for n in range(2)]
        claims = [claim(f"data-{n}") for n in range(2)]
        await found.create(queue("team"), storage_class(), *volumes, *claims, group("g", 1), *pods)
        await found.make_available("one", "two")
        for _ in range(3):
            await found.schedule()
            for name in ("one", "two"):
                holder = await found.client.get(PersistentVolume, name)
                if holder.spec.claim_ref:
                    await finish(found, holder.spec.claim_ref.name, name)
            await found.cluster.clock.sleep(3)
        await found.settle()
        assert sorted([(await found.pod(f"g-{n}")).spec.node_name for n in range(2)]) == ["n1", "n2"]


async def test_a_pod_whose_config_map_is_missing_waits_for_it() -> None:
    async with kai() as found:
        await found.add_nodes("n1")
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        made = pod("g-0", "g", volumes=volumes)
        made["spec"]["containers"][0]["volumeMounts"] = [{"name": "settings", "mountPath": "/settings"}]
        await found.create(queue("team"), group("g"), made)
        await found.schedule()
        stored = await found.pod("g-0")
        assert stored.spec.node_name == ""
        (told,) = [each for each in stored.status.conditions if each.type == "PodScheduled"]
        assert "ConfigMap: Missing required configmaps: [settings]" in told.message
        await found.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": NS}}
        )
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == "n1"


def test_config_maps_are_required_where_they_are_used_and_not_optional() -> None:
    document = {
        "metadata": {"name": "p", "annotations": {names.SHARED_GPU_CONFIG_MAP_ANNOTATION: "own"}},
        "spec": {
            "volumes": [
                {"name": "a", "configMap": {"name": "mounted"}},
                {"name": "b", "configMap": {"name": "unused"}},
                {"name": "c", "projected": {"sources": [{"configMap": {"name": "projected"}}]}},
            ],
            "containers": [
                {
                    "name": "c",
                    "volumeMounts": [{"name": "a"}, {"name": "c"}],
                    "env": [
                        {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "read", "key": "x"}}},
                        {"name": "Y", "valueFrom": {"configMapKeyRef": {"name": "maybe", "optional": True}}},
                    ],
                    "envFrom": [{"configMapRef": {"name": "own-0"}}],
                }
            ],
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "first"}}]}],
        },
    }
    assert required_config_maps(document) == ("first", "mounted", "projected", "read")
