"""Long lists, in whatever form: nobody waits for them, and they are what shorter ones are."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from quarterdeck.apiserver.registry.read import documentlist, tablelist
from quarterdeck.testing import TestCluster
from quarterdeck.wire.timeslice import TimeSlice

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
SCALERS = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
TABLE = "application/json;as=Table;g=meta.k8s.io;v="
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v="
COUNT = 100


async def fill(cluster: TestCluster) -> None:
    local = cluster.server.local()
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    for number in range(COUNT):
        meta = {"name": f"p{number:03}", "labels": {"a": "b"}}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        await local.exchange("POST", PODS, "", (), json.dumps({"metadata": meta, "spec": spec}).encode())
        scaler = {"metadata": meta, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
        await local.exchange("POST", SCALERS, "", (), json.dumps(scaler).encode())


async def ask(cluster: TestCluster, path: str, accept: str, query: str = "") -> Json:
    code, _, body = await cluster.server.local().exchange("GET", path, query, (("Accept", accept),), b"")
    assert code == 200
    found: Json = json.loads(body)
    return found


FORMS = {
    "metadata": (PODS, METADATA + "v1", ""),
    "metadata, converted": (SCALERS, METADATA + "v1", ""),
    "table": (PODS, TABLE + "v1", ""),
    "table with objects": (PODS, TABLE + "v1", "includeObject=Object"),
    "table with objects, converted": (SCALERS, TABLE + "v1", "includeObject=Object"),
    "table of old": (PODS, TABLE + "v1beta1", "includeObject=Object"),
    "converted": (SCALERS, "application/json", ""),
}


@pytest.mark.parametrize("form", FORMS)
async def test_others_have_their_turns_while_a_long_list_is_made(
    cluster: TestCluster, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    await fill(cluster)
    for module in (documentlist, tablelist):
        monkeypatch.setattr(module, "TimeSlice", lambda: TimeSlice(0.0))
    asking = asyncio.create_task(ask(cluster, *FORMS[form]))
    turns = 0
    while not asking.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > COUNT // 50
    found = asking.result()
    assert len(found.get("items") or found["rows"]) == COUNT


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_list_of_metadata_has_what_the_objects_have(cluster: TestCluster, version: str) -> None:
    await fill(cluster)
    whole = await ask(cluster, PODS, "application/json")
    listed = await ask(cluster, PODS, METADATA + version)
    head = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}"}
    assert listed == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": whole["metadata"],
        "items": [{**head, "metadata": item["metadata"]} for item in whole["items"]],
    }
    page = await ask(cluster, PODS, METADATA + version, "limit=3")
    assert page["items"] == listed["items"][:3]
    assert page["metadata"]["remainingItemCount"] == COUNT - 3


async def test_a_table_with_objects_has_them(cluster: TestCluster) -> None:
    await fill(cluster)
    whole = await ask(cluster, PODS, "application/json")
    new, old = [
        await ask(cluster, PODS, TABLE + version, "includeObject=Object") for version in ("v1", "v1beta1")
    ]
    kind = {"kind": "Pod", "apiVersion": "v1"}
    assert [row["object"] for row in new["rows"]] == [{**kind, **item} for item in whole["items"]]
    assert new["rows"] == old["rows"]
    assert new["columnDefinitions"] == old["columnDefinitions"]


@pytest.mark.parametrize(("form", "key"), [("metadata", "items"), ("table of old", "rows")])
async def test_an_empty_list_looks_like_upstreams(cluster: TestCluster, form: str, key: str) -> None:
    found = await ask(cluster, *FORMS[form])
    assert found[key] == (None if key == "items" else [])
