"""Parts of a ResourceClaim's status need more than access to `resourceclaims/status`.

Answers of the real server, told to it and recorded word by word.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quarterdeck.apiserver import ApiServer
from quarterdeck.apiserver.auth import UserInfo

Json = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLAIM = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
DRIVER = "system:serviceaccount:default:d"
NODE = "authentication.kubernetes.io/node-name"
ALLOCATION = {
    "devices": {"results": [{"request": "r", "driver": "ex.io", "pool": "p", "device": "d"}]},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
}
DEVICES = [{"driver": "ex.io", "pool": "p", "device": "d"}]
JOE = UserInfo("joe", groups=("system:authenticated",))


def driver_on(node: str) -> UserInfo:
    return UserInfo(DRIVER, groups=("system:authenticated",), extra={NODE: (node,)})


class Claims:
    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def ask(self, method: str, path: str, body: Json, user: UserInfo | None = None) -> tuple[int, Json]:
        local = self._server.local(user) if user is not None else self._server.local()
        media = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = (("Content-Type", media),)
        code, _, answer = await local.exchange(method, path, "", headers, json.dumps(body).encode())
        found: Json = json.loads(answer)
        return code, found

    async def grant(self, name: str, user: str, resources: list[str], verbs: list[str]) -> None:
        rule = {"apiGroups": ["resource.k8s.io"], "resources": resources, "verbs": verbs}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        await self.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        await self.ask("POST", f"{RBAC}/clusterrolebindings", binding)

    async def set(self, user: UserInfo | None = None, **status: Any) -> tuple[int, Json]:
        return await self.ask("PATCH", f"{CLAIM}/c/status", {"status": status}, user)


@pytest.fixture
async def claims() -> AsyncIterator[Claims]:
    server = ApiServer()
    await server.start(listen=False)
    made = Claims(server)
    request = {"name": "r", "exactly": {"deviceClassName": "x"}}
    await made.ask("POST", CLAIM, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
    for name, user in (("joe", "joe"), ("driver", DRIVER)):
        await made.grant(name, user, ["resourceclaims", "resourceclaims/status"], ["*"])
    yield made
    await server.stop()


async def test_an_allocation_needs_access_to_binding(claims: Claims) -> None:
    code, answer = await claims.set(JOE, allocation=ALLOCATION)
    assert code == 422
    assert answer["message"] == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing '
        'status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" '
        'permission: resourceclaims.resource.k8s.io is forbidden: User "joe" cannot patch resource '
        '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
    )
    await claims.grant("binder", "joe", ["resourceclaims/binding"], ["patch"])
    assert (await claims.set(JOE, allocation=ALLOCATION))[0] == 200


async def test_who_it_is_reserved_for_needs_access_to_binding(claims: Claims) -> None:
    await claims.set(allocation=ALLOCATION)
    consumer = [{"resource": "pods", "name": "p", "uid": "u"}]
    code, answer = await claims.set(JOE, reservedFor=consumer)
    assert (code, "resourceclaims/binding" in answer["message"]) == (422, True)
    assert (await claims.set(reservedFor=consumer))[0] == 200
    assert (await claims.set(JOE, reservedFor=consumer))[0] == 200, "nothing changes"


async def test_nobody_is_reserved_for_without_an_allocation(claims: Claims) -> None:
    code, answer = await claims.set(reservedFor=[{"resource": "pods", "name": "p", "uid": "u"}])
    assert code == 422
    assert (
        "status.reservedFor: Forbidden: may not be specified when `allocated` is not set" in answer["message"]
    )


async def test_devices_need_access_to_their_driver(claims: Claims) -> None:
    await claims.set(allocation=ALLOCATION)
    code, answer = await claims.set(JOE, devices=DEVICES)
    assert code == 422
    assert answer["message"] == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.devices: Forbidden: changing status.devices '
        'requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: '
        'resourceclaims.resource.k8s.io "ex.io" is forbidden: User "joe" cannot arbitrary-node:patch '
        'resource "resourceclaims/driver" in API group "resource.k8s.io" in the namespace "default"'
    )


async def test_a_driver_on_the_node_of_the_claim_needs_less(claims: Claims) -> None:
    await claims.set(allocation=ALLOCATION)
    code, answer = await claims.set(driver_on("n1"), devices=DEVICES)
    assert code == 422
    assert 'verb="[associated-node:patch arbitrary-node:patch]"' in answer["message"]
    await claims.grant("reports", DRIVER, ["resourceclaims/driver"], ["associated-node:patch"])
    assert (await claims.set(driver_on("n2"), devices=DEVICES))[0] == 422
    assert (await claims.set(driver_on("n1"), devices=DEVICES))[0] == 200


async def test_what_was_said_of_devices_goes_with_them(claims: Claims) -> None:
    await claims.set(allocation=ALLOCATION)
    await claims.set(devices=DEVICES)
    _, freed = await claims.set(allocation=None)
    assert freed["status"] == {}
