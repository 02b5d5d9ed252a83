"""The scripted webhook endpoint."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.hook import HookServer


@pytest.fixture
def server() -> Iterator[HookServer]:
    started = HookServer()
    yield started
    started.close()


def _post(server: HookServer, url: str, body: dict[str, Any]) -> dict[str, Any]:
    context = ssl.create_default_context(cadata=base64.b64decode(server.ca_bundle).decode())
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, context=context) as answer:
        decoded: dict[str, Any] = json.loads(answer.read())
    return decoded


def test_patches_are_encoded_and_calls_recorded(server: HookServer) -> None:
    session = server.open(
        "s", {"a": {"response": {"allowed": True, "patch": [{"op": "remove", "path": "/x"}]}}}
    )
    review = {"kind": "AdmissionReview", "apiVersion": "v", "request": {"uid": "u1"}}
    response = _post(server, f"{session.url}/a?timeout=5s", review)["response"]
    assert response["uid"] == "u1"
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "remove", "path": "/x"}]
    assert session.calls == [{"hook": "a", "request": {"uid": "u1"}}]


def test_a_status_answers_boom(server: HookServer) -> None:
    session = server.open("s", {"a": {"httpStatus": 503}})
    with pytest.raises(urllib.error.HTTPError) as raised:
        _post(server, f"{session.url}/a", {"kind": "AdmissionReview"})
    with raised.value as answer:
        assert (answer.code, answer.read()) == (503, b"boom")


def test_conversion_renames_spec_fields(server: HookServer) -> None:
    session = server.open("s", {"c": {"rename": {"v1->v2": {"size": "length"}}, "touchLabels": True}})
    request = {
        "uid": "u1",
        "desiredAPIVersion": "g/v2",
        "objects": [{"apiVersion": "g/v1", "kind": "T", "metadata": {"name": "t"}, "spec": {"size": "5"}}],
    }
    response = _post(server, f"{session.url}/c", {"kind": "ConversionReview", "request": request})["response"]
    assert response["convertedObjects"] == [
        {
            "apiVersion": "g/v2",
            "kind": "T",
            "metadata": {"name": "t", "labels": {"converted": "yes"}},
            "spec": {"length": "5"},
        }
    ]


def test_closed_sessions_answer_nothing(server: HookServer) -> None:
    session = server.open("s", {"a": {}})
    server.close_session("s")
    with pytest.raises(urllib.error.HTTPError) as raised:
        _post(server, f"{session.url}/a", {"kind": "AdmissionReview"})
    raised.value.close()
