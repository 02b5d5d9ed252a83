"""Whatever JSON is sent, every webhook answers, and never with a panic."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.webhooks import (
    ClusterReader,
    NodeGroupConverter,
    policy_webhook,
    simple_webhook,
)
from quarterdeck.runtime.webhook.convert_endpoint import ConversionEndpoint
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.wire.http import Request, Response

from .clusterfake import FakeCluster
from .groupstrategy import a1_groups, a2_groups, v1_groups

Json = dict[str, Any]
patient = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2), st.text(max_size=5))
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=6,
)


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    """A group with one value somewhere in it replaced by something else."""
    document = draw(st.one_of(v1_groups, a1_groups, a2_groups))
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return document
        key = draw(st.sampled_from(keys))
        child = place[key]
        if isinstance(child, dict | list) and child and draw(st.booleans()):
            place = child
            continue
        place[key] = draw(anything)
        return document


@patient
@given(st.lists(st.one_of(damaged(), anything), max_size=2), st.sampled_from([*names.VERSIONS, "x", ""]))
def test_conversion_answers_anything(objects: list[Any], target: str) -> None:
    request = {"uid": "u", "desiredAPIVersion": target, "objects": objects}
    body = json.dumps({"request": request}).encode()
    endpoint = ConversionEndpoint()
    endpoint.add(NodeGroupConverter(ClusterReader(FakeCluster())))
    answer = asyncio.run(endpoint.handle(Request("POST", names.CONVERT_PATH, body=body)))
    response = json.loads(answer.body)["response"]
    if response["result"]["status"] == "Success":
        assert len(response["convertedObjects"]) == len(objects)
        assert all(one.get("apiVersion", "") == target for one in response["convertedObjects"])
    else:
        assert response["result"]["message"].startswith("failed to convert object ")
        assert response["convertedObjects"] == []


@patient
@given(damaged(), st.one_of(st.none(), damaged()), st.booleans())
def test_validation_answers_anything(new: Any, old: Any, is_simple: bool) -> None:
    reader = ClusterReader(FakeCluster())
    endpoint = AdmissionEndpoint(simple_webhook(reader) if is_simple else policy_webhook(reader))
    operation = "CREATE" if old is None else "UPDATE"
    request = {"uid": "u", "operation": operation, "object": new, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    http = Request(
        "POST", "/", headers={"content-type": "application/json"}, body=json.dumps(review).encode()
    )

    async def ask() -> Response:
        found = endpoint.handle(http)
        return found if isinstance(found, Response) else await found

    response = json.loads(asyncio.run(ask()).body)["response"]
    if not response["allowed"]:
        assert response["status"]["code"] in (400, 403), response
