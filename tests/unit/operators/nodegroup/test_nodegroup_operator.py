"""The whole operator on an embedded server in this process: webhooks over TLS, controllers, nodes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.api import UNSET, DynamicObject, GroupVersionKind, Maybe, ObjectMeta, Resource
from quarterdeck.api.k8s import Node, Secret
from quarterdeck.api.model import JsonObjectField
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Client, MergePatch
from quarterdeck.client.inprocess import InProcessTransport
from quarterdeck.errors import ApiError, Forbidden, NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.operators.nodegroup.types import NodeGroup
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.operator.program import Program, ProgramOptions

Json = dict[str, Any]
OLD = GroupVersionKind(names.GROUP, "v1alpha1", names.KIND)
HOOKS = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")
PROBE: dict[str, Any] = {"nodeType": "Static", "cri": {"type": "Docker"}}


def document(name: str, version: str = names.V1, **spec: Any) -> DynamicObject:
    return DynamicObject(
        {"apiVersion": version, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    )


def ephemeral(name: str, low: int, high: int) -> DynamicObject:
    reference = {"kind": "AWSInstanceClass", "name": "worker"}
    instances = {"minPerZone": low, "maxPerZone": high, "zones": ["a", "b"], "classReference": reference}
    return document(name, nodeType="CloudEphemeral", cloudInstances=instances)


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(30):
        while not (found := await holds()):  # noqa: ASYNC110  the state is on a server
            await asyncio.sleep(0.02)
    return found


@asynccontextmanager
async def operator() -> AsyncIterator[Client]:
    """A client to a server whose NodeGroups are served by the operator."""
    server = ApiServer()
    await server.start(listen=False)
    client = Client.over(InProcessTransport(server.local()))
    program = Program(
        client,
        [NodeGroupOperator()],
        ProgramOptions(is_embedded=True, installs=True, webhook_url="https://127.0.0.1:0"),
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(program.serve())
            try:
                await program.wait_ready()
                await until(lambda: _refuses_docker(client))
                yield client
            finally:
                program.manager.request_stop()
    finally:
        await client.aclose()
        await server.stop()


async def _namespace(client: Client, name: str) -> None:
    await client.create(DynamicObject({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))


async def _refuses_docker(client: Client) -> bool:
    """Whether both conversion and validation are registered."""
    try:
        await client.create(document("probe", names.V1ALPHA1, **PROBE), dry_run=True)
    except Forbidden:
        return True
    except ApiError:
        return False
    return False


async def _nodes(client: Client, group: str) -> list[str]:
    return sorted(node.metadata.name for node in await client.list(Node, labels={names.GROUP_LABEL: group}))


def run(story: Callable[[Client], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with operator() as client:
            await story(client)

    asyncio.run(tell())


def test_ephemeral_groups_get_nodes_in_their_range_and_a_status() -> None:
    async def story(client: Client) -> None:
        await client.create(ephemeral("gpu", 1, 2))
        await until(lambda: _has_nodes(client, "gpu", ["gpu-a-0", "gpu-b-0"]))

        async def is_ready() -> bool:
            status = (await client.get(NodeGroup, "gpu")).to_dict().get("status") or {}
            conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
            counted = (status.get("nodes"), status.get("ready"), status.get("min"), status.get("max"))
            return (
                counted == (2, 2, 2, 4) and conditions["Ready"] == "True" and conditions["Scaling"] == "False"
            )

        await until(is_ready)
        group = await client.get(NodeGroup, "gpu")
        await client.patch(group, MergePatch({"spec": {"cloudInstances": {"minPerZone": 2}}}))
        await until(lambda: _has_nodes(client, "gpu", ["gpu-a-0", "gpu-a-1", "gpu-b-0", "gpu-b-1"]))
        smaller = MergePatch({"spec": {"cloudInstances": {"minPerZone": 0, "maxPerZone": 1}}})
        await client.patch(group, smaller)
        await until(lambda: _has_nodes(client, "gpu", ["gpu-a-0", "gpu-b-0"]))

    run(story)


async def _has_nodes(client: Client, group: str, expected: list[str]) -> bool:
    return await _nodes(client, group) == expected


def test_static_groups_adopt_nodes_their_selector_picks() -> None:
    async def story(client: Client) -> None:
        await client.create(
            Node.from_dict(
                {"metadata": {"name": "rack-1", "labels": {"rack": "1"}}, "spec": {}, "status": {}}
            )
        )
        selector = {"labelSelector": {"matchLabels": {"rack": "1"}}}
        await client.create(document("racks", nodeType="Static", staticInstances=selector))
        await until(lambda: _has_nodes(client, "racks", ["rack-1"]))

    run(story)


def test_an_old_manifest_is_written_and_read_back_without_loss() -> None:
    async def story(client: Client) -> None:
        created = await client.create(
            document(
                "w", nodeType="CloudPermanent", update={"maxConcurrent": 3}, gpu={"sharing": "Exclusive"}
            )
        )
        old = await client.get(OLD, "w")
        assert old.at("spec", "nodeType") == "Hybrid"
        assert old.at("spec", "gpu") is None
        await client.patch(old, MergePatch({"spec": {"kubelet": {"maxPods": 50}}}))
        new = (await client.get(NodeGroup, "w")).to_dict()
        assert new["spec"]["kubelet"]["maxPods"] == 50
        assert new["spec"]["gpu"] == {"sharing": "Exclusive"}
        assert new["spec"]["update"] == {"maxConcurrent": 3}
        assert new["spec"]["nodeType"] == "CloudPermanent"
        assert created.metadata.uid == new["metadata"]["uid"]
        assert "annotations" not in new["metadata"]

    run(story)


def test_denials_reach_the_user_and_nothing_is_stored() -> None:
    async def story(client: Client) -> None:
        with pytest.raises(Forbidden, match=r'webhook "nodegroup-policy\.deckhouse\.io" denied the re'):
            await client.create(document("w", **PROBE))
        with pytest.raises(NotFound):
            await client.get(NodeGroup, "w")

    run(story)


def test_the_program_registers_both_webhooks() -> None:
    async def story(client: Client) -> None:
        made = await client.get(HOOKS, names.VALIDATING_CONFIGURATION)
        found = {each["name"]: each["rules"][0]["apiVersions"] for each in made.to_dict()["webhooks"]}
        assert found == {names.SIMPLE_WEBHOOK: ["*"], names.POLICY_WEBHOOK: ["*"]}

    run(story)


class AWSInstanceClass(Resource, group=names.GROUP, version="v1", scope="Cluster"):
    """What machines of a group look like."""

    spec: Maybe[JsonObjectField] = UNSET


def test_the_status_follows_the_provider_the_instance_class_and_the_configuration() -> None:
    async def story(client: Client) -> None:
        async def error(words: str) -> bool:
            status = (await client.get(NodeGroup, "w")).to_dict().get("status") or {}
            text = status.get("error")
            return text is not None and (text.startswith(words) if words else text == "")

        await install_definitions(client, AWSInstanceClass)
        await client.create(ephemeral("w", 0, 2))
        await until(lambda: error(""))
        data = {names.CLASS_KIND_KEY: b"AWSInstanceClass", "zones": b'["a", "b"]'}
        metadata = ObjectMeta(name=names.CLOUD_PROVIDER_SECRET, namespace=names.SYSTEM_NAMESPACE)
        await client.create(Secret(metadata=metadata, data=data))
        await until(lambda: error("Instance class 'worker' of type 'AWSInstanceClass' not found."))
        created = await client.create(
            AWSInstanceClass(metadata=ObjectMeta(name="worker"), spec={"instanceType": "m9.huge"})
        )
        await until(lambda: error("AWSInstanceClass capacity is not set"))
        await client.patch(created, MergePatch({"spec": {"capacity": {"cpu": 4, "memory": "8Gi"}}}))
        await until(lambda: error(""))
        text = b'kubernetesVersion: "1.33"'
        metadata = ObjectMeta(name=names.CLUSTER_CONFIGURATION_SECRET, namespace=names.SYSTEM_NAMESPACE)
        await client.create(Secret(metadata=metadata, data={names.CLUSTER_CONFIGURATION_KEY: text}))

        async def has_version() -> bool:
            status = (await client.get(NodeGroup, "w")).to_dict()["status"]
            return bool(status.get("kubernetesVersion") == "1.33")

        await until(has_version)

    run(story)


def test_kinds_that_a_cluster_need_not_have_are_nothing_to_be_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(client: Client) -> None:
        await client.create(document("w", nodeType="Static"))

    with caplog.at_level(logging.INFO, logger="quarterdeck"):
        run(story)
    missing = [record for record in caplog.records if "kind is missing" in record.getMessage()]
    assert len(missing) == 5, "machines and deployments of two engines, and settings of modules"
    assert {record.levelname for record in missing} == {"INFO"}


EXAMPLES = Path(__file__).parents[4] / "examples" / "nodegroup"


def test_every_example_is_accepted() -> None:
    manifests = [yaml.safe_load(path.read_text()) for path in sorted(EXAMPLES.glob("*.yaml"))]
    assert len(manifests) == 4

    async def story(client: Client) -> None:
        for manifest in manifests:
            await client.apply(DynamicObject(manifest), field_manager="example")
        await until(lambda: _has_nodes(client, "gpu", ["gpu-zone-a-0", "gpu-zone-b-0"]))
        legacy = await client.get(NodeGroup, "legacy")
        assert legacy.spec.node_type == names.CLOUD_EPHEMERAL

    run(story)
