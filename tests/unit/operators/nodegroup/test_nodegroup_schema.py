"""The schemas, row by row, through an API server that has nothing but the definition."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.client import MergePatch
from quarterdeck.errors import Invalid
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import definition
from quarterdeck.testing import TestCluster

Json = dict[str, Any]
ALL = ("v1alpha1", "v1alpha2", "v1")
OLD = ("v1alpha1", "v1alpha2")
NEW = ("v1",)
REFERENCE = {"kind": "AWSInstanceClass", "name": "w"}
INSTANCES = {"classReference": REFERENCE, "minPerZone": 0, "maxPerZone": 1}
WINDOW = {"from": "8:00", "to": "18:30"}


def instances(**more: Any) -> Json:
    return {"cloudInstances": {**INSTANCES, **more}}


def holder(**resources: Any) -> Json:
    return instances(standbyHolder={"notHeldResources": resources})


def mig(**more: Any) -> Json:
    return {"gpu": {"sharing": "MIG", "mig": more}}


def slices(**more: Any) -> Json:
    one = {"profile": "1g.5gb", "count": 1, **more}
    return mig(partedConfig="custom", customConfigs=[{"index": 0, "slices": [one]}])


def static(**reserved: Any) -> Json:
    return {"kubelet": {"resourceReservation": {"mode": "Static", "static": reserved}}}


def expression(**more: Any) -> Json:
    return {"staticInstances": {"labelSelector": {"matchExpressions": [more]}}}


def disruptions(mode: str, **more: Any) -> Json:
    return {"disruptions": {"approvalMode": mode, **more}}


ACCEPTED: list[tuple[tuple[str, ...], Json]] = [
    (ALL, {}),
    (("v1alpha1",), {"kubernetesVersion": "1.32", "static": {"internalNetworkCIDRs": ["10.0.0.0/8"]}}),
    (("v1alpha1",), {"docker": {"maxConcurrentDownloads": 3, "manage": True}, "cri": {}}),
    (ALL, {"cri": {"type": "NotManaged"}}),
    (("v1alpha2", "v1"), {"cri": {"type": "NotManaged", "notManaged": {"criSocketPath": "/run/x"}}}),
    (NEW, {"cri": {"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 1}}}),
    (OLD, instances(zones=["a"], maxUnavailablePerZone=0, maxSurgePerZone=0, standby=0)),
    (OLD, instances(standby="10%")),
    (OLD, holder(cpu="500m", memory="1.5Gi")),
    (OLD, holder(cpu=1, memory=2)),
    (ALL, {"nodeTemplate": {"labels": {"a": "b"}, "taints": [{"key": "k", "effect": "NoExecute"}]}}),
    (ALL, {"chaos": {"mode": "DrainAndDelete", "period": "6h"}}),
    (NEW, {"chaos": {"period": "1h30m"}}),
    (ALL, {"operatingSystem": {"manageKernel": False}}),
    (ALL, disruptions("Manual")),
    (ALL, disruptions("Automatic", automatic={"drainBeforeApproval": False, "windows": [WINDOW]})),
    (ALL, disruptions("RollingUpdate", rollingUpdate={"windows": [{**WINDOW, "days": ["Mon", "Sun"]}]})),
    (ALL, {"kubelet": {"containerLogMaxSize": "1m", "containerLogMaxFiles": 20, "seccompDefault": True}}),
    (NEW, static(cpu=2)),
    (NEW, static(cpu="500m", memory="1Gi", ephemeralStorage="10G")),
    (NEW, {"kubelet": {"resourceReservation": {"mode": "Off"}}}),
    (NEW, {"kubelet": {"memorySwap": {"swapBehavior": "NoSwap", "swappiness": 100}}}),
    (NEW, {"kubelet": {"memorySwap": {"swapBehavior": "LimitedSwap", "limitedSwap": {"size": "4G"}}}}),
    (NEW, {"update": {"maxConcurrent": "25%"}}),
    (NEW, {"fencing": {"mode": "Watchdog", "watchdog": {"timeout": "2m"}}}),
    (NEW, {"fencing": {"mode": "Watchdog", "watchdog": {}}}),
    (NEW, {"nodeDrainTimeoutSecond": -1}),
    (NEW, {"gpu": {"sharing": "TimeSlicing", "timeSlicing": {"partitionCount": 2.5}}}),
    (NEW, {"gpu": {"sharing": "Exclusive", "exclusive": {}}}),
    (NEW, mig(partedConfig="all-1g.10gb.me")),
    (NEW, mig()),
    (NEW, slices(profile="3g.20gb.me", count=7)),
    (NEW, expression(key="a", operator="Exists")),
    (NEW, expression(key="a", operator="In", values=["b"])),
    (NEW, {"staticInstances": {"labelSelector": {"matchLabels": {"a": "b"}}, "count": 0}}),
]

REFUSED: list[tuple[tuple[str, ...], Json, str]] = [
    (ALL, {"nodeType": "Other"}, "spec.nodeType"),
    (OLD, {"nodeType": "CloudEphemeral"}, "spec.nodeType"),
    (NEW, {"nodeType": "Hybrid"}, "spec.nodeType"),
    (("v1alpha1",), {"kubernetesVersion": "1.31"}, "spec.kubernetesVersion"),
    (ALL, {"cri": {"type": "Podman"}}, "spec.cri"),
    (OLD, {"cri": {"type": "ContainerdV2"}}, "spec.cri"),
    (("v1alpha2", "v1"), {"cri": {}}, "spec.cri"),
    (OLD, {"cloudInstances": {"minPerZone": 1, "maxPerZone": 1}}, "spec.cloudInstances.classReference"),
    (OLD, {"cloudInstances": {"classReference": REFERENCE}}, "spec.cloudInstances.m"),
    (OLD, instances(minPerZone=-1), "spec.cloudInstances.minPerZone"),
    (OLD, instances(maxSurgePerZone=-1), "spec.cloudInstances.maxSurgePerZone"),
    (OLD, instances(standby="ten"), "spec.cloudInstances.standby"),
    (OLD, instances(classReference={"kind": "Machine"}), "spec.cloudInstances.classReference.kind"),
    (OLD, holder(cpu="1.5"), "spec.cloudInstances.standbyHolder.notHeldResources.cpu"),
    (OLD, holder(memory="1gb"), "spec.cloudInstances.standbyHolder.notHeldResources.memory"),
    (ALL, {"nodeTemplate": {"taints": [{"effect": "Never"}]}}, "spec.nodeTemplate.taints[0].effect"),
    (ALL, {"chaos": {"mode": "Always"}}, "spec.chaos.mode"),
    (OLD, {"chaos": {"period": "1h30m"}}, "spec.chaos.period"),
    (NEW, {"chaos": {"period": "30m1h"}}, "spec.chaos.period"),
    (ALL, {"disruptions": {}}, "spec.disruptions"),
    (ALL, disruptions("Manual", automatic={}), "spec.disruptions"),
    (ALL, disruptions("Automatic", rollingUpdate={}), "spec.disruptions"),
    (ALL, disruptions("RollingUpdate", automatic={}), "spec.disruptions"),
    (ALL, disruptions("Automatic", automatic={"windows": [{"from": "1:00"}]}), "spec.disruptions"),
    (ALL, disruptions("Automatic", automatic={"windows": [{**WINDOW, "to": "24:00"}]}), "spec.disruptions"),
    (ALL, disruptions("Automatic", automatic={"windows": [{**WINDOW, "days": ["X"]}]}), "spec.disruptions"),
    (ALL, {"kubelet": {"containerLogMaxSize": "50"}}, "spec.kubelet.containerLogMaxSize"),
    (ALL, {"kubelet": {"containerLogMaxFiles": 0}}, "spec.kubelet.containerLogMaxFiles"),
    (NEW, static(), "spec.kubelet.resourceReservation.static"),
    (NEW, static(cpu="2"), "spec.kubelet.resourceReservation.static.cpu"),
    (NEW, {"kubelet": {"resourceReservation": {"mode": "Some"}}}, "spec.kubelet.resourceReservation"),
    (NEW, {"kubelet": {"resourceReservation": {"mode": "Static"}}}, "spec.kubelet.resourceReservation"),
    (NEW, {"kubelet": {"topologyManager": {"scope": "Node"}}}, "spec.kubelet.topologyManager.scope"),
    (NEW, {"kubelet": {"topologyManager": {"policy": "Best"}}}, "spec.kubelet.topologyManager.policy"),
    (NEW, {"kubelet": {"memorySwap": {"swapBehavior": "LimitedSwap"}}}, "spec.kubelet.memorySwap"),
    (
        NEW,
        {"kubelet": {"memorySwap": {"swapBehavior": "NoSwap", "limitedSwap": {"size": "1G"}}}},
        "spec.kubelet.memorySwap",
    ),
    (
        NEW,
        {"kubelet": {"memorySwap": {"swapBehavior": "NoSwap", "swappiness": 101}}},
        "spec.kubelet.memorySwap",
    ),
    (NEW, {"update": {"maxConcurrent": "0%"}}, "spec.update.maxConcurrent"),
    (NEW, {"fencing": {}}, "spec.fencing.mode"),
    (NEW, {"fencing": {"mode": "Watchdog", "watchdog": {"timeout": "1d"}}}, "spec.fencing.watchdog.timeout"),
    (NEW, {"gpu": {"timeSlicing": {}}}, "spec.gpu"),
    (NEW, {"gpu": {"sharing": "TimeSlicing", "timeSlicing": {"partitionCount": 101}}}, "spec.gpu"),
    (NEW, mig(partedConfig="some"), "spec.gpu.mig"),
    (NEW, mig(partedConfig="custom"), "spec.gpu.mig"),
    (NEW, mig(partedConfig="custom", customConfigs=[]), "spec.gpu.mig"),
    (NEW, mig(partedConfig="all-balanced", customConfigs=[{"index": 0, "slices": []}]), "spec.gpu.mig"),
    (NEW, slices(count=8), "spec.gpu.mig.customConfigs[0].slices[0].count"),
    (NEW, slices(profile="5gb"), "spec.gpu.mig.customConfigs[0].slices[0].profile"),
    (NEW, expression(key="a", operator="In"), "spec.staticInstances.labelSelector.matchExpressions[0]"),
    (NEW, expression(operator="Exists"), "spec.staticInstances.labelSelector.matchExpressions[0]"),
    (
        NEW,
        expression(key="a", operator="Exists", values=["b"]),
        "spec.staticInstances.labelSelector.matchExpressions[0]",
    ),
    (NEW, expression(key="a", operator="In", values=["x" * 64]), "spec.staticInstances.labelSelector"),
    (NEW, {"staticInstances": {"count": -1}}, "spec.staticInstances.count"),
    (NEW, {"nodeType": "CloudEphemeral"}, "spec"),
    (NEW, {"nodeType": "CloudEphemeral", **instances(), "staticInstances": {}}, "spec"),
    (NEW, {"nodeType": "CloudPermanent", "staticInstances": {}}, "spec"),
    (NEW, instances(), "spec"),
]


def group(version: str, name: str = "w", **spec: Any) -> DynamicObject:
    return DynamicObject(
        {
            "apiVersion": f"{names.GROUP}/{version}",
            "kind": names.KIND,
            "metadata": {"name": name},
            "spec": {"nodeType": "Static", **spec},
        }
    )


@pytest.fixture
def crd() -> Json:
    return definition()


@pytest.mark.parametrize("version", ALL)
async def test_what_the_schema_allows_is_accepted(version: str, crd: Json) -> None:
    async with TestCluster(crds=[crd]) as cluster:
        for versions, spec in ACCEPTED:
            if version in versions:
                await cluster.client.create(group(version, **spec), dry_run=True)


@pytest.mark.parametrize("version", ALL)
async def test_what_the_schema_forbids_is_refused_with_its_place(version: str, crd: Json) -> None:
    let_through: list[Json] = []
    async with TestCluster(crds=[crd]) as cluster:
        for versions, spec, path in REFUSED:
            if version not in versions:
                continue
            try:
                await cluster.client.create(group(version, **spec), dry_run=True)
            except Invalid as error:
                found = [f"{cause.field} {cause.message}" for cause in error.details.causes]
                assert any(path in text for text in found), (spec, found)
            else:
                let_through.append(spec)
    assert let_through == []


@pytest.mark.parametrize("name", ["a" * 42, "a", "0-a"])
@pytest.mark.parametrize("version", ALL)
async def test_names_that_fit_into_labels(version: str, name: str, crd: Json) -> None:
    async with TestCluster(crds=[crd]) as cluster:
        await cluster.client.create(group(version, name), dry_run=True)
        for bad in ("a" * 43, "a.b"):
            with pytest.raises(Invalid, match=r"metadata\.name"):
                await cluster.client.create(group(version, bad), dry_run=True)


DEFAULT_KUBELET = {
    "containerLogMaxSize": "50Mi",
    "containerLogMaxFiles": 4,
    "resourceReservation": {"mode": "Auto"},
}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({}, {"kubelet": DEFAULT_KUBELET}),
        (
            {"kubelet": {"topologyManager": {}, "memorySwap": {}}},
            {
                "kubelet": {
                    **DEFAULT_KUBELET,
                    "topologyManager": {"enabled": False, "scope": "Container", "policy": "None"},
                    "memorySwap": {"swappiness": 60},
                }
            },
        ),
        ({"update": {}}, {"kubelet": DEFAULT_KUBELET, "update": {"maxConcurrent": 1}}),
        ({"staticInstances": {}}, {"kubelet": DEFAULT_KUBELET, "staticInstances": {"count": 0}}),
        (
            {"fencing": {"mode": "Watchdog", "watchdog": {}}},
            {"kubelet": DEFAULT_KUBELET, "fencing": {"mode": "Watchdog", "watchdog": {"timeout": "60s"}}},
        ),
        (
            {"chaos": {}, "nodeTemplate": {}, "operatingSystem": {}},
            {"kubelet": DEFAULT_KUBELET, "chaos": {}, "nodeTemplate": {}, "operatingSystem": {}},
        ),
    ],
)
async def test_defaults_of_v1(spec: Json, wanted: Json, crd: Json) -> None:
    async with TestCluster(crds=[crd]) as cluster:
        created = await cluster.client.create(group("v1", **spec))
        assert created.to_dict()["spec"] == {"nodeType": "Static", **wanted}


async def test_unknown_fields_are_pruned(crd: Json) -> None:
    async with TestCluster(crds=[crd]) as cluster:
        created = await cluster.client.create(
            group("v1", bogus=1, kubelet={"bogus": 1}, gpu={"sharing": "MIG"})
        )
        assert created.to_dict()["spec"] == {
            "nodeType": "Static",
            "kubelet": DEFAULT_KUBELET,
            "gpu": {"sharing": "MIG"},
        }


SELECTOR_RULE = (
    r"spec\.staticInstances\.labelSelector can be added but cannot be modified once set\. "
    r"To change it, create a new NodeGroup\."
)


async def test_a_label_selector_is_added_but_never_changed(crd: Json) -> None:
    async with TestCluster(crds=[crd]) as cluster:
        created = await cluster.client.create(group("v1", staticInstances={"count": 1}))

        async def change(value: Any) -> DynamicObject:
            patch = MergePatch({"spec": {"staticInstances": value}})
            return await cluster.client.patch(created, patch)

        await change({"labelSelector": {"matchLabels": {"a": "b"}}})
        await change({"count": 2})
        for value in (
            {"labelSelector": {"matchLabels": {"a": "c"}}},
            {"labelSelector": {"matchLabels": {"x": "y"}}},
        ):
            with pytest.raises(Invalid, match=SELECTOR_RULE):
                await change(value)
        removed = await change(None)
        assert "staticInstances" not in removed.to_dict()["spec"], "only the webhook sees this"
