"""Asking the validating webhooks as the API server does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, policy_webhook, simple_webhook
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.wire.http import Request, Response

from .clusterfake import FakeCluster

Json = dict[str, Any]
EPHEMERAL: dict[str, Any] = {
    "nodeType": "CloudEphemeral",
    "cloudInstances": {
        "minPerZone": 1,
        "maxPerZone": 3,
        "classReference": {"kind": "AWSInstanceClass", "name": "worker"},
    },
}
DOCKER = "it is forbidden to set cri type to Docker"
UNSUPPORTED = {names.GROUP_LABEL: "worker", names.CONTAINERD_V2_UNSUPPORTED_LABEL: ""}
CUSTOM = {names.GROUP_LABEL: "worker", names.CONTAINERD_CONFIG_LABEL: "custom"}


def group(name: str = "worker", version: str = names.V1, **spec: Any) -> Json:
    document: Json = {"apiVersion": version, "kind": names.KIND, "metadata": {"name": name}}
    return {**document, "spec": {"nodeType": "Static", **spec}}


def ask(
    new: Any,
    old: Any = None,
    cluster: FakeCluster | None = None,
    *,
    simple: bool = False,
    operation: str = "",
) -> Json:
    reader = ClusterReader(cluster or FakeCluster())
    endpoint = AdmissionEndpoint(simple_webhook(reader) if simple else policy_webhook(reader))
    request = {
        "uid": "u-1",
        "operation": operation or ("CREATE" if old is None else "UPDATE"),
        "name": "worker",
        "object": new,
        "oldObject": old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review).encode()
    headers = {"content-type": "application/json"}

    async def answer() -> Response:
        found = endpoint.handle(Request("POST", "/", headers=headers, body=body))
        return found if isinstance(found, Response) else await found

    response: Json = json.loads(asyncio.run(answer()).body)["response"]
    assert response["uid"] == "u-1"
    return response


def denial(*args: Any, **kwargs: Any) -> str:
    response = ask(*args, **kwargs)
    assert response["allowed"] is False
    assert response["status"]["code"] == 403
    assert response["status"]["reason"] == "Forbidden"
    assert "warnings" not in response
    message: str = response["status"]["message"]
    return message


def warnings(*args: Any, **kwargs: Any) -> list[str]:
    response = ask(*args, **kwargs)
    assert response["allowed"] is True, response
    found: list[str] = response.get("warnings", [])
    return found
