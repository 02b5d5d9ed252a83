"""What ``benchmarks.webhook`` sends: one admission review and one conversion review of many objects."""

from __future__ import annotations

from typing import Any, Final

OBJECTS: Final = 1000
Json = dict[str, Any]


def admission_review() -> Json:
    groups: list[Json] = []
    for index in range(20):
        group: Json = {"name": f"worker-group-{index:02d}", "minMember": 4}
        if index:
            group["parent"] = f"worker-group-{(index - 1) // 4:02d}"
        groups.append(group)
    now = "2026-03-01T10:00:00Z"
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"},
            "resource": {"group": "scheduling.run.ai", "version": "v2alpha2", "resource": "podgroups"},
            "requestKind": {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"},
            "requestResource": {"group": "scheduling.run.ai", "version": "v2alpha2", "resource": "podgroups"},
            "name": "training-run",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {
                "username": "system:serviceaccount:team-a:builder",
                "uid": "0c5b1f0e-1d3c-4f0c-8d4b-1c2f5c0f3b52",
                "groups": ["system:serviceaccounts", "system:serviceaccounts:team-a", "system:authenticated"],
            },
            "object": {
                "apiVersion": "scheduling.run.ai/v2alpha2",
                "kind": "PodGroup",
                "metadata": {
                    "name": "training-run",
                    "namespace": "team-a",
                    "uid": "1f6e6f7e-2b1a-4f57-9c55-5c5f2b9a7a11",
                    "creationTimestamp": now,
                    "generation": 1,
                    "labels": {"app": "training", "kai.scheduler/queue": "research"},
                    "managedFields": [
                        {
                            "manager": "kubectl-create",
                            "operation": "Update",
                            "apiVersion": "scheduling.run.ai/v2alpha2",
                            "time": now,
                            "fieldsType": "FieldsV1",
                            "fieldsV1": {
                                "f:spec": {".": {}, "f:minMember": {}, "f:queue": {}, "f:subGroups": {}}
                            },
                        }
                    ],
                },
                "spec": {"minMember": 80, "queue": "research", "subGroups": groups},
            },
            "oldObject": None,
            "dryRun": False,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    }


def node_group(index: int) -> Json:
    now = "2026-03-01T10:00:00Z"
    return {
        "apiVersion": "deckhouse.io/v1alpha1",
        "kind": "NodeGroup",
        "metadata": {
            "name": f"worker-pool-{index:04d}",
            "uid": f"1f6e6f7e-2b1a-4f57-9c55-{index:012d}",
            "resourceVersion": str(100000 + index),
            "generation": 3,
            "creationTimestamp": now,
            "labels": {"team": "research", "tier": "gpu"},
            "annotations": {
                "description": "workers of the research team, kept at three per zone while the big runs last",
                "example.com/owner": "research-platform@example.com",
                "example.com/ticket": "https://tickets",
            },
        },
        "spec": {
            "nodeType": "Cloud",
            "kubernetesVersion": "1.16",
            "docker": {"maxConcurrentDownloads": 4},
            "cloudInstances": {
                "minPerZone": 1,
                "maxPerZone": 5,
                "zones": ["eu-west-1a", "eu-west-1b", "eu-west-1c"],
                "classReference": {"kind": "AWSInstanceClass", "name": "worker"},
            },
            "nodeTemplate": {
                "labels": {"node-role.example.com/worker": "", "accelerator": "h100"},
                "annotations": {"autoscaling.example.com/pool": "gpu"},
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoExecute"}],
            },
            "kubelet": {"maxPods": 110, "rootDir": "/var/lib/kubelet"},
            "disruptions": {"approvalMode": "Automatic"},
        },
        "status": {
            "ready": 3,
            "nodes": 3,
            "instances": 3,
            "desired": 3,
            "upToDate": 3,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "AllNodesReady",
                    "message": "",
                    "lastTransitionTime": now,
                }
            ],
        },
    }


def conversion_review() -> Json:
    return {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "desiredAPIVersion": "deckhouse.io/v1",
            "objects": [node_group(index) for index in range(OBJECTS)],
        },
    }
