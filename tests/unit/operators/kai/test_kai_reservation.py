"""Shared GPUs on a real cluster: reservation pods, ConfigMaps, and who cleans up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.k8s import ConfigMap, Pod
from quarterdeck.client import MergePatch
from quarterdeck.errors import ConfigError, Forbidden
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.device import device_of, write_device
from quarterdeck.operators.kai.logic.sharedgpu import (
    config_maps_of,
    prepare_pod,
    reservation_name,
)
from quarterdeck.operators.kai.settings import ReservationSettings
from quarterdeck.operators.kai.types import KINDS
from quarterdeck.operators.kai.webhooks import pod_mutation
from quarterdeck.testing import TestCluster

from .kaikit import NS, Json, Kai, group, kai, pod, queue

SPACE = "kai-resource-reservation"
RESERVING = ReservationSettings(image="example.com/reserve:1")


def half(name: str, of: str = "g", portion: str = "0.5", **annotations: str) -> Json:
    """A pod as admission lets it through."""
    made = pod(name, of, 0, metadata={"annotations": {"gpu-fraction": portion, **annotations}})
    prepare_pod(made, "abcdefg")
    return made


async def start(found: Kai, gpus: int = 2) -> None:
    await found.add_nodes("n1", gpus=gpus)
    await found.create(queue("team"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
    await found.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SPACE, "namespace": SPACE},
        }
    )


async def reservations(found: Kai) -> list[Pod]:
    return list(await found.client.list(Pod, namespace=SPACE))


async def give_devices(found: Kai) -> None:
    """What the reservation pods do once the device plugin served them."""
    for number, each in enumerate(await reservations(found)):
        note = {names.RESERVED_DEVICE_ANNOTATION: f"GPU-{number}"}
        await found.client.patch(each, MergePatch({"metadata": {"annotations": note}}))
        await found.client.status.patch(each, MergePatch({"status": {"phase": "Running"}}))
    await found.cluster.clock.sleep(3)
    await found.settle()


async def bound(found: Kai, *pods: Json) -> None:
    await start(found)
    await found.create(group("g", len(pods)), *pods)
    await found.schedule()
    await give_devices(found)


async def test_a_pod_that_shares_is_bound_when_its_device_is_reserved() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await start(found)
        await found.create(group("g", 1), half("g-0"))
        await found.schedule()
        (reservation,) = await reservations(found)
        assert reservation.spec.node_name == "n1"
        assert (await found.pod("g-0")).spec.node_name == ""
        await give_devices(found)
        stored = await found.pod("g-0")
        assert stored.spec.node_name == "n1"
        assert (
            stored.metadata.labels[names.GPU_GROUP_LABEL]
            == reservation.metadata.labels[names.GPU_GROUP_LABEL]
        )
        maps = config_maps_of(stored.to_dict())
        capabilities = await found.client.get(ConfigMap, maps.capabilities, NS)
        assert capabilities.data == {
            "GPU_PORTION": "0.50",
            "RUNAI_NUM_OF_GPUS": "0.50",
            "NVIDIA_VISIBLE_DEVICES": "GPU-0",
        }
        assert capabilities.metadata.owner_references[0].uid == stored.metadata.uid
        await found.client.get(ConfigMap, maps.environment, NS)


async def test_a_reservation_pod_tolerates_what_the_pod_does() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await start(found)
        given = half("g-0")
        given["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]
        await found.create(group("g", 1), given)
        await found.schedule()
        (reservation,) = await reservations(found)
        assert ("gpu", "NoExecute") in [(each.key, each.effect) for each in reservation.spec.tolerations]


async def test_two_that_share_a_device_have_one_reservation_and_it_counts_once() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await bound(found, half("g-0"), half("g-1"))
        assert len(await reservations(found)) == 1
        assert {(await found.pod(name)).spec.node_name for name in ("g-0", "g-1")} == {"n1"}
        await found.create(group("h"), pod("h-0", "h", 1))
        await found.schedule()
        assert (await found.pod("h-0")).spec.node_name == "n1"  # the second of two devices is whole


async def test_the_reservation_goes_with_the_last_who_shares() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await bound(found, half("g-0"), half("g-1"))
        await found.set_phase("g-0", "Running")
        await found.set_phase("g-1", "Succeeded")
        await found.settle()
        assert len(await reservations(found)) == 1
        await found.client.delete(await found.pod("g-0"), grace_period=0)
        await found.settle()
        assert not await reservations(found)


async def test_a_device_that_nobody_shares_any_more_is_not_free_before_its_reservation_is_gone() -> None:
    async with kai() as found:
        await start(found, gpus=1)
        left = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "left",
                "namespace": SPACE,
                "labels": {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: "x"},
            },
            "spec": {**pod("left")["spec"], "nodeName": "n1", "schedulerName": "default-scheduler"},
        }
        await found.create(left, group("g"), pod("g-0", "g", 1))
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == ""
        await found.client.delete(Pod, "left", SPACE, grace_period=0)
        await found.schedule()
        assert (await found.pod("g-0")).spec.node_name == "n1"


async def test_who_runs_without_a_reservation_has_to_go() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await bound(found, half("g-0"))
        await found.set_phase("g-0", "Running")
        (reservation,) = await reservations(found)
        await found.client.delete(reservation, grace_period=0)
        await found.settle()
        assert (await found.pod("g-0")).metadata.is_deleting


async def test_a_device_that_does_not_come_is_given_up() -> None:
    async with kai(gpu_reservation=RESERVING, bind_backoff_limit=1) as found:
        await start(found)
        await found.create(group("g", 1), half("g-0"))
        await found.schedule()
        await found.cluster.clock.sleep(45)
        await found.settle()
        (request,) = await found.requests()
        assert request.status.phase == "Failed"
        assert "got no device within 40 seconds" in request.status.reason
        assert not await reservations(found)


async def test_a_pod_that_admission_did_not_prepare_is_refused_with_a_reason() -> None:
    async with kai(gpu_reservation=RESERVING, bind_backoff_limit=1) as found:
        bare = pod("g-0", "g", 0, metadata={"annotations": {"gpu-fraction": "0.5"}})
        await bound(found, bare)
        (request,) = await found.requests()
        assert "no desired configmap name found in pod default/g-0 annotations" in request.status.reason


async def test_parts_of_several_devices_are_told_in_one_line() -> None:
    settings = ReservationSettings(image="example.com/reserve:1", uses_cdi=True)
    async with kai(gpu_reservation=settings) as found:
        await bound(found, half("g-0", **{"gpu-fraction-num-devices": "2"}))
        stored = await found.pod("g-0")
        assert stored.spec.node_name == "n1"
        capabilities = await found.client.get(ConfigMap, config_maps_of(stored.to_dict()).capabilities, NS)
        devices = capabilities.data["NVIDIA_VISIBLE_DEVICES"].split(",")
        assert sorted(devices) == [f"k8s.device-plugin.nvidia.com/gpu=GPU-{n}" for n in range(2)]


async def test_admission_lets_the_container_read_its_device() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        await cluster.serve_webhooks(pod_mutation("kai-scheduler"))
        plain = pod("p", "", 0, metadata={"annotations": {"gpu-fraction": "0.5"}})
        made = (await cluster.client.create(DynamicObject(plain))).to_dict()
        maps = config_maps_of(made)
        (container,) = made["spec"]["containers"]
        read = {each["name"]: each["valueFrom"]["configMapKeyRef"]["name"] for each in container["env"]}
        assert read == dict.fromkeys(
            ("NVIDIA_VISIBLE_DEVICES", "RUNAI_NUM_OF_GPUS", "GPU_PORTION"), maps.capabilities
        )
        assert container["envFrom"] == [{"configMapRef": {"name": maps.environment, "optional": False}}]
        volumes = {each["name"]: each.get("configMap", {}).get("name") for each in made["spec"]["volumes"]}
        assert volumes[f"{maps.capabilities}-vol"] == maps.capabilities
        wrong = pod(
            "q", "", 0, metadata={"annotations": {"gpu-fraction": "0.5", "gpu-fraction-container-name": "x"}}
        )
        with pytest.raises(Forbidden, match="container with name x not found for fraction request"):
            await cluster.client.create(DynamicObject(wrong))


@pytest.mark.parametrize(
    ("annotation", "ending"), [({}, "-0"), ({"gpu-fraction-container-name": "first"}, "-i0")]
)
def test_names_are_short_enough_and_tell_containers_apart(annotation: dict[str, Any], ending: str) -> None:
    made = pod("p" * 80, "", 0, metadata={"annotations": {"gpu-fraction": "0.5", **annotation}})
    made["spec"]["initContainers"] = [{"name": "first", "image": "x"}]
    prepare_pod(made, "abcdefg")
    maps = config_maps_of(made)
    assert maps.capabilities.endswith(f"-abcdefg-shared-gpu{ending}")
    assert all(len(volume["name"]) <= 63 for volume in made["spec"]["volumes"])
    once = repr(made)
    prepare_pod(made, "another")
    assert repr(made) == once


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        ({"ownerReferences": [{"name": "set"}, {"name": "other"}]}, "set"),
        ({"name": "p"}, "p"),
        ({"name": "", "generateName": "many-"}, "many"),
        ({"name": ""}, "pod"),
    ],
)
def test_config_maps_are_named_after_the_first_owner_or_the_pod(metadata: Json, named: str) -> None:
    made = pod("p", "", 0, metadata={"annotations": {"gpu-fraction": "0.5"}})
    made["metadata"] |= metadata
    prepare_pod(made, "abcdefg")
    assert made["metadata"]["annotations"][names.SHARED_GPU_CONFIG_MAP_ANNOTATION] == (
        f"{named}-abcdefg-shared-gpu"
    )


@pytest.mark.parametrize(
    ("said", "device"),
    [
        ("GPU-1", "GPU-1"),
        ("k8s.device-plugin.nvidia.com/gpu=GPU-2", "GPU-2"),
        ("GPU-1,GPU-2", ""),
        ("all", ""),
    ],
)
async def test_a_reservation_pod_finds_its_device(
    said: str, device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no tool of a driver
    if device:
        assert await device_of({"NVIDIA_VISIBLE_DEVICES": said}) == device
        return
    with pytest.raises(ConfigError, match=r"2 devices|names no device"):
        await device_of({"NVIDIA_VISIBLE_DEVICES": said})


async def test_a_reservation_pod_writes_its_device() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await start(found)
        await found.create(group("g", 1), half("g-0"))
        await found.schedule()
        (reservation,) = await reservations(found)
        await write_device(found.client, SPACE, reservation.metadata.name, "GPU-9")
        await found.cluster.clock.sleep(3)
        await found.settle()
        stored = await found.pod("g-0")
        assert stored.spec.node_name == "n1"
        capabilities = await found.client.get(ConfigMap, config_maps_of(stored.to_dict()).capabilities, NS)
        assert capabilities.data["NVIDIA_VISIBLE_DEVICES"] == "GPU-9"


def test_a_reservation_has_one_name() -> None:
    assert reservation_name("n1", "a") == reservation_name("n1", "a") != reservation_name("n1", "b")


async def test_config_maps_of_others_are_neither_changed_nor_deleted() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await start(found)
        sharing = half("g-0")
        maps = config_maps_of(sharing)
        theirs = []
        for name in (maps.capabilities, maps.environment):
            mine = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NS}}
            theirs.append(await found.client.create(DynamicObject({**mine, "data": {"mine": "yes"}})))
        await found.create(group("g", 1), sharing)
        await found.schedule()
        await give_devices(found)
        for each in theirs:
            kept = await found.client.get(ConfigMap, each.metadata.name, NS)
            assert (kept.metadata.uid, kept.data) == (each.metadata.uid, {"mine": "yes"})
        stored = await found.pod("g-0")
        assert stored.spec.node_name == ""
        assert any(
            maps.capabilities in (each.message or "") and "nobody controls it" in (each.message or "")
            for each in stored.status.conditions
        )
        assert any("nobody controls it" in each for each in found.log.about("g-0"))


async def test_a_pod_with_the_name_of_a_reservation_is_neither_used_nor_deleted() -> None:
    async with kai(gpu_reservation=RESERVING) as found:
        await start(found, gpus=1)
        await found.create(group("g", 1), half("g-0"))
        await found.schedule()
        (reservation,) = await reservations(found)
        await found.client.delete(reservation, grace_period=0)
        theirs = await found.client.create(
            DynamicObject(pod(reservation.metadata.name, "", 0, namespace=SPACE, schedulerName="other"))
        )
        await found.cluster.clock.sleep(RESERVING.timeout + 60)
        await found.settle()
        assert [each.metadata.uid for each in await reservations(found)] == [theirs.metadata.uid]
        assert (await found.pod("g-0")).spec.node_name == ""
        assert any("is none and is nobody's" in each for each in found.log.about("g-0"))


@pytest.mark.parametrize("is_foreign", [True, False])
async def test_a_bind_request_of_the_name_makes_way_only_if_it_was_made_for_a_pod(is_foreign: bool) -> None:
    async with kai() as found:
        await start(found)
        keeper = await found.client.create(
            DynamicObject(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keeper", "namespace": NS}}
            )
        )
        kind, name = ("ConfigMap", "keeper") if is_foreign else ("Pod", "g-0")
        owner = {
            "apiVersion": "v1",
            "kind": kind,
            "name": name,
            "uid": keeper.metadata.uid,
            "controller": True,
        }
        request = {
            "apiVersion": "scheduling.run.ai/v1alpha2",
            "kind": "BindRequest",
            "metadata": {"name": "g-0", "namespace": NS, "ownerReferences": [owner]},
            "spec": {"podName": "g-0", "selectedNode": "elsewhere"},
        }
        theirs = await found.client.create(DynamicObject(request))
        await found.create(group("g", 1), pod("g-0", "g", 1))
        await found.schedule()
        (left,) = await found.requests()
        assert (left.metadata.uid == theirs.metadata.uid) is is_foreign
        if is_foreign:
            assert any("ConfigMap keeper" in each for each in found.log.about("g-0"))
