"""Stories of nodes, volumes, devices and certificates, told on any cluster whose nodes are simulated.

As in ``setkit``, what is recorded does not depend on times, UIDs and random names. Each story has a node of
its own where it needs one.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quarterdeck.api import DynamicObject, GroupVersionKind, Resource
from quarterdeck.api.k8s import (
    CertificateSigningRequest,
    CoreEvent,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ValidatingAdmissionPolicy,
)
from quarterdeck.api.k8s.certificates import CertificateSigningRequestCondition
from quarterdeck.client import Client, MergePatch
from quarterdeck.cluster.node.names import FAILED
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.volume.names import SIMULATED_PROVISIONER
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import NotFound
from quarterdeck.testing import eventually

from .setkit import PATIENCE, plain
from .storybook import QUIET, Record, StoryBook

story = StoryBook(
    "controller_stories.json",
    Workloads(nodes=NodeSettings(count=4)),
    simulated=["default-scheduler", "simulated-kubelet", "simulated-node", "simulated-provisioner"],
)
_OF_THE_AUTHORITY = {"2.5.29.35"}
"""Whether a certificate names the key of its authority depends on whether that one has a name."""


async def until(probe: Any) -> None:
    await eventually(probe, timeout=PATIENCE, interval=0.2)


async def make(client: Client, document: dict[str, Any], namespace: str = "", name: str = "it") -> None:
    metadata = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **document.pop("metadata", {}),
    }
    await client.create(DynamicObject({**document, "metadata": metadata}))


def pod(node: str = "", tolerations: list[dict[str, Any]] | None = None, **spec: Any) -> dict[str, Any]:
    whole = {"containers": [{"name": "c", "image": "one"}], "tolerations": tolerations or [], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {**whole, **({"nodeName": node} if node else {})}}


async def raw(client: Client, kind: type[Resource], name: str, namespace: str = "") -> Record:
    page = await client.list_raw(kind, namespace=namespace)
    documents = (json.loads(bytes(item)) for item in page.items)
    return next(each for each in documents if each["metadata"]["name"] == name)


async def told(client: Client, namespace: str, kind: str, *reasons: str) -> list[list[str]]:
    """The events about objects of a kind, each once."""
    await asyncio.sleep(QUIET)
    found = {
        (each.type, each.reason, plain(each.message))
        for each in (await client.list(CoreEvent, namespace=namespace)).items
        if each.involved_object.kind == kind and (not reasons or each.reason in reasons)
    }
    return sorted(list(each) for each in found)


async def fail(client: Client, node: str, *, failed: bool) -> None:
    mark = {"metadata": {"annotations": {FAILED: "true" if failed else None}}}
    await client.patch(await client.get(Node, node), MergePatch(mark))


async def of_node(client: Client, name: str) -> Record:
    node = await client.get(Node, name)
    return {
        "conditions": sorted([each.type, each.status, each.reason] for each in node.status.conditions),
        "messages": sorted({each.message for each in node.status.conditions if each.status == "Unknown"}),
        "taints": sorted([each.key, each.effect] for each in node.spec.taints),
        "ttl": node.metadata.annotations.get("node.alpha.kubernetes.io/ttl"),
    }


async def of_pod(client: Client, namespace: str, name: str = "it") -> Record:
    found = await client.get(Pod, name, namespace)
    kept = ("Ready", "DisruptionTarget")
    conditions = [each for each in found.status.conditions if each.type in kept]
    return {
        "conditions": sorted([each.type, each.status, each.reason, each.message] for each in conditions),
        "is_deleting": found.metadata.is_deleting,
    }


@story
async def node_lost(client: Client, namespace: str) -> list[Record]:
    keys = ("not-ready", "unreachable")
    patient = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 5,
        }
        for key in keys
    ]
    await make(client, pod("node-0", patient), namespace)

    async def runs() -> bool:
        return (await client.get(Pod, "it", namespace)).status.phase == "Running"

    await until(runs)
    await fail(client, "node-0", failed=True)

    async def is_evicted() -> bool:
        return (await client.get(Pod, "it", namespace)).metadata.is_deleting

    await until(is_evicted)
    lost = {"node": await of_node(client, "node-0"), "pod": await of_pod(client, namespace)}
    await fail(client, "node-0", failed=False)

    async def is_over() -> bool:
        try:
            await client.get(Pod, "it", namespace)
        except NotFound:
            return not (await client.get(Node, "node-0")).spec.taints
        return False

    await until(is_over)
    events = {
        "pod": await told(client, namespace, "Pod", "NodeNotReady", "TaintManagerEviction"),
        "node": await told(client, "default", "Node", "NodeNotReady"),
    }
    return [lost, await of_node(client, "node-0"), events]


@story
async def tainted_by_hand(client: Client, namespace: str) -> list[Record]:
    tolerant = {"key": "story", "operator": "Exists", "effect": "NoExecute"}
    await make(client, pod("node-1"), namespace, "meek")
    await make(client, pod("node-1", [tolerant]), namespace, "tough")
    await make(client, pod("node-1", [{**tolerant, "tolerationSeconds": 3600}]), namespace, "patient")

    async def all_run() -> bool:
        found = (await client.list(Pod, namespace=namespace)).items
        return len(found) == 3 and all(each.status.phase == "Running" for each in found)

    await until(all_run)
    taint = {"spec": {"taints": [{"key": "story", "effect": "NoExecute"}]}}
    await client.patch(await client.get(Node, "node-1"), MergePatch(taint))

    async def meek_is_gone() -> bool:
        return len((await client.list(Pod, namespace=namespace)).items) == 2

    await until(meek_is_gone)
    await asyncio.sleep(1)
    await client.patch(await client.get(Node, "node-1"), MergePatch({"spec": {"taints": None}}))
    left = sorted(each.metadata.name for each in (await client.list(Pod, namespace=namespace)).items)
    return [{"left": left, "events": await told(client, namespace, "Pod", "TaintManagerEviction")}]


@story
async def cordoned(client: Client, namespace: str) -> list[Record]:
    await client.patch(await client.get(Node, "node-2"), MergePatch({"spec": {"unschedulable": True}}))

    async def is_tainted() -> bool:
        found = await of_node(client, "node-2")
        return bool(found["taints"] and found["ttl"])

    await until(is_tainted)
    shut = await of_node(client, "node-2")
    await client.patch(await client.get(Node, "node-2"), MergePatch({"spec": {"unschedulable": None}}))

    async def is_open() -> bool:
        return not (await client.get(Node, "node-2")).spec.taints

    await until(is_open)
    return [shut]


def claim(**spec: Any) -> dict[str, Any]:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": whole}


def volume(**spec: Any) -> dict[str, Any]:
    whole = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
        "hostPath": {"path": "/tmp/story"},
        "persistentVolumeReclaimPolicy": "Retain",
        **spec,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "spec": whole}


def of_claim(document: Record) -> Record:
    return {
        "annotations": document["metadata"].get("annotations"),
        "class": document["spec"].get("storageClassName"),
        "volume": plain(document["spec"].get("volumeName")),
        "status": plain(document.get("status")),
    }


def of_volume(document: Record) -> Record:
    reference = document["spec"].get("claimRef") or {}
    return {
        "annotations": document["metadata"].get("annotations"),
        "claim": {key: reference.get(key) for key in ("kind", "namespace", "name")},
        "phase": document["status"].get("phase"),
        "policy": document["spec"].get("persistentVolumeReclaimPolicy"),
    }


async def reaches(client: Client, namespace: str, phase: str) -> None:
    async def holds() -> bool:
        return (await client.get(PersistentVolumeClaim, "it", namespace)).status.phase == phase

    await until(holds)


async def volume_reaches(client: Client, name: str, phase: str) -> None:
    async def holds() -> bool:
        return (await client.get(PersistentVolume, name)).status.phase == phase

    await until(holds)


@story
async def claim_of_a_volume(client: Client, namespace: str) -> list[Record]:
    for name, size in (("story-large", "9Gi"), ("story-fitting", "2Gi"), ("story-small", "500Mi")):
        await make(client, volume(capacity={"storage": size}, storageClassName="story-static"), name=name)
    for name in ("story-large", "story-fitting"):
        await volume_reaches(client, name, "Available")
    await make(client, claim(storageClassName="story-static"), namespace)
    await reaches(client, namespace, "Bound")
    await volume_reaches(client, "story-fitting", "Bound")
    bound = {
        "claim": of_claim(await raw(client, PersistentVolumeClaim, "it", namespace)),
        "volume": of_volume(await raw(client, PersistentVolume, "story-fitting")),
    }
    await client.delete(PersistentVolumeClaim, "it", namespace)
    await volume_reaches(client, "story-fitting", "Released")
    return [bound, of_volume(await raw(client, PersistentVolume, "story-fitting"))]


@story
async def claim_that_fits_nothing(client: Client, namespace: str) -> list[Record]:
    await make(client, volume(storageClassName="story-tiny", capacity={"storage": "1Mi"}), name="story-tiny")
    await volume_reaches(client, "story-tiny", "Available")
    await make(client, claim(storageClassName="story-tiny", volumeName="story-tiny"), namespace)
    await reaches(client, namespace, "Pending")
    found = of_claim(await raw(client, PersistentVolumeClaim, "it", namespace))
    return [found, {"events": await told(client, namespace, "PersistentVolumeClaim")}]


@story
async def claim_that_lost_its_volume(client: Client, namespace: str) -> list[Record]:
    await make(client, volume(storageClassName="story-lost"), name="story-lost")
    await make(client, claim(storageClassName="story-lost"), namespace)
    await reaches(client, namespace, "Bound")
    held = await client.get(PersistentVolume, "story-lost")
    await client.delete(held)
    await client.patch(held, MergePatch({"metadata": {"finalizers": None}}))
    await reaches(client, namespace, "Lost")
    found = of_claim(await raw(client, PersistentVolumeClaim, "it", namespace))
    return [found, {"events": await told(client, namespace, "PersistentVolumeClaim", "ClaimLost")}]


@story
async def claim_that_waits_for_a_node(client: Client, namespace: str) -> list[Record]:
    document = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "provisioner": SIMULATED_PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
    await make(client, document, name="story-waiting")
    await make(client, claim(storageClassName="story-waiting"), namespace)
    await reaches(client, namespace, "Pending")
    await told(client, namespace, "PersistentVolumeClaim")
    mark = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-3"}}}
    await client.patch(await client.get(PersistentVolumeClaim, "it", namespace), MergePatch(mark))
    await reaches(client, namespace, "Bound")
    found = await client.get(PersistentVolumeClaim, "it", namespace)
    await volume_reaches(client, found.spec.volume_name, "Bound")
    bound = {
        "claim": of_claim(await raw(client, PersistentVolumeClaim, "it", namespace)),
        "volume": of_volume(await raw(client, PersistentVolume, found.spec.volume_name)),
        "events": await told(client, namespace, "PersistentVolumeClaim"),
    }
    await client.delete(found)

    async def is_gone() -> bool:
        volumes = (await client.list(PersistentVolume)).items
        return all(each.metadata.name != found.spec.volume_name for each in volumes)

    await until(is_gone)
    return [bound]


@story
async def pod_with_its_own_claim(client: Client, namespace: str) -> list[Record]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": claim(storageClassName="story-none")["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await make(client, pod("node-3", volumes=volumes), namespace)

    async def is_there() -> bool:
        return bool((await client.list(PersistentVolumeClaim, namespace=namespace)).items)

    await until(is_there)
    document = await raw(client, PersistentVolumeClaim, "it-scratch", namespace)
    owners = plain(document["metadata"]["ownerReferences"])
    return [{"labels": document["metadata"]["labels"], "owners": owners}]


@story
async def pod_with_devices(client: Client, namespace: str) -> list[Record]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "story"}}
    spec = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}}
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "spec": spec}
    await make(client, template, namespace)
    entry = {"name": "gpu", "resourceClaimTemplateName": "it"}
    gate = [{"name": "story/wait"}]
    await make(client, pod(resourceClaims=[entry], schedulingGates=gate), namespace)
    await make(
        client,
        pod(resourceClaims=[{**entry, "resourceClaimTemplateName": "none"}], schedulingGates=gate),
        namespace,
        "late",
    )

    async def is_told() -> bool:
        return bool((await client.get(Pod, "it", namespace)).status.resource_claim_statuses)

    await until(is_told)
    [status] = (await client.get(Pod, "it", namespace)).status.resource_claim_statuses
    [found] = (await client.list(ResourceClaim, namespace=namespace)).items
    [owner] = found.metadata.owner_references
    made = {
        "told": [status.name, status.resource_claim_name == found.metadata.name],
        "generated": found.metadata.generate_name,
        "annotations": dict(found.metadata.annotations),
        "labels": dict(found.metadata.labels),
        "owner": [owner.kind, owner.name, owner.controller is True, owner.block_owner_deletion is True],
    }
    events = await told(client, namespace, "Pod", "FailedResourceClaimCreation")
    await client.delete(Pod, "it", namespace)

    async def is_gone() -> bool:
        return not (await client.list(ResourceClaim, namespace=namespace)).items

    await until(is_gone)
    return [made, {"events": events}]


def _asked() -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev"),
            x509.NameAttribute(NameOID.COMMON_NAME, "jane"),
        ]
    )
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


async def _signed(client: Client, name: str, usages: list[str], *, signer: str) -> Record:
    spec = {
        "request": _b64(_asked()),
        "signerName": f"kubernetes.io/{signer}",
        "usages": usages,
        "expirationSeconds": 3600,
    }
    document = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "spec": spec}
    await make(client, document, name=name)
    made = await client.get(CertificateSigningRequest, name)
    yes = CertificateSigningRequestCondition(type="Approved", status="True", reason="Story", message="yes")
    await client.subresource("approval").update(made.evolve(status=made.status.evolve(conditions=(yes,))))

    async def is_decided() -> bool:
        status = (await client.get(CertificateSigningRequest, name)).status
        return bool(status.certificate) or len(status.conditions) > 1

    await until(is_decided)
    status = (await client.get(CertificateSigningRequest, name)).status
    conditions = [[each.type, each.status, each.reason, each.message] for each in status.conditions]
    return {"conditions": conditions, "certificate": _shown(status.certificate)}


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _shown(pem: object) -> Record | None:
    if not isinstance(pem, bytes) or not pem:
        return None
    made = x509.load_pem_x509_certificate(pem)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    purpose = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    life = made.not_valid_after_utc - made.not_valid_before_utc
    return {
        "subject": made.subject.rfc4514_string(),
        "life": life.total_seconds(),
        "usage": [usage.critical, usage.value.digital_signature, usage.value.key_encipherment],
        "purposes": [purpose.critical, *(each.dotted_string for each in purpose.value)],
        "extensions": sorted({each.oid.dotted_string for each in made.extensions} - _OF_THE_AUTHORITY),
    }


@story
async def certificates(client: Client, namespace: str) -> list[Record]:
    usages = ["digital signature", "key encipherment", "client auth"]
    return [
        await _signed(client, "story-good", usages, signer="kube-apiserver-client"),
        await _signed(client, "story-greedy", ["client auth", "server auth"], signer="kube-apiserver-client"),
        await _signed(client, "story-no-node", usages, signer="kube-apiserver-client-kubelet"),
    ]


@story
async def range_of_services(client: Client, namespace: str) -> list[Record]:
    kind = GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDR")
    document = {"apiVersion": str(kind.group_version), "kind": "ServiceCIDR"}
    await make(client, {**document, "spec": {"cidrs": ["10.77.0.0/24"]}}, name="story")

    async def is_ready() -> bool:
        return bool((await client.get(kind, "story")).get("status", {}).get("conditions"))

    await until(is_ready)
    found = (await client.get(kind, "story")).to_dict()
    await client.delete(kind, "story")

    async def is_gone() -> bool:
        try:
            await client.get(kind, "story")
        except NotFound:
            return True
        return False

    await until(is_gone)
    return [{"finalizers": found["metadata"]["finalizers"], "status": plain(found["status"])}]


@story
async def policy_that_is_seen(client: Client, namespace: str) -> list[Record]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}
    api = "admissionregistration.k8s.io/v1"
    await make(client, {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "spec": spec}, name="story")

    async def is_seen() -> bool:
        return bool((await client.get(ValidatingAdmissionPolicy, "story")).status.observed_generation)

    await until(is_seen)
    return [{"status": (await raw(client, ValidatingAdmissionPolicy, "story"))["status"]}]
