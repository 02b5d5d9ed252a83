"""Stories of what every cluster has: namespaces, owners, accounts, roles, quotas, protection, autoscaling.

They belong to the book of ``clusterstory``.
"""

from __future__ import annotations

from typing import Any

from quarterdeck.api import ObjectMeta, Resource
from quarterdeck.api.k8s import (
    ClusterRole,
    ConfigMap,
    CoreEvent,
    Deployment,
    EndpointSlice,
    HorizontalPodAutoscaler,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Secret,
    ServiceAccount,
)
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound

from .clusterstory import claim, make, of_pod, pod, raw, reaches, story, told, until, volume, volume_reaches
from .setkit import LABELS, plain, template
from .storybook import Record

__all__ = ["story"]

KEEPER = "example.com/keep"


def gone(client: Client, kind: type[Resource], name: str, namespace: str = "") -> Any:
    async def is_gone() -> bool:
        try:
            await client.get(kind, name, namespace)
        except NotFound:
            return True
        return False

    return is_gone


async def let_go(client: Client, kind: type[Resource], name: str, namespace: str) -> None:
    """Take the finalizer of the story away."""
    found = await client.get(kind, name, namespace)
    kept = [each for each in found.metadata.finalizers if each != KEEPER]
    await client.patch(found, MergePatch({"metadata": {"finalizers": kept}}))


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@story
async def namespace_emptied(client: Client, namespace: str) -> list[Record]:
    name = f"{namespace}-doomed"
    await client.create(Namespace(metadata=ObjectMeta(name=name)))
    await make(client, config_map(finalizers=[KEEPER]), name)
    await client.delete(Namespace, name)

    async def says_what_is_left() -> bool:
        found = await client.get(Namespace, name)
        return any(
            each.type == "NamespaceFinalizersRemaining" and each.status == "True"
            for each in found.status.conditions
        )

    await until(says_what_is_left)
    status = plain((await raw(client, Namespace, name))["status"])
    await let_go(client, ConfigMap, "it", name)
    await until(gone(client, Namespace, name))
    return [{**status, "conditions": sorted(status["conditions"], key=lambda each: each["type"])}]


@story
async def owners_deleted(client: Client, namespace: str) -> list[Record]:
    found: list[Record] = []
    for policy in ("Background", "Foreground", "Orphan"):
        owner = await client.create(ConfigMap(metadata=ObjectMeta(name=policy.lower(), namespace=namespace)))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner.metadata.name,
            "uid": owner.metadata.uid,
            "blockOwnerDeletion": True,
        }
        child = f"child-{owner.metadata.name}"
        await make(client, config_map(ownerReferences=[reference], finalizers=[KEEPER]), namespace, child)
        await client.delete(owner, propagation=policy)

        async def is_known(child: str = child, policy: str = policy) -> bool:
            left = await client.get(ConfigMap, child, namespace)
            return not left.metadata.owner_references if policy == "Orphan" else left.metadata.is_deleting

        await until(is_known)
        if policy == "Foreground":
            waiting = await client.get(ConfigMap, owner.metadata.name, namespace)
            found.append({"finalizers": list(waiting.metadata.finalizers)})
        left = await client.get(ConfigMap, child, namespace)
        found.append({"owners": len(left.metadata.owner_references), "goes": left.metadata.is_deleting})
        await let_go(client, ConfigMap, child, namespace)
        await until(gone(client, ConfigMap, owner.metadata.name, namespace))
    return found


@story
async def accounts_furnished(client: Client, namespace: str) -> list[Record]:
    async def has_both() -> bool:
        try:
            await client.get(ServiceAccount, "default", namespace)
            found = await client.get(ConfigMap, "kube-root-ca.crt", namespace)
        except NotFound:
            return False
        return "BEGIN CERTIFICATE" in found.data.get("ca.crt", "")

    await until(has_both)
    bundle = await client.get(ConfigMap, "kube-root-ca.crt", namespace)
    await client.delete(ServiceAccount, "default", namespace)
    await client.patch(bundle, MergePatch({"data": {"ca.crt": "nonsense", "more": "x"}}))
    await until(has_both)
    again = await client.get(ConfigMap, "kube-root-ca.crt", namespace)
    return [
        {"annotations": dict(bundle.metadata.annotations), "keys": sorted(bundle.data)},
        {"is_restored": again.data == bundle.data},
    ]


@story
async def token_in_a_secret(client: Client, namespace: str) -> list[Record]:
    await make(client, {"apiVersion": "v1", "kind": "ServiceAccount"}, namespace, "robot")
    annotations = {"kubernetes.io/service-account.name": "robot"}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token"}
    await make(client, {**secret, "metadata": {"annotations": annotations}}, namespace)

    async def is_filled() -> bool:
        return "token" in (await client.get(Secret, "it", namespace)).data

    await until(is_filled)
    found = await client.get(Secret, "it", namespace)
    await client.delete(ServiceAccount, "robot", namespace)
    await until(gone(client, Secret, "it", namespace))
    return [{"annotations": plain(dict(found.metadata.annotations)), "keys": sorted(found.data)}]


@story
async def roles_gathered(client: Client, namespace: str) -> list[Record]:
    api = "rbac.authorization.k8s.io/v1"
    for name, verb in (("story-b", "list"), ("story-a", "get")):
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": [verb]}]
        metadata = {"labels": {"story": "roles"}}
        await make(
            client, {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}, "", name
        )
    selector = {"clusterRoleSelectors": [{"matchLabels": {"story": "roles"}}]}
    whole = {"apiVersion": api, "kind": "ClusterRole", "aggregationRule": selector, "rules": []}
    await make(client, whole, name="story-all")

    async def has(count: int) -> bool:
        return len((await client.get(ClusterRole, "story-all")).rules) == count

    await until(lambda: has(2))
    both = (await raw(client, ClusterRole, "story-all"))["rules"]
    await client.delete(ClusterRole, "story-a")
    await until(lambda: has(1))
    return [{"rules": both}, {"rules": (await raw(client, ClusterRole, "story-all"))["rules"]}]


@story
async def quota_counted(client: Client, namespace: str) -> list[Record]:
    hard = {"pods": "5", "requests.cpu": "2", "count/secrets": "9"}
    await make(client, {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": hard}}, namespace)

    async def uses(pods: str) -> bool:
        return str((await client.get(ResourceQuota, "it", namespace)).status.used.get("pods")) == pods

    await until(lambda: uses("0"))
    container = {"name": "c", "image": "one", "resources": {"requests": {"cpu": "250m"}}}
    await make(client, pod(containers=[container]), namespace)
    await until(lambda: uses("1"))
    used = (await raw(client, ResourceQuota, "it", namespace))["status"]
    await client.delete(Pod, "it", namespace, grace_period=0)
    await until(lambda: uses("0"))
    return [used, (await raw(client, ResourceQuota, "it", namespace))["status"]]


@story
async def claims_protected(client: Client, namespace: str) -> list[Record]:
    size: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": namespace}
    capacity = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "",
    }
    await make(client, {"apiVersion": "v1", "kind": "PersistentVolume", "spec": capacity}, "", namespace)
    spec = {**size, "resources": {"requests": {"storage": "1Gi"}}}
    await make(client, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}, namespace)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "it"}}]
    await make(client, pod(volumes=volumes), namespace)

    async def runs() -> bool:
        return (await client.get(Pod, "it", namespace)).status.phase == "Running"

    await until(runs)
    await client.delete(PersistentVolumeClaim, "it", namespace)
    await client.delete(PersistentVolume, namespace)
    held = await client.get(PersistentVolumeClaim, "it", namespace)
    behind = await client.get(PersistentVolume, namespace)
    found = {
        "claim": [held.metadata.is_deleting, list(held.metadata.finalizers)],
        "volume": [behind.metadata.is_deleting, list(behind.metadata.finalizers)],
    }
    await client.delete(Pod, "it", namespace, grace_period=0)
    await until(gone(client, PersistentVolumeClaim, "it", namespace))
    await until(gone(client, PersistentVolume, namespace))
    return [found]


@story
async def claim_that_grows(client: Client, namespace: str) -> list[Record]:
    api = "storage.k8s.io/v1"
    storage_class = {"apiVersion": api, "kind": "StorageClass", "provisioner": "disk.example"}
    await make(client, {**storage_class, "allowVolumeExpansion": True}, name="story-growing")
    source = {"csi": {"driver": "disk.example", "volumeHandle": "h"}}
    grown = volume(storageClassName="story-growing", hostPath=None, **source)
    await make(client, grown, name="story-growing")
    await volume_reaches(client, "story-growing", "Available")
    await make(client, claim(storageClassName="story-growing"), namespace)
    await reaches(client, namespace, "Bound")
    bound = await client.get(PersistentVolumeClaim, "it", namespace)
    await client.patch(bound, MergePatch({"spec": {"resources": {"requests": {"storage": "5Gi"}}}}))

    async def is_told() -> bool:
        events = (await client.list(CoreEvent, namespace=namespace)).items
        return any(each.reason == "ExternalExpanding" for each in events)

    await until(is_told)
    status = plain((await raw(client, PersistentVolumeClaim, "it", namespace))["status"])
    return [
        {
            "status": status,
            "events": await told(client, namespace, "PersistentVolumeClaim", "ExternalExpanding"),
        }
    ]


@story
async def pod_of_a_node_that_never_was(client: Client, namespace: str) -> list[Record]:
    await make(client, {**pod("nowhere"), "metadata": {"finalizers": [KEEPER]}}, namespace)

    async def is_failed() -> bool:
        found = await client.get(Pod, "it", namespace)
        return found.status.phase == "Failed" and found.metadata.is_deleting

    await until(is_failed)
    status = (await raw(client, Pod, "it", namespace))["status"]
    await let_go(client, Pod, "it", namespace)
    await until(gone(client, Pod, "it", namespace))
    mine = [plain(each) for each in status["conditions"] if each["type"] == "DisruptionTarget"]
    return [{"phase": status["phase"], "conditions": mine}]


@story
async def eviction_that_never_came(client: Client, namespace: str) -> list[Record]:
    """Announced long ago: nobody deleted the pod, so the announcement is taken back."""
    await make(client, pod(schedulerName="nobody"), namespace)
    announced = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    found = await client.get(Pod, "it", namespace)
    await client.status.patch(found, MergePatch({"status": {"conditions": [announced]}}))

    async def is_taken_back() -> bool:
        seen = await client.get(Pod, "it", namespace)
        return any(
            each.type == "DisruptionTarget" and each.status == "False" for each in seen.status.conditions
        )

    await until(is_taken_back)
    return [await of_pod(client, namespace)]


@story
async def autoscaled_without_metrics(client: Client, namespace: str) -> list[Record]:
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template()}
    await make(client, {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}, namespace)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it"}
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    scaler = {
        "scaleTargetRef": target,
        "minReplicas": 3,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": metric}],
    }
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": scaler}
    await make(client, document, namespace)

    async def is_told() -> bool:
        found = await client.get(HorizontalPodAutoscaler, "it", namespace)
        return any(
            each.type == "ScalingActive" and each.reason == "FailedGetResourceMetric"
            for each in found.status.conditions
        )

    await until(is_told)
    status = plain((await raw(client, HorizontalPodAutoscaler, "it", namespace))["status"])
    deployment = await client.get(Deployment, "it", namespace)
    events = await told(client, namespace, "HorizontalPodAutoscaler")
    return [{"status": status, "replicas": deployment.spec.replicas, "events": events}]


@story
async def endpoints_mirrored(client: Client, namespace: str) -> list[Record]:
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"name": "p", "port": 80}]}}
    await make(client, service, namespace)
    subset = {
        "addresses": [{"ip": "192.0.2.1", "hostname": "one"}],
        "notReadyAddresses": [{"ip": "192.0.2.2"}],
        "ports": [{"name": "p", "port": 8080}],
    }
    await make(client, {"apiVersion": "v1", "kind": "Endpoints", "subsets": [subset]}, namespace)

    async def is_mirrored() -> bool:
        return bool((await client.list(EndpointSlice, namespace=namespace)).items)

    await until(is_mirrored)
    [found] = (await client.list(EndpointSlice, namespace=namespace)).items
    document = found.to_dict()
    endpoints = sorted(document["endpoints"], key=lambda each: each["addresses"])
    return [
        {
            "labels": document["metadata"]["labels"],
            "ports": document["ports"],
            "type": document["addressType"],
            "endpoints": endpoints,
        }
    ]
