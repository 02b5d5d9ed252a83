"""Reviews as an API server sends them, and what is answered."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest

from quarterdeck.api import GroupVersionKind
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import (
    Admission,
    AdmissionWebhook,
)
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.wire.http import Request, Response
from tests.unit.runtime.servicekit import Gang

pytestmark = pytest.mark.real_time

JSON = {"content-type": "application/json"}
DYNAMIC = GroupVersionKind("example.io", "v1", "Gang")


def document(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.io/v1",
        "kind": "Gang",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": spec,
    }


def review(
    obj: Any = None, *, old: Any = None, operation: str = "CREATE", version: str = "v1", **request: Any
) -> dict[str, Any]:
    return {
        "apiVersion": f"admission.k8s.io/{version}",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u-1",
            "kind": {"group": "example.io", "version": "v1", "kind": "Gang"},
            "resource": {"group": "example.io", "version": "v1", "resource": "gangs"},
            "name": "train",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "ann", "groups": ["dev"], "extra": {"scopes": ["a", "b"]}},
            "object": obj,
            "oldObject": old,
            "dryRun": False,
            "options": {"fieldManager": "kubectl"},
            "somethingNew": {"added": "later"},
            **request,
        },
    }


async def ask(
    webhook: AdmissionWebhook, body: Any, *, panics: RuntimeMetrics | None = None
) -> dict[str, Any]:
    endpoint = AdmissionEndpoint(webhook, panics=panics.webhook_panics if panics is not None else None)
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = endpoint.handle(Request("POST", webhook.path, "", JSON, raw))
    response = answer if isinstance(answer, Response) else await answer
    assert response.status == 200
    decoded: dict[str, Any] = json.loads(response.body)
    assert decoded["kind"] == "AdmissionReview"
    return decoded


def patch_of(answer: dict[str, Any]) -> list[dict[str, Any]]:
    response = answer["response"]
    assert response["patchType"] == "JSONPatch"
    decoded: list[dict[str, Any]] = json.loads(b64decode(response["patch"]))
    return decoded


def accept(admission: Admission, gang: Gang) -> None:
    return None


def default_queue(admission: Admission, gang: Gang) -> Gang:
    return gang if gang.spec.queue else gang.evolve(spec=gang.spec.evolve(queue="default"))
