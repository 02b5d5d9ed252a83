"""What a Table remembers of an object is what it would find out again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.testing import TestCluster

Json = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
JSON = (("Content-Type", "application/json"),)
PODS = "/api/v1/namespaces/default/pods"
THINGS = "/apis/example.com/v1/namespaces/default/things"


async def send(cluster: TestCluster, method: str, path: str, body: Json | None = None) -> Json:
    data = b"" if body is None else json.dumps(body).encode()
    status, _, answer = await cluster.server.local().exchange(method, path, "", JSON, data)
    assert status < 300, answer
    found: Json = json.loads(answer)
    return found


async def begin(cluster: TestCluster) -> str:
    """When the cluster began."""
    namespace = await send(cluster, "GET", "/api/v1/namespaces/default")
    return str(namespace["metadata"]["creationTimestamp"])


async def table(cluster: TestCluster, path: str, *, whole: bool) -> list[Json]:
    """The rows; in the old version nothing is remembered, so that they are worked out afresh."""
    query = "includeObject=Object" if whole else ""
    form = TABLE.replace("v=v1", "v=v1beta1") if whole else TABLE
    _, _, body = await cluster.server.local().exchange("GET", path, query, (("Accept", form),), b"")
    return [{key: row.get(key) for key in ("cells", "conditions")} for row in json.loads(body)["rows"]]


def pod(name: str) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def create_pods(cluster: TestCluster) -> None:
    """One that waits, one that is finished and one that was started again a while ago."""
    for name in ("waiting", "finished", "restarted"):
        await send(cluster, "POST", PODS, pod(name))
    for name, status in {
        "finished": {"phase": "Succeeded"},
        "restarted": {
            "phase": "Running",
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "i",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 2,
                    "state": {"running": {}},
                    "lastState": {"terminated": {"exitCode": 1, "finishedAt": await begin(cluster)}},
                }
            ],
        },
    }.items():
        current = await send(cluster, "GET", f"{PODS}/{name}")
        await send(cluster, "PUT", f"{PODS}/{name}/status", {**current, "status": status})


async def create_things(cluster: TestCluster, columns: list[Json]) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [{**version, "additionalPrinterColumns": columns}],
        },
    }
    await send(cluster, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    await asyncio.sleep(1)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    await send(cluster, "POST", THINGS, {**thing, "spec": {"since": await begin(cluster), "text": 'a"b'}})


AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
SINCE = {"name": "Since", "type": "date", "jsonPath": ".spec.since"}
TEXT = {"name": "Text", "type": "string", "jsonPath": ".spec.text"}


async def check(cluster: TestCluster, path: str) -> list[list[Json]]:
    """Ask again and again while time passes; returns the rows of each time."""
    seen = []
    for seconds in (0, 1, 30, 200, 4_000, 100_000):
        await asyncio.sleep(seconds)
        rows = await table(cluster, path, whole=False)
        assert rows == await table(cluster, path, whole=True)
        seen.append(rows)
    return seen


async def test_rows_of_pods_age_and_nothing_else(cluster: TestCluster) -> None:
    await create_pods(cluster)
    seen = await check(cluster, PODS)
    ages = [[row["cells"][4] for row in rows] for rows in seen]
    assert ages[-1] == ["28h"] * 3
    assert ages[1] != ages[2]
    restarts = {rows[1]["cells"][3] for rows in seen}
    assert len(restarts) > 1, "how long ago a pod was started again changes, too"
    assert [row["conditions"] is not None for row in seen[-1]] == [True, False, False]


async def test_a_pod_that_changes_gets_another_row(cluster: TestCluster) -> None:
    await create_pods(cluster)
    await check(cluster, PODS)
    current = await send(cluster, "GET", f"{PODS}/waiting")
    await send(cluster, "PUT", f"{PODS}/waiting/status", {**current, "status": {"phase": "Failed"}})
    rows = await table(cluster, PODS, whole=False)
    assert rows == await table(cluster, PODS, whole=True)
    assert rows[2]["cells"][2] == "Failed"


@pytest.mark.parametrize(
    "columns", [[], [AGE], [TEXT, AGE], [AGE, TEXT], [SINCE], [AGE, SINCE], [TEXT]], ids=str
)
async def test_rows_of_custom_resources(cluster: TestCluster, columns: list[Json]) -> None:
    await create_things(cluster, columns)
    seen = await check(cluster, THINGS)
    dates = [each for each in columns if each["type"] == "date"] or not columns
    assert (seen[0] != seen[-1]) is bool(dates)


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "/api/v1/services"]
)
async def test_rows_of_other_kinds(cluster: TestCluster, path: str) -> None:
    assert all(await check(cluster, path))
