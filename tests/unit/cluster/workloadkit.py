"""Helpers of the tests of Jobs, JobSets and simulated nodes."""

from __future__ import annotations

from typing import Any

from quarterdeck.api import DynamicObject, Resource, to_dict
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.client import Client
from quarterdeck.cluster.node import names as simulated

NAMESPACE = "default"
NODE = "node-0"


def pod_spec(**spec: Any) -> dict[str, Any]:
    """A pod spec for a node that is there, so that no scheduler is needed."""
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}], "nodeName": NODE, **spec}


def behaving(**behavior: object) -> dict[str, str]:
    """Annotations by the names of the simulation: ``behaving(exit_code=1)``."""
    return {getattr(simulated, name.upper()): str(value) for name, value in behavior.items()}


def job(
    name: str = "job",
    *,
    pod: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> DynamicObject:
    """A Job whose pods run on the first node."""
    return DynamicObject(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                **spec,
                "template": {
                    "metadata": {"annotations": annotations or {}},
                    "spec": pod_spec(**(pod or {})),
                },
            },
        }
    )


def pod(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> DynamicObject:
    """A pod on the first node that runs for ever unless told otherwise."""
    return DynamicObject(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations or {}},
            "spec": pod_spec(**{"restartPolicy": "Always", **spec}),
        }
    )


async def read_job(client: Client, name: str = "job") -> Job:
    return await client.get(Job, name, NAMESPACE)


async def pods_of(client: Client, name: str = "job") -> list[Pod]:
    found = await client.list(Pod, namespace=NAMESPACE, labels={"batch.kubernetes.io/job-name": name})
    return sorted(found.items, key=lambda each: each.metadata.name)


def verdicts(obj: Any) -> list[tuple[str, str, str]]:
    """(type, status, reason) of the conditions, in order."""
    return [(each.type, each.status, each.reason) for each in obj.status.conditions]


def shown(obj: Resource, *fields: str) -> dict[str, Any]:
    """Some fields of the status, as they stand on the wire."""
    status = to_dict(obj)["status"]
    return {name: status.get(name) for name in fields}
