"""Policies see objects, and their parameters, in the version they asked for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer
from quarterdeck.testing import eventually

from .hookendpoint import hook_endpoint, http

Json = dict[str, Any]
GROUP = "/apis/admissionregistration.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LIMITS = "/apis/ex.io/v1/namespaces/default/limits"
MAPS = "/api/v1/namespaces/default/configmaps"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


class Api:
    def __init__(self, server: ApiServer) -> None:
        self._local = server.local()

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        code, _, answer = await self._local.exchange(method, path, "", (), raw)
        try:
            return code, json.loads(answer)
        except ValueError:
            return code, {"message": answer.decode()}

    async def must(self, method: str, path: str, body: Any) -> Json:
        code, answer = await self(method, path, body)
        assert code == 201, answer
        found: Json = answer
        return found

    async def demand(
        self, resource: tuple[str, str, str], expression: str, message: str, **more: Any
    ) -> None:
        """A policy that denies creates unless an expression holds."""
        group, version, plural = resource
        rule = {
            "apiGroups": [group],
            "apiVersions": [version],
            "operations": ["CREATE"],
            "resources": [plural],
        }
        validation = {"expression": expression, "messageExpression": message}
        spec: Json = {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]}
        bound: Json = {"policyName": "p", "validationActions": ["Deny"]}
        if "kind" in more:
            spec["paramKind"], bound["paramRef"] = more["kind"], more["reference"]
        await self.must(
            "POST", f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}
        )
        await self.must(
            "POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}
        )


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    server = ApiServer()
    await server.start(listen=False)
    yield Api(server)
    await server.stop()


def autoscaler(**spec: Any) -> Json:
    return {"metadata": {"name": "h"}, "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET, **spec}}


def scalers(version: str) -> str:
    return f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"


async def test_an_autoscaler_of_v1_is_seen_as_v2(api: Api) -> None:
    resource = ("autoscaling", "v2", "horizontalpodautoscalers")
    await api.demand(
        resource,
        "object.apiVersion == 'autoscaling/v2' && object.spec.metrics[0].resource.name == 'cpu'"
        " && !has(object.spec.targetCPUUtilizationPercentage)",
        "'saw ' + object.apiVersion",
    )
    made = await api.must("POST", scalers("v1"), autoscaler(targetCPUUtilizationPercentage=50))
    assert made["spec"]["targetCPUUtilizationPercentage"] == 50


async def test_an_autoscaler_of_v2_is_seen_as_v1(api: Api) -> None:
    resource = ("autoscaling", "v1", "horizontalpodautoscalers")
    await api.demand(
        resource, "object.spec.targetCPUUtilizationPercentage == 50", "'saw ' + object.apiVersion"
    )
    made = await api.must("POST", scalers("v2"), autoscaler(metrics=[CPU]))
    assert made["spec"]["metrics"] == [CPU]


async def test_an_event_of_the_new_group_is_seen_as_one_of_the_old(api: Api) -> None:
    await api.demand(("", "v1", "events"), "object.message == 'why'", "'saw ' + object.apiVersion")
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "ex.io/c",
        "reportingInstance": "i",
        "action": "Do",
        "reason": "R",
        "type": "Normal",
        "note": "why",
        "regarding": {"namespace": "default", "kind": "Pod", "name": "x"},
    }
    await api.must("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)


def definition(**more: Any) -> Json:
    def version(name: str, field: str) -> Json:
        fields = {"type": "object", "properties": {field: {"type": "integer"}}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": fields}}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    names = {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}
    versions = [version("v1alpha1", "old"), version("v1", "max")]
    spec = {"group": "ex.io", "scope": "Namespaced", "names": names, "versions": versions, **more}
    return {"metadata": {"name": "limits.ex.io"}, "spec": spec}


async def define(api: Api, crd: Json) -> None:
    await api.must("POST", CRDS, crd)

    async def is_served() -> bool:
        return (await api("GET", LIMITS))[0] == 200

    await eventually(is_served)
    meta = {"name": "p", "labels": {"use": "this"}}
    await api.must(
        "POST", LIMITS, {"apiVersion": "ex.io/v1", "kind": "Limit", "metadata": meta, "spec": {"max": 3}}
    )


@pytest.mark.parametrize(
    "reference",
    [
        {"name": "p", "namespace": "default"},
        {"namespace": "default", "selector": {"matchLabels": {"use": "this"}}},
    ],
)
async def test_parameters_come_in_the_version_of_the_param_kind(api: Api, reference: Json) -> None:
    await define(api, definition())
    await api.demand(
        ("", "v1", "configmaps"),
        "params.apiVersion == 'ex.io/v1' && params.spec.max == 3",
        "'saw ' + params.apiVersion",
        kind={"apiVersion": "ex.io/v1", "kind": "Limit"},
        reference={**reference, "parameterNotFoundAction": "Deny"},
    )
    await api.must("POST", MAPS, {"metadata": {"name": "m"}})


async def test_parameters_are_converted_by_their_webhook(api: Api) -> None:
    is_broken = False

    def convert(path: str, body: bytes) -> bytes | None:
        if is_broken:
            return None
        review = json.loads(body)
        request = review["request"]
        objects = [
            {**each, "apiVersion": request["desiredAPIVersion"], "spec": {"old": each["spec"]["max"]}}
            for each in request["objects"]
        ]
        response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
        return http({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    async with hook_endpoint(convert) as hook:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": hook.config()}
        await define(api, definition(conversion={"strategy": "Webhook", "webhook": webhook}))
        await api.demand(
            ("", "v1", "configmaps"),
            "params.spec.old == 3",
            "'saw ' + params.apiVersion",
            kind={"apiVersion": "ex.io/v1alpha1", "kind": "Limit"},
            reference={"name": "p", "namespace": "default", "parameterNotFoundAction": "Deny"},
        )
        await api.must("POST", MAPS, {"metadata": {"name": "m"}})
        is_broken = True
        code, answer = await api("POST", MAPS, {"metadata": {"name": "n"}})
    assert code == 422
    assert (
        "failed to configure binding: conversion webhook for ex.io/v1, Kind=Limit failed" in answer["message"]
    )
