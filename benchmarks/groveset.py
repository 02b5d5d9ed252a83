"""PodCliqueSets for benchmarks."""

from __future__ import annotations

from typing import Any

from quarterdeck.operators.grove import names

PER_GROUP = 8
Json = dict[str, Any]


def clique(name: str, replicas: int) -> Json:
    container = {"name": "main", "image": "example.com/model:1", "resources": {"requests": {"cpu": "10m"}}}
    spec = {"roleName": name, "replicas": replicas, "podSpec": {"containers": [container]}}
    return {"name": name, "spec": spec}


def pod_clique_set(replicas: int, groups: int) -> Json:
    """A router, and groups of one leader with workers; the first group belongs to the router's gang."""
    cliques = [clique("router", 1), clique("leader", 1), clique("worker", PER_GROUP - 1)]
    group = {"name": "g", "cliqueNames": ["leader", "worker"], "replicas": groups, "minAvailable": 1}
    template = {
        "cliques": cliques,
        "podCliqueScalingGroups": [group],
        "cliqueStartupType": names.ANY_ORDER,
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "PodCliqueSet",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {"replicas": replicas, "template": template},
    }


def many_gangs(replicas: int, pods: int) -> Json:
    """A set of many replicas, each a gang of one clique."""
    template = {"cliques": [clique("worker", pods)], "cliqueStartupType": names.ANY_ORDER}
    made = pod_clique_set(replicas, 1)
    return {**made, "spec": {"replicas": replicas, "template": template}}
