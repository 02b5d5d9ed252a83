"""What is generated for the operators is accepted, current, enough and not more.

Definitions are tested of every installed operator. For its permissions an operator needs an entry in
``STORIES`` that makes it write everything it may: a permission that its story does not need is one too many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.cli.main import main
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.runtime.operator import Operator, installed_operators
from quarterdeck.runtime.operator.install import create_namespace
from quarterdeck.runtime.operator.program import Program, ProgramOptions
from quarterdeck.runtime.rbac import compare, roles
from quarterdeck.runtime.reconcile.recording import Permission
from quarterdeck.testing import TestCluster, eventually

from .gadget import Wire

OPERATORS = installed_operators()
DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
HOME = "quarterdeck-system"
Story = Callable[[Client], Awaitable[None]]


async def nodegroups(client: Client) -> None:
    """A group that grows and shrinks, so that nodes come and go."""
    kind = GroupVersionKind("deckhouse.io", "v1", "NodeGroup")
    node = GroupVersionKind("", "v1", "Node")
    reference = {"kind": "AWSInstanceClass", "name": "worker"}
    instances = {"minPerZone": 2, "maxPerZone": 2, "zones": ["a"], "classReference": reference}
    document = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "gpu"},
        "spec": {"nodeType": "CloudEphemeral", "cloudInstances": instances},
    }
    made = await client.create(DynamicObject(document))

    async def nodes(count: int) -> bool:
        found = await client.list(node)
        return len(found.items) == count

    await eventually(lambda: nodes(2))
    for low, count in ((0, 1), (3, 3)):
        change = {"spec": {"cloudInstances": {"minPerZone": low, "maxPerZone": max(low, 1)}}}
        await client.patch(made, MergePatch(change))
        await eventually(lambda count=count: nodes(count))  # type: ignore[misc]


async def addresses(client: Client) -> None:
    """Claims and pool claims that are served, changed and given back, and a Subnet too many."""
    version, space = "plexaubnet.io/v1alpha1", "default"
    subnet = GroupVersionKind("plexaubnet.io", "v1alpha1", "Subnet")

    async def make(kind: str, name: str, spec: dict[str, Any], **more: Any) -> DynamicObject:
        metadata = {"name": name, "namespace": space, **more}
        document = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
        return await client.create(DynamicObject(document))

    async def in_phase(made: DynamicObject, phase: str) -> bool:
        found = await client.get(made.gvk, made.metadata.name, space)
        return bool(found.at("status", "phase") == phase)

    async def is_gone(made: DynamicObject) -> bool:
        try:
            await client.get(made.gvk, made.metadata.name, space)
        except NotFound:
            return True
        return False

    await make("SubnetPool", "p", {"cidr": "10.0.0.0/16"})
    claim = await make("SubnetClaim", "a", {"poolRef": "p", "clusterID": "a", "blockSize": 24})
    await eventually(lambda: in_phase(claim, "Bound"))
    department = await make("SubnetPoolClaim", "d", {"parentPoolRef": "p", "desiredBlockSize": 20})
    await eventually(lambda: in_phase(department, "Bound"))
    await client.delete(department)
    await eventually(lambda: is_gone(department))
    # Two allocators made two Subnets for one claim: the other one is deleted.
    owned = await client.get(subnet, "p-10-0-0-0-24", space)
    owners = owned.at("metadata", "ownerReferences")
    spec = {**owned["spec"], "cidr": "10.0.9.0/24"}
    extra = await make("Subnet", "p-10-0-9-0-24", spec, ownerReferences=owners)
    await client.patch(claim, MergePatch({"spec": {"blockSize": 25}}))
    await eventually(lambda: is_gone(extra))


STORIES: dict[str, Story] = {"nodegroup": nodegroups, "ipam": addresses}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS.keys())
async def test_generated_crds_are_accepted_and_served(wire: Wire, operator: Operator) -> None:
    definitions = list(operator.definitions())
    assert definitions
    await wire.cluster.install(*definitions)
    for definition in definitions:
        found = await wire.cluster.client.get(DEFINITION, definition["metadata"]["name"])
        conditions = {each["type"]: each["status"] for each in found.to_dict()["status"]["conditions"]}
        assert conditions["NamesAccepted"] == conditions["Established"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_drift_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0
    text = capsys.readouterr().out
    assert main(["manifests"]) == 0
    assert capsys.readouterr().out == text, "the same every time"
    file = tmp_path / "manifests.yaml"
    file.write_text(text)
    assert main(["manifests", "--check", str(file)]) == 0
    file.write_text(text.replace("watch", "wash", 1))
    assert main(["manifests", "--check", str(file)]) == 1
    assert "wash" in capsys.readouterr().out


@pytest.mark.real_time  # webhooks under a certificate that is made for today
@pytest.mark.parametrize("name", STORIES)
async def test_derived_permissions_are_enough_and_none_is_left_over(cluster: TestCluster, name: str) -> None:
    operator = OPERATORS[name]
    await create_namespace(cluster.client, HOME)
    await cluster.install(*operator.definitions())
    link = cluster.link(user="operator")
    options = ProgramOptions(namespace=HOME, is_embedded=True, webhook_url="https://127.0.0.1:0")
    program = Program(link.client, [operator], options)
    rules = program.manager.rules()
    for role in roles("derived", rules):
        await cluster.client.create(role)
        await cluster.client.create(_binding(role.to_dict()))

    async def serve() -> None:
        await program.serve()

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        try:
            async with asyncio.timeout(30):
                await program.wait_ready()
            await STORIES[name](cluster.client)
            await asyncio.sleep(0.2)
        finally:
            program.manager.request_stop()
    refused = [str(each) for each in link.log if each.status == 403]
    assert refused == [], "the derived permissions are not enough"
    found = compare(rules, {_used(each.target) for each in link.log if each.is_write and each.status < 300})
    assert [str(each) for each in found.missing] == []
    # Events are for whoever wants to record one; with a leader election somebody does.
    unused = [str(each) for each in found.unused if each.resource != "events"]
    assert unused == [], "these permissions are never used"


def _used(target: Any) -> Permission:
    resource, _, group = target.resource.partition(".")
    whole = f"{resource}/{target.subresource}" if target.subresource else resource
    return Permission(group, whole, "patch" if target.verb == "apply" else target.verb)


def _binding(role: dict[str, Any]) -> DynamicObject:
    return DynamicObject(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": f"{role['kind']}Binding",
            "metadata": role["metadata"],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": role["kind"],
                "name": role["metadata"]["name"],
            },
            "subjects": [{"kind": "User", "name": "operator", "apiGroup": "rbac.authorization.k8s.io"}],
        }
    )
