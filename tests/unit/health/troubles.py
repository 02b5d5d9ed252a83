"""Every situation that health knows, as objects on the wire. Ages are seconds before ``NOW``."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

Json = dict[str, Any]
NOW: Final = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
World = Mapping[str, list[Json]]


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def obj(name: str = "one", *, age: float = 3600, namespace: str = "team", **rest: Any) -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": ago(age),
        **rest.pop("metadata", {}),
    }
    return {"metadata": {key: value for key, value in metadata.items() if value}, **rest}


def having(kind: str, status: str = "True", *, age: float = 3000, **rest: Any) -> Json:
    """A status with one condition."""
    return {"conditions": [{"type": kind, "status": status, "lastTransitionTime": ago(age), **rest}]}


def node(name: str = "node-1", *, gpus: int = 8, usable: int | None = None, **rest: Any) -> Json:
    conditions = rest.pop("conditions", having("Ready")["conditions"])
    status = {
        "capacity": {"nvidia.com/gpu": str(gpus), "cpu": "64", "memory": "512Gi"},
        "allocatable": {
            "nvidia.com/gpu": str(gpus if usable is None else usable),
            "cpu": "64",
            "memory": "512Gi",
        },
        "conditions": conditions,
    }
    return obj(name, namespace="", status=status, **rest)


def pod(
    name: str = "one", *, node: str = "", gang: str = "", requests: Json | None = None, **rest: Any
) -> Json:
    container = {"name": "main", "resources": {"requests": requests or {}}}
    annotations = {"annotations": {"pod-group-name": gang}} if gang else {}
    spec = {"containers": [container], **({"nodeName": node} if node else {}), **rest.pop("spec", {})}
    return obj(name, spec=spec, metadata={**annotations, **rest.pop("metadata", {})}, **rest)


def running(**container: Any) -> Json:
    """A placed pod whose container has this status."""
    status = {"phase": "Running", "containerStatuses": [{"name": "main", "image": "a/b:c", **container}]}
    return pod(node="node-1", status=status)


def waiting(reason: str, **rest: Any) -> Json:
    return running(state={"waiting": {"reason": reason}}, **rest)


def refused(message: str, reason: str = "Unschedulable") -> Json:
    """A pod that a scheduler has no place for, with what it says."""
    told = having("PodScheduled", "False", reason=reason, message=message)
    return pod(status={"phase": "Pending", **told}, requests={"cpu": "1"})


def gang(reason: str, message: str = "", *, name: str = "gang", queue: str = "research") -> Json:
    details = {"queueDetails": {"name": queue}}
    reasons = [{"reason": reason, "message": message, "details": details}] if reason else []
    told = [{"status": "True", "reasons": reasons, "lastTransitionTime": ago(60)}] if reason else []
    return obj(name, spec={"queue": queue, "minMember": 2}, status={"schedulingConditions": told})


def event(reason: str, kind: str, message: str, **annotations: str) -> Json:
    about = {"kind": kind, "namespace": "team", "name": "one"}
    metadata = {"annotations": annotations}
    return obj(
        "e", metadata=metadata, involvedObject=about, reason=reason, message=message, lastTimestamp=ago(60)
    )


def webhooks(*, failure: str = "Fail", days: float = 365, service: bool = False) -> Json:
    where: Json = {"caBundle": bundle(days)}
    if service:
        where["service"] = {"namespace": "system", "name": "hooks"}
    return obj(
        "hooks", namespace="", webhooks=[{"name": "a", "clientConfig": where, "failurePolicy": failure}]
    )


def bundle(days: float) -> str:
    """A certificate that ends so many days from ``NOW``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hooks")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - timedelta(days=400))
        .not_valid_after(NOW + timedelta(days=days))
        .sign(key, hashes.SHA256())
    )
    from cryptography.hazmat.primitives.serialization import Encoding

    return base64.b64encode(made.public_bytes(Encoding.PEM)).decode()


def says(text: str) -> World:
    return {"pods": [refused(f"0/3 nodes are available: {text}")], "nodes": [node()]}


_READY = {"phase": "Running", **having("Ready")}
_LOST = {"phase": "Running", **having("Ready", "False")}
_LATELY_LOST = {"phase": "Running", **having("Ready", "False", age=100)}
_FAILURE = having("Failed", reason="BackoffLimitExceeded", message="it was tried often enough")
_OOM = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": ago(300)}}}

TROUBLES: Final[Mapping[str, World]] = {
    "node-not-ready": {
        "nodes": [node(conditions=having("Ready", "False", message="disk gone")["conditions"])]
    },
    "node-silent": {"nodes": [node(conditions=having("Ready", "Unknown")["conditions"])]},
    "node-memory-pressure": {
        "nodes": [node(conditions=[*_READY["conditions"], *having("MemoryPressure")["conditions"]])]
    },
    "node-disk-pressure": {
        "nodes": [node(conditions=[*_READY["conditions"], *having("DiskPressure")["conditions"]])]
    },
    "node-pid-pressure": {
        "nodes": [node(conditions=[*_READY["conditions"], *having("PIDPressure")["conditions"]])]
    },
    "node-network-unavailable": {
        "nodes": [node(conditions=[*_READY["conditions"], *having("NetworkUnavailable")["conditions"]])]
    },
    "node-gpus-missing": {"nodes": [node(gpus=8, usable=5)]},
    "node-cordoned": {"nodes": [node(spec={"unschedulable": True})]},
    "pod-crash-loop": {"pods": [waiting("CrashLoopBackOff", restartCount=7)]},
    "pod-image": {"pods": [waiting("ImagePullBackOff")]},
    "pod-configuration": {"pods": [waiting("CreateContainerConfigError")]},
    "pod-starting": {"pods": [waiting("ContainerCreating")]},
    "pod-restarting": {
        "pods": [running(restartCount=4, lastState={"terminated": {"exitCode": 1, "finishedAt": ago(60)}})]
    },
    "pod-out-of-memory": {"pods": [running(restartCount=1, **_OOM)]},
    "pod-not-ready": {"pods": [pod(node="node-1", status=_LOST)]},
    "pod-failed": {"pods": [pod(node="node-1", status={"phase": "Failed"})]},
    "pod-evicted": {"pods": [pod(node="node-1", status={"phase": "Failed", "reason": "Evicted"})]},
    "pod-terminating": {"pods": [pod(node="node-1", metadata={"deletionTimestamp": ago(120)})]},
    "pod-gated": {"pods": [pod(spec={"schedulingGates": [{"name": "grove.io/podgang-pending-creation"}]})]},
    "pod-unseen": {"pods": [pod(spec={"schedulerName": "nobody"}, status={"phase": "Pending"})]},
    "pod-binding-failed": {"pods": [refused("no volume", "BindingError")]},
    "no-node-fits": {"pods": [pod(requests={"nvidia.com/gpu": "16"})], "nodes": [node()]},
    "waits-for-gpus": says("3 Insufficient nvidia.com/gpu."),
    "waits-for-cpu": says("3 Insufficient cpu."),
    "waits-for-memory": says("3 Insufficient memory."),
    "waits-for-resource": says("3 Insufficient example.com/nic. preemption: 0/3"),
    "waits-for-pod-slots": says("3 Too many pods."),
    "waits-for-toleration": says("3 node(s) had untolerated taint {dedicated: vision}."),
    "waits-for-labels": says("3 node(s) didn't match Pod's node affinity/selector."),
    "waits-for-pod-affinity": says("3 node(s) didn't match pod anti-affinity rules."),
    "waits-for-spread": says("3 node(s) didn't match pod topology spread constraints."),
    "waits-for-volume": says("3 node(s) had volume node affinity conflict."),
    "waits-for-port": says("3 node(s) didn't have free ports for the requested pod ports."),
    "waits-for-uncordon": says("3 node(s) were unschedulable."),
    "waits-for-devices": says("3 cannot allocate all claims, resourceclaim a."),
    "waits-for-nodes": {"pods": [refused("no nodes available to schedule pods")]},
    "waits": says("3 node(s) are in a mood."),
    "gang-over-limit": {"podgroups": [gang("OverLimit")]},
    "gang-over-quota": {"podgroups": [gang("NonPreemptibleOverQuota")]},
    "gang-waits": {"podgroups": [gang("PodSchedulingErrors", "no rack has room")]},
    "gang-below-minimum": {
        "podgroups": [gang("")],
        "pods": [
            pod("a", gang="gang", node="node-1", status=_READY),
            pod("b", gang="gang", node="node-2", status=_LATELY_LOST),
        ],
    },
    "gang-evicted": {
        "events": [event("Evict", "PodGroup", "evicted", **{"evictor-pod-group-name": "big"})],
    },
    "queue-missing": {"podgroups": [gang("", queue="typo")], "pods": [pod(gang="gang")], "queues": []},
    "queue-parent-missing": {"queues": [obj("a", namespace="", spec={"parentQueue": "gone"})]},
    "queue-at-limit": {
        "queues": [
            obj(
                "a",
                namespace="",
                spec={"resources": {"gpu": {"limit": 8}}},
                status={"allocated": {"nvidia.com/gpu": "8"}, "requested": {"nvidia.com/gpu": "12"}},
            )
        ]
    },
    "bind-request-failed": {"bindrequests": [obj(status={"phase": "Failed", "reason": "no device"})]},
    "job-failed": {"jobs": [obj(status=_FAILURE)]},
    "job-back-off": {"jobs": [obj(status={"failed": 2})]},
    "jobset-failed": {"jobsets": [obj(status=_FAILURE)]},
    "jobset-restarted": {"jobsets": [obj(status={"restarts": 2})]},
    "trainjob-failed": {"trainjobs": [obj(status=_FAILURE)]},
    "trainjob-refused": {"trainjobs": [obj(status=having("Failed", reason="TrainingRuntimeNotSupported"))]},
    "name-taken": {"trainjobs": [obj(status=having("NameTaken"))]},
    "deployment-unavailable": {"deployments": [obj(spec={"replicas": 2}, status={})]},
    "deployment-degraded": {"statefulsets": [obj(spec={"replicas": 2}, status={"availableReplicas": 1})]},
    "deployment-stalled": {
        "deployments": [
            obj(
                spec={"replicas": 0},
                status=having("Progressing", "False", reason="ProgressDeadlineExceeded"),
            )
        ]
    },
    "pods-refused": {"replicasets": [obj(status=having("ReplicaFailure", message="exceeded quota"))]},
    "volume-claim-lost": {"persistentvolumeclaims": [obj(status={"phase": "Lost"})]},
    "volume-claim-pending": {"persistentvolumeclaims": [obj(status={"phase": "Pending"})]},
    "quota-used-up": {"resourcequotas": [obj(status={"hard": {"pods": "4"}, "used": {"pods": "4"}})]},
    "service-unavailable": {"podcliquesets": [obj(spec={"replicas": 1}, status={})]},
    "service-degraded": {"podcliquesets": [obj(spec={"replicas": 2}, status={"availableReplicas": 1})]},
    "minimum-breached": {"podcliques": [obj(status=having("MinAvailableBreached"))]},
    "gang-termination": {"podcliquescalinggroups": [obj(status=having("GangTerminationInProgress"))]},
    "update-stalled": {"podcliquesets": [obj(status={"updateProgress": {"updateStartedAt": ago(7200)}})]},
    "reconcile-failed": {"podcliquesets": [obj(status={"lastErrors": [{"description": "no"}]})]},
    "topology-unavailable": {"podcliquesets": [obj(status=having("TopologyLevelsUnavailable"))]},
    "pool-exhausted": {"subnetpools": [obj(status=having("Exhausted"))]},
    "pool-inconsistent": {"subnetpools": [obj(status=having("Consistent", "False"))]},
    "claim-error": {"subnetclaims": [obj(status={"phase": "Error", "message": "no such pool"})]},
    "claim-pending": {"subnetpoolclaims": [obj(status={"phase": "Pending"})]},
    "subnet-failed": {"subnets": [obj(status={"phase": "Failed"})]},
    "deletion-blocked": {"subnetpools": [obj(status=having("DeletionBlocked"))]},
    "nodegroup-not-synced": {"nodegroups": [obj(namespace="", status={"deckhouse": {"synced": "False"}})]},
    "nodegroup-error": {"nodegroups": [obj(namespace="", status={"error": "no such zone"})]},
    "nodegroup-below-minimum": {"nodegroups": [obj(namespace="", status={"ready": 1, "min": 3})]},
    "nodegroup-outdated": {"nodegroups": [obj(namespace="", status={"nodes": 3, "upToDate": 1})]},
    "machine-failed": {"nodegroups": [obj(namespace="", status={"lastMachineFailures": [{"name": "m"}]})]},
    "webhook-unreachable": {
        "validatingwebhookconfigurations": [webhooks(service=True)],
        "endpointslices": [],
    },
    "webhook-ignored": {
        "mutatingwebhookconfigurations": [webhooks(service=True, failure="Ignore")],
        "endpointslices": [obj("s", endpoints=[])],
    },
    "webhook-failing": {
        "events": [event("FailedCreate", "ReplicaSet", 'failed calling webhook "a.b": connection refused')]
    },
    "certificate-expired": {"validatingwebhookconfigurations": [webhooks(days=-1)]},
    "certificate-expiring": {"validatingwebhookconfigurations": [webhooks(days=3)]},
    "not-leading": {
        "leases": [obj(spec={"holderIdentity": "a", "renewTime": ago(600), "leaseDurationSeconds": 15})]
    },
    "definition-refused": {
        "customresourcedefinitions": [obj(namespace="", status=having("NamesAccepted", "False"))]
    },
    "namespace-terminating": {
        "namespaces": [obj(namespace="", metadata={"deletionTimestamp": ago(1200)}, status={})]
    },
}
