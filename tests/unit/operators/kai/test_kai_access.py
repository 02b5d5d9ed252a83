"""The operator put together: the rights it derives, its defaults, its clock and its webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import Node, PriorityClass
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject
from quarterdeck.client import MergePatch
from quarterdeck.errors import ConfigError, Forbidden
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.assembly import KaiOperator, operator
from quarterdeck.operators.kai.types import KINDS, Queue
from quarterdeck.operators.kai.webhooks import pod_group_webhook, pod_webhook, queue_webhook
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.rbac import compare, roles
from quarterdeck.runtime.reconcile.recording import Permission
from quarterdeck.testing import EventLog, FaultPlan, Refuse, TestCluster, eventually, run_until_idle

from .devicekit import device, device_class, resource_claim, slice_of, user
from .kaikit import NS, Kai, claim, group, mounts, pod, queue, storage_class, volume

USER = "kai-operator"
GROUP = "rbac.authorization.k8s.io"
REFUSED = FaultPlan(0, Refuse(403, verbs=frozenset({"create"}), resources=frozenset({"pods"}), times=1))


async def grant(cluster: TestCluster, role: ClusterRole | Role) -> None:
    await cluster.client.create(role)
    subjects = [Subject(api_group=GROUP, kind="User", name=USER)]
    reference = RoleRef(api_group=GROUP, kind=role.kind, name=role.metadata.name)
    metadata = ObjectMeta(name=role.metadata.name, namespace=role.metadata.namespace)
    kind = ClusterRoleBinding if isinstance(role, ClusterRole) else RoleBinding
    await cluster.client.create(kind(metadata=metadata, role_ref=reference, subjects=subjects))


async def test_the_derived_role_is_enough_and_all_of_it_is_used() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        link = cluster.link(REFUSED, user=USER)
        log = EventLog()
        manager = cluster.manager(link=link, recorder=log)
        settings = {
            "updatePodEvictionCondition": True,
            "bindBackoffLimit": 1,
            "defaultPrioritiesConfigMap": "default/priorities",
        }
        KaiOperator().setup(manager, OperatorEnvironment(name="kai", settings=settings))
        for role in roles("kai", manager.rules()):
            await grant(cluster, role)
        async with cluster.serving(manager):
            await everything(Kai(cluster, manager, None, log))  # type: ignore[arg-type]  # the ticker has it
        assert [
            each for each in link.log if each.status == 403 and "binding" not in each.target.subresource
        ] == []
        used = {
            Permission(
                each.target.resource.partition(".")[2],
                each.target.resource.partition(".")[0]
                + (f"/{each.target.subresource}" if each.target.subresource else ""),
                each.target.verb,
            )
            for each in link.log
            if each.is_write
        }
        # no request of its own: the server asks for it when an allocation in the status changes
        assert Permission("resource.k8s.io", "resourceclaims/status", "patch") in used
        used.add(Permission("resource.k8s.io", "resourceclaims/binding", "patch"))
        judged = compare(manager.rules(), used)
        assert judged.missing == ()
        assert judged.unused == ()


async def everything(found: Kai) -> None:
    """Make the operator do everything it ever does."""
    client = found.client
    await found.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "priorities", "namespace": NS}}
    )
    await found.create(
        {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard", "metadata": {"name": "all"}, "spec": {}}
    )
    for name, value in (("low", 10), ("high", 90)):
        await client.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
    await found.add_nodes("n1", gpus=1)
    await found.create(queue("team"), group("low", priorityClassName="low"), pod("low-0", "low"))

    await found.create(
        storage_class(),
        storage_class("made", "example.com/disk"),
        volume("disk", "n1"),
        claim(),
        claim("fresh", "made"),
        group("disks", 2),
        pod("disks-0", "disks", gpu=0, volumes=mounts("data")),
        pod("disks-1", "disks", gpu=0, volumes=mounts("fresh")),
    )
    await found.make_available("disk")
    await found.add_nodes("n2", gpus=0)
    await found.create(
        device_class(),
        slice_of("n2", device("gpu-0")),
        resource_claim(),
        group("devices"),
        user("devices-0", "gpus", "devices"),
    )

    async def is_bound(name: str) -> bool:
        return bool((await found.pod(name)).spec.node_name)

    await eventually(lambda: is_bound("low-0"), timeout=60)  # the first attempt is refused
    await found.set_phase("low-0", "Running")
    await found.create(pod("bare"))
    await run_until_idle(found.manager)
    solo = await found.pod("bare")
    made = await found.group(solo.metadata.annotations[names.POD_GROUP_ANNOTATION])
    await client.patch(made, MergePatch({"spec": {"minMember": 4}}))
    await found.create(group("high", priorityClassName="high"), pod("high-0", "high"))

    async def is_evicted() -> bool:
        return (await found.pod("low-0")).metadata.is_deleting

    await eventually(is_evicted, timeout=60)
    await client.delete(await found.pod("low-0"), grace_period=0)
    await eventually(lambda: is_bound("high-0"), timeout=60)
    await eventually(lambda: is_bound("devices-0"), timeout=60)
    await client.delete(Node, "n1")
    await found.cluster.clock.sleep(5)


async def test_the_operator_schedules_by_itself_and_brings_its_defaults() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        metrics = RuntimeMetrics()
        manager = cluster.manager(metrics=metrics, recorder=EventLog())
        webhooks = operator().setup(manager, OperatorEnvironment(name="kai"))
        assert webhooks.configuration == "kai-scheduler"
        found = Kai(cluster, manager, None, EventLog())  # type: ignore[arg-type]  # the ticker has it
        async with cluster.serving(manager):
            await found.add_nodes("n1", gpus=1)
            await found.create(pod("solo"))
            await cluster.clock.sleep(5)
            assert (await found.pod("solo")).spec.node_name == "n1"
            classes = {each.metadata.name: each.value for each in await cluster.client.list(PriorityClass)}
            assert classes.items() >= names.PRIORITY_CLASSES.items()
            queues = {each.metadata.name: each for each in await cluster.client.list(Queue)}
            assert sorted(queues) == ["default-parent-queue", "default-queue"]
            assert queues["default-queue"].spec.parent_queue == "default-parent-queue"
            registry = metrics.registry
            assert registry.value("quarterdeck_kai_cycles_total", "success") >= 3
            assert registry.value("quarterdeck_kai_pods_bound_total") == 1
            assert registry.value("quarterdeck_kai_bind_attempts_total", "success") == 1
            assert registry.value("quarterdeck_kai_queue_allocated", "default-queue", "gpu") == 1
            assert registry.value("quarterdeck_kai_last_cycle_timestamp_seconds") > 0
            await cluster.client.delete(Queue, "default-queue")
            await cluster.clock.sleep(5)
            assert "default-queue" not in {each.metadata.name for each in await cluster.client.list(Queue)}
            assert ("default-queue", "gpu") not in dict(
                registry.family("quarterdeck_kai_queue_allocated").items()
            )


async def test_defaults_that_exist_are_left_as_they_are() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        manager = cluster.manager()
        operator().setup(manager, OperatorEnvironment(name="kai"))
        await cluster.client.create(DynamicObject(queue("default-queue")))
        before = await cluster.client.get(Queue, "default-queue")
        async with cluster.serving(manager):
            await cluster.clock.sleep(5)
        assert (await cluster.client.get(Queue, "default-queue")).spec == before.spec


async def test_no_defaults_where_nobody_wants_them() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        manager = cluster.manager()
        environment = OperatorEnvironment(name="kai", settings={"installDefaults": False})
        operator().setup(manager, environment)
        async with cluster.serving(manager):
            await cluster.clock.sleep(5)
        assert not await cluster.client.list(Queue)


def test_a_wrong_setting_ends_the_setup() -> None:
    with pytest.raises(ConfigError, match=r"operators\.kai: "):
        KaiOperator().setup(None, OperatorEnvironment(name="kai", settings={"period": 1}))  # type: ignore[arg-type]


async def test_the_webhooks_answer_through_the_api_server() -> None:
    async with TestCluster(crds=KINDS) as cluster:
        await cluster.serve_webhooks(pod_group_webhook(), queue_webhook(), pod_webhook("kai-scheduler"))
        client = cluster.client

        async def refuses(document: dict[str, Any], text: str) -> None:
            with pytest.raises(Forbidden) as error:
                await client.create(DynamicObject(document))
            assert f"denied the request: {text}" in str(error.value)

        await refuses(group("g", subGroups=[{"name": "A"}]), 'subgroup name "A" must be lowercase')
        bare = {**queue("q"), "spec": {}}
        await refuses(bare, "resources must be specified")
        half = {"annotations": {"gpu-fraction": "0.5"}}
        await refuses(pod("p", metadata=half), "cannot have both GPU fraction request and whole GPU")
        # pods of other schedulers, and those that share nothing, are none of our business
        await client.create(DynamicObject(pod("p", metadata=half, schedulerName="other")))
        await client.create(DynamicObject(pod("q")))
        made = await client.create(DynamicObject(group("g", subGroups=[{"name": "a"}])))
        with pytest.raises(Forbidden, match="must be lowercase"):
            await client.patch(made, MergePatch({"spec": {"subGroups": [{"name": "a", "parent": "A"}]}}))
        # the status is written without asking
        await client.status.patch(made, MergePatch({"status": {"phase": "Running"}}))
        await client.delete(made)
