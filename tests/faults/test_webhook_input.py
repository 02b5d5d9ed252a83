"""Bad input to webhooks, over TLS: each gets the review that it should, and the connection lives on.

The answers to the letter, and many more inputs, are with the endpoints' own tests; here both endpoints meet
the same five insults.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import pytest

from quarterdeck.api import Model, Resource, omitempty
from quarterdeck.runtime.webhook import Conversion, Spoke, Validator
from quarterdeck.testing import ServedWebhooks, serve_webhooks

pytestmark = pytest.mark.real_time
MIB = 1024 * 1024


class HullSpec(Model):
    name: str = omitempty("")


class Hull(Resource, group="input.example.com", version="v1"):
    """The hub."""

    spec: HullSpec = omitempty(HullSpec())


class OldHull(Resource, group="input.example.com", version="v1alpha1", kind="Hull", plural="hulls"):
    """The spoke."""

    spec: HullSpec = omitempty(HullSpec())


CONVERSION = Conversion(
    Hull,
    Spoke(
        OldHull,
        lambda old: Hull(metadata=old.metadata, spec=old.spec),
        lambda hub: OldHull(metadata=hub.metadata, spec=hub.spec),
    ),
)


def hull(version: str, name: str = "a") -> dict[str, Any]:
    return {
        "apiVersion": f"input.example.com/{version}",
        "kind": "Hull",
        "metadata": {"name": "h", "namespace": "default"},
        "spec": {"name": name},
    }


def admission(obj: Any, *, kind: str = "AdmissionReview", version: str = "v1") -> dict[str, Any]:
    request = {"uid": "u", "operation": "CREATE", "object": obj, "kind": {"kind": "Hull"}}
    return {"apiVersion": f"admission.k8s.io/{version}", "kind": kind, "request": request}


def conversion(obj: Any, *, kind: str = "ConversionReview", version: str = "v1") -> dict[str, Any]:
    request = {"uid": "u", "desiredAPIVersion": "input.example.com/v1", "objects": [obj]}
    return {"apiVersion": f"apiextensions.k8s.io/{version}", "kind": kind, "request": request}


class Caller:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, served: ServedWebhooks) -> Caller:
        context = ssl.create_default_context(cadata=served.ca_bundle.decode())
        return cls(*await asyncio.open_connection("127.0.0.1", served.server.port, ssl=context))

    async def post(self, path: str, body: bytes) -> dict[str, Any]:
        fields = {"Host": "x", "Content-Type": "application/json", "Content-Length": len(body)}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        assert answer.startswith("HTTP/1.1 200 "), answer
        found = dict(line.lower().split(": ", 1) for line in answer.split("\r\n")[1:] if line)
        document: dict[str, Any] = json.loads(await self._reader.readexactly(int(found["content-length"])))
        return document

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


ADMISSION = {
    "wrong kind": (
        json.dumps(admission(hull("v1"), kind="Pod")).encode(),
        400,
        'no kind "Pod" is registered',
    ),
    "empty": (b"", 400, "request body is empty"),
    "8 MiB": (json.dumps(admission(hull("v1", "x" * 8 * MIB))).encode(), 413, "request entity is too large"),
    "not JSON": (b"\x00\xff<html>", 400, "couldn't get version/kind; json parse error"),
    "unknown version": (
        json.dumps(admission(hull("v1"), version="v7")).encode(),
        400,
        'no kind "AdmissionReview" is registered for version "admission.k8s.io/v7"',
    ),
}
CONVERSIONS = {
    "wrong kind": (json.dumps(conversion(hull("v1alpha1"), kind="Pod")).encode(), "failed to unmarshal"),
    "empty": (b"", "failed to unmarshal conversion review"),
    "not JSON": (b"\x00\xff<html>", "failed to unmarshal conversion review"),
    "unknown version": (
        json.dumps(conversion(hull("v1alpha1"), version="v7")).encode(),
        "failed to unmarshal",
    ),
    "unknown version of the object": (
        json.dumps(conversion(hull("v9"))).encode(),
        "unsupported source version: input.example.com/v9",
    ),
}


async def test_bad_admission_input_is_refused_inside_a_review() -> None:
    async with serve_webhooks(Validator(Hull, lambda admission, obj: None)) as served:
        caller = await Caller.connect(served)
        path = served.server.webhooks[0].path
        for name, (body, code, message) in ADMISSION.items():
            answer = await caller.post(path, body)
            assert (answer["kind"], answer["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1"), name
            response = answer["response"]
            assert response["allowed"] is False, name
            assert response["status"]["code"] == code, name
            assert message in response["status"]["message"], name
        good = await caller.post(path, json.dumps(admission(hull("v1"))).encode())
        assert good["response"]["allowed"] is True
        await caller.close()


async def test_bad_conversion_input_is_a_failure_inside_a_review() -> None:
    async with serve_webhooks(conversions=[CONVERSION]) as served:
        caller = await Caller.connect(served)
        for name, (body, message) in CONVERSIONS.items():
            answer = await caller.post("/convert", body)
            assert answer["kind"] == "ConversionReview", name
            assert answer["apiVersion"] == "apiextensions.k8s.io/v1", name
            result = answer["response"]["result"]
            assert result["status"] == "Failure", name
            assert message in result["message"], name
            assert not answer["response"].get("convertedObjects"), name
        # A list is converted in one review, however long it is: here there is no limit at 7 MiB.
        large = await caller.post(
            "/convert", json.dumps(conversion(hull("v1alpha1", "x" * 8 * MIB))).encode()
        )
        assert large["response"]["result"]["status"] == "Success"
        assert large["response"]["convertedObjects"][0]["apiVersion"] == "input.example.com/v1"
        await caller.close()
