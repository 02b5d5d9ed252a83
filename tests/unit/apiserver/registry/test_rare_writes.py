"""What histories told to a real server have shown, and what takes few steps to see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from quarterdeck.testing import TestCluster

NAMESPACE = "/api/v1/namespaces/default"
SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


@pytest.fixture
async def cluster() -> AsyncIterator[TestCluster]:
    async with TestCluster() as cluster:
        yield cluster


async def ask(cluster: TestCluster, method: str, path: str, body: Any = None, query: str = "") -> Any:
    raw = b"" if body is None else json.dumps(body).encode()
    headers = (("Content-Type", "application/json"),)
    _, _, answer = await cluster.server.local().exchange(method, path, query, headers, raw)
    return json.loads(answer)


async def test_a_dry_run_names_the_key_without_the_prefix_of_all_keys(cluster: TestCluster) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    await ask(cluster, "POST", f"{NAMESPACE}/configmaps", config)
    config["metadata"] = {"name": "a", "uid": "another"}
    for query, key in (("", "/registry/configmaps/default/a"), ("dryRun=All", "/configmaps/default/a")):
        refused = await ask(cluster, "PUT", f"{NAMESPACE}/configmaps/a", config, query)
        assert (refused["code"], f"Key: {key}, " in refused["message"]) == (409, True)


async def test_what_annotations_of_v1_say_has_fields_in_v2(cluster: TestCluster) -> None:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {
            "name": "a",
            "annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[]", "mine": "stays"},
        },
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
        },
    }
    made = await ask(cluster, "POST", SCALERS, scaler)
    assert made["metadata"].get("annotations") == {"mine": "stays"}, made


async def test_a_grace_period_that_is_shortened_does_not_end_before_now(cluster: TestCluster) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await ask(cluster, "POST", f"{NAMESPACE}/pods", pod)
    await ask(cluster, "DELETE", f"{NAMESPACE}/pods/p", query="gracePeriodSeconds=600")
    await asyncio.sleep(100)
    left = await ask(cluster, "DELETE", f"{NAMESPACE}/pods/p", query="gracePeriodSeconds=30")
    now = datetime.fromtimestamp(asyncio.get_running_loop().date().timestamp(), UTC)  # type: ignore[attr-defined]  # virtual time
    assert datetime.fromisoformat(left["metadata"]["deletionTimestamp"]) >= now
    assert left["metadata"]["deletionGracePeriodSeconds"] == 1
