"""CEL that spends all it may: nobody else waits for it, and its memory is bounded."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.inprocess import LocalServer
from quarterdeck.testing import eventually

Json = dict[str, Any]
JSON = (("Content-Type", "application/json"),)
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MEGABYTE = 1024 if sys.platform == "linux" else 1024 * 1024

pytestmark = pytest.mark.real_time


async def post(local: LocalServer, path: str, document: Json) -> tuple[int, Json]:
    status, _, body = await local.exchange("POST", path, "", JSON, json.dumps(document).encode())
    return status, json.loads(body)


async def add_policy(local: LocalServer, validations: list[str], variables: dict[str, str]) -> None:
    """A policy for new config maps, in force."""
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["configmaps"],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "dear"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "validations": [{"expression": text} for text in validations],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "dear"},
        "spec": {"policyName": "dear", "validationActions": ["Deny"]},
    }
    assert (await post(local, POLICIES, policy))[0] == 201
    assert (await post(local, POLICIES.replace("policies", "policybindings"), binding))[0] == 201


def config_map(name: str, keys: int = 0) -> Json:
    data = {f"key-{number}": "value" for number in range(keys)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


async def answered_meanwhile(local: LocalServer, path: str, document: Json) -> tuple[int, Json, int]:
    """A write, and how many reads were answered between its begin and its end."""
    write = asyncio.create_task(post(local, path, document))
    await asyncio.sleep(0)
    reads = 0
    while not write.done():
        status, _, _ = await local.exchange("GET", "/version", "", (), b"")
        assert status == 200
        reads += 1
        await asyncio.sleep(0)
    return *await write, reads


LOOPS = "object.data.all(a, object.data.all(b, object.data.all(c, size(a + b + c) > 0)))"


async def test_a_policy_that_spends_its_budget_lets_others_be_answered() -> None:
    async with ApiServer() as server:
        local = server.local()
        may = "authorizer.group('').resource('pods').check('get').allowed()"
        await add_policy(local, [f"{may} && {LOOPS}"] * 3, {})
        status, answer, reads = await answered_meanwhile(local, CONFIG_MAPS, config_map("a", 200))
        assert status == 422
        assert "cost limit exceeded" in answer["message"]
        assert reads > 3, "the server answered nobody while it evaluated"


async def test_a_rule_of_a_custom_resource_that_spends_its_budget_lets_others_be_answered() -> None:
    loops = "self.names.all(a, self.names.all(b, self.names.all(c, a + b + c != 'x')))"
    spec = {
        "type": "object",
        "properties": {
            "names": {"type": "array", "maxItems": 70, "items": {"type": "string", "maxLength": 5}}
        },
        "x-kubernetes-validations": [{"rule": loops}],
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Thing", "plural": "things"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }
            ],
        },
    }
    path = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    thing["spec"] = {"names": [f"n{number}" for number in range(70)]}
    async with ApiServer() as server:
        local = server.local()
        status, answer = await post(
            local, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition
        )
        assert status == 201, answer

        async def is_served() -> bool:
            return (await local.exchange("GET", path, "", (), b""))[0] == 200

        await eventually(is_served)
        status, answer, reads = await answered_meanwhile(local, path, thing)
        assert status == 422, answer
        assert "cost exceeds limit" in answer["message"]
        assert reads > 3, "the server answered nobody while it evaluated"


@pytest.mark.parametrize(
    ("first", "doubled"),
    [
        ("'aaaaaaaaaa'", "{0} + {0}"),
        ("b'aaaaaaaaaa'", "{0} + {0}"),
        ("dyn('aaaaaaaaaa')", "{0} + {0}"),
        ("[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", "{0} + {0}"),
        ("dyn([1, 1, 1, 1, 1, 1, 1, 1, 1, 1])", "{0} + {0}"),
        ("'aaaaaaaaaa'", "[{0}, {0}].join()"),
        ("'aaaaaaaaaa'", "{0}.replace('a', 'aa')"),
        ("'aaaaaaaaaa'", "'%s%s'.format([{0}, {0}])"),
        ("[1]", "[{0}, {0}]"),
        ("[1]", "[{0}, {0}].flatten()"),
    ],
)
async def test_variables_that_double_25_times_are_refused_or_share_their_memory(
    first: str, doubled: str
) -> None:
    variables = {"v0": first} | {f"v{n + 1}": doubled.format(f"variables.v{n}") for n in range(25)}
    async with ApiServer() as server:
        local = server.local()
        await add_policy(local, ["variables.v25 == variables.v25"], variables)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        status, answer = await post(local, CONFIG_MAPS, config_map("a"))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MEGABYTE
        assert status == 422, answer
        assert "cost" in answer["message"]
        assert grown < 150, f"{grown:.0f} MB"
