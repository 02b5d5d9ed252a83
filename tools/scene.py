"""A cluster worth looking at: sixteen nodes in four racks, three teams, gangs that run and some that wait.

For the pictures in the docs and for tests of the page; nothing in it is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["NODES", "WAITING", "objects", "troubles"]

Json = dict[str, Any]
ZONE, RACK, HOST = "topology.kubernetes.io/zone", "example.com/rack", "kubernetes.io/hostname"
WAITING = "foundation-model"
"""The gang that waits because no rack has room for all of it, ever."""
NODES = ("--nodes", "16", "--node-capacity", "cpu=128,memory=1024Gi,nvidia.com/gpu=8")
"""The options of `quarterdeck up` that the scene needs."""


def objects() -> Iterator[Json]:
    """Everything, in the order in which it is to be applied."""
    yield from _nodes()
    yield _make(
        "kai.scheduler/v1alpha1",
        "Topology",
        "racks",
        spec={"levels": [{"nodeLabel": each} for each in (ZONE, RACK, HOST)]},
    )
    yield from _queues()
    yield from _gangs()
    yield from _trainings()
    yield from _inference()
    yield from _addresses()
    yield from _groups()


def troubles() -> Iterator[Json]:
    """What makes the cluster a case for whoever is on call: a node that fails, and pods that crash."""
    yield _make("v1", "Node", "node-9", metadata={"annotations": {"quarterdeck.dev/failed": "true"}})
    notes = {"quarterdeck.dev/run-seconds": "2", "quarterdeck.dev/exit-code": "1"}
    container = {"name": "server", "image": "example.com/embedding:2"}
    template = {
        "metadata": {"labels": {"app": "embedding"}, "annotations": notes},
        "spec": {"containers": [container]},
    }
    selector = {"matchLabels": {"app": "embedding"}}
    spec = {"replicas": 3, "selector": selector, "template": template}
    yield _make("apps/v1", "Deployment", "embedding", "default", spec=spec)


def _make(version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Json:
    metadata: Json = {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        **rest.pop("metadata", {}),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def _nodes() -> Iterator[Json]:
    """Where each node is; they are there already."""
    for number in range(16):
        rack = number // 4
        labels = {ZONE: f"zone-{'ab'[rack // 2]}", RACK: f"rack-{rack + 1}"}
        yield _make("v1", "Node", f"node-{number}", metadata={"labels": labels})


def _queues() -> Iterator[Json]:
    anything = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    for name, parent, quota, title in (
        ("research", "", 96, "Research"),
        ("vision", "research", 32, "Vision"),
        ("speech", "research", 32, "Speech"),
        ("language", "research", 32, "Language"),
        ("production", "", 32, "Production"),
    ):
        spec: Json = {
            "displayName": title,
            "resources": {
                "gpu": {"quota": quota, "limit": -1, "overQuotaWeight": 1},
                "cpu": anything,
                "memory": anything,
            },
        }
        if parent:
            spec["parentQueue"] = parent
        yield _make("scheduling.run.ai/v2", "Queue", name, spec=spec)


def _gangs() -> Iterator[Json]:
    """JobSets of so many pods with so many GPUs each."""
    for name, queue, pods, gpus in (
        ("segmentation", "vision", 3, 8),
        ("detection", "vision", 2, 4),
        ("transcription", "speech", 6, 4),
        ("diarization", "speech", 6, 2),
        ("translation", "language", 4, 4),
        ("search", "production", 5, 4),
    ):
        yield _job_set(name, queue, pods, gpus)
    near = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": RACK}
    yield _job_set(WAITING, "language", 5, 8, near)  # a rack has four nodes


def _job_set(name: str, queue: str, pods: int, gpus: int, annotations: dict[str, str] | None = None) -> Json:
    container = {
        "name": "main",
        "image": f"example.com/{name}:1",
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": str(gpus)}},
    }
    template = {
        "metadata": {"annotations": {"quarterdeck.dev/run-seconds": "86400"}},
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]},
    }
    job = {"spec": {"parallelism": pods, "completions": pods, "template": template}}
    return _make(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        name,
        "default",
        metadata={"labels": {"kai.scheduler/queue": queue}, "annotations": annotations or {}},
        spec={"replicatedJobs": [{"name": "worker", "replicas": 1, "template": job}]},
    )


def _trainings() -> Iterator[Json]:
    container = {"name": "node", "image": "example.com/torch:2"}
    pod = {
        "metadata": {"annotations": {"quarterdeck.dev/run-seconds": "86400"}},
        "spec": {"containers": [container]},
    }
    step = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pod},
    }
    policy = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
    yield _make(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        "torch-distributed",
        metadata={"labels": {"trainer.kubeflow.org/framework": "torch"}},
        spec={
            "mlPolicy": policy,
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": step}]}},
        },
    )
    for name, nodes, suspended in (("mnist", 2, False), ("llama-tune", 4, False), ("ablation", 2, True)):
        trainer = {
            "numNodes": nodes,
            "command": ["torchrun", "train.py"],
            "resourcesPerNode": {"requests": {"cpu": "4"}},
        }
        spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, "suspend": suspended}
        yield _make("trainer.kubeflow.org/v1alpha1", "TrainJob", name, "default", spec=spec)


def _inference() -> Iterator[Json]:
    def clique(name: str, replicas: int, gpus: int, after: tuple[str, ...] = ()) -> Json:
        limits = {"cpu": "4", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
        container = {"name": name, "image": "example.com/model:1.0", "resources": {"limits": limits}}
        spec: Json = {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container]}}
        if after:
            spec["startsAfter"] = list(after)
        return {"name": name, "spec": spec}

    template = {
        "cliqueStartupType": "CliqueStartupTypeExplicit",
        "cliques": [
            clique("store", 1, 0),
            clique("prefill", 2, 2, ("store",)),
            clique("decode", 4, 1, ("store",)),
            clique("router", 2, 0, ("prefill", "decode")),
        ],
    }
    yield _make(
        "grove.io/v1alpha1",
        "PodCliqueSet",
        "assistant",
        "default",
        spec={"replicas": 1, "template": template},
    )


def _addresses() -> Iterator[Json]:
    version = "plexaubnet.io/v1alpha1"
    yield _make(version, "SubnetPool", "world", "default", spec={"cidr": "10.0.0.0/16", "minBlockSize": 18})
    yield _make(
        version,
        "SubnetPool",
        "world6",
        "default",
        spec={"cidr": "2001:db8::/48", "strategy": "Buddy", "maxBlockSize": 64},
    )
    for number, size in enumerate((18, 20, 20, 21, 22, 22, 22, 24, 24, 24, 19, 20)):
        spec = {"poolRef": "world", "clusterID": f"cluster-{number:02}", "blockSize": size}
        yield _make(version, "SubnetClaim", f"cluster-{number:02}", "default", spec=spec)
    for number, size in enumerate((50, 52, 52, 56)):
        spec = {"poolRef": "world6", "clusterID": f"cluster-{number:02}", "blockSize": size}
        yield _make(version, "SubnetClaim", f"cluster-{number:02}-v6", "default", spec=spec)


def _groups() -> Iterator[Json]:
    cloud = {
        "classReference": {"kind": "DVPInstanceClass", "name": "cpu"},
        "zones": ["zone-a", "zone-b"],
        "minPerZone": 1,
        "maxPerZone": 4,
    }
    yield _make(
        "deckhouse.io/v1",
        "NodeGroup",
        "workers",
        spec={"nodeType": "CloudEphemeral", "cloudInstances": cloud},
    )
    yield _make("deckhouse.io/v1", "NodeGroup", "rack", spec={"nodeType": "Static"})
