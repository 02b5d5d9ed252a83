"""The rights that the operator derives: enough for all it does, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import PriorityClass
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject
from quarterdeck.api.k8s.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplateSpec,
)
from quarterdeck.client import MergePatch
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import Backend, BackendRegistry
from quarterdeck.operators.grove.types import (
    AutoScaling,
    ClaimTemplate,
    CliqueSharing,
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodClique,
    PodCliqueSet,
    PodGang,
    TopologyLevel,
    definitions,
)
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.rbac import Rule, compare, roles
from quarterdeck.runtime.reconcile.recording import Permission
from quarterdeck.testing import EventLog, TestCluster, run_until_idle

from .grovekit import NS, Grove, clique, group, pcs

USER = "grove-operator"
GROUP = "rbac.authorization.k8s.io"
SETTINGS = {
    "schedulerName": "kai-scheduler",
    "schedulerConfig": {"podGroups": "enabled"},
    "topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "r"}]},
}

GPU = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu.example.com"))
CLAIM = ClaimTemplate(
    name="gpu",
    template_spec=ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=DeviceClaim(requests=(GPU,)))),
)


async def grant(cluster: TestCluster, role: ClusterRole | Role) -> None:
    await cluster.client.create(role)
    subjects = [Subject(api_group=GROUP, kind="User", name=USER)]
    reference = RoleRef(api_group=GROUP, kind=role.kind, name=role.metadata.name)
    metadata = ObjectMeta(name=role.metadata.name, namespace=role.metadata.namespace)
    kind = ClusterRoleBinding if isinstance(role, ClusterRole) else RoleBinding
    await cluster.client.create(kind(metadata=metadata, role_ref=reference, subjects=subjects))


async def test_the_derived_role_is_enough_and_all_of_it_is_used() -> None:
    async with TestCluster(crds=[*definitions(), *kai_definitions()], controllers=True) as cluster:
        link, log = cluster.link(user=USER), EventLog()
        manager = cluster.manager(link=link, recorder=log)
        operator = GroveOperator(BackendRegistry(find=tuple), {names.INIT_IMAGE_ENV: "initc"})
        environment = OperatorEnvironment(name="grove", settings=SETTINGS, namespace=NS)
        webhooks = operator.setup(manager, environment)
        rules = (*manager.rules(), *webhooks.rules)
        for role in roles("grove", rules):
            await grant(cluster, role)
        async with cluster.serving(manager):
            await run_until_idle(manager)
            await everything(Grove(cluster, manager, link, log))
        assert not [each for each in log.events if each.type == "Warning"]
        assert [each for each in link.log if each.status == 403] == []
        used = {
            Permission(
                each.target.resource.partition(".")[2],
                each.target.resource.partition(".")[0]
                + (f"/{each.target.subresource}" if each.target.subresource else ""),
                "patch" if each.target.verb == "apply" else each.target.verb,
            )
            for each in link.log
            if each.is_write
        }
        judged = compare(rules, used)
        assert judged.missing == ()
        assert judged.unused == ()


class Frugal(Backend):
    """Says what it needs."""

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        return (Rule(groups=(config["group"],), resources=("berths",), verbs=("get",)),)


@pytest.mark.parametrize(("scheduler", "is_granted"), [("frugal", True), ("default-scheduler", False)])
async def test_what_a_backend_of_others_says_it_needs_is_derived_where_it_is_configured(
    scheduler: str, is_granted: bool
) -> None:
    registry = BackendRegistry(find=tuple)
    registry.register("frugal", Frugal)
    options = {"group": "dock.example.com"} if is_granted else {}
    settings = {"schedulerName": scheduler, "schedulerConfig": options}
    async with TestCluster() as cluster:
        manager = cluster.manager()
        environment = OperatorEnvironment(name="grove", settings=settings, namespace=NS)
        GroveOperator(registry, {}).setup(manager, environment)
        found = {each for rule in manager.rules() for each in rule.permissions()}
        assert (Permission("dock.example.com", "berths", "get") in found) is is_granted


async def everything(found: Grove) -> None:
    """Make the operator do everything it ever does."""
    client = found.client
    await client.create(PriorityClass(metadata=ObjectMeta(name="high"), value=9))
    levels = (TopologyLevel(domain="rack", key="r"),)
    topology = ClusterTopologyBinding(metadata=ObjectMeta(name="t"), spec=ClusterTopologySpec(levels=levels))
    topology = await client.create(topology)
    await found.settle()
    await client.patch(topology, MergePatch({"spec": {"levels": [{"domain": "host", "key": "h"}]}}))
    shares = (CliqueSharing(name="gpu", scope="PerReplica"),)
    scaling = AutoScaling(min_replicas=1, max_replicas=3)
    made = pcs(
        clique("a", 2, 1, resource_sharing=shares),
        clique("b", 2, 1, auto_scaling_config=scaling),
        clique("c"),
        groups=[group("g", ["c"], 2, 1)],
        priority_class_name="high",
        resource_claim_templates=(CLAIM,),
        clique_startup_type=names.IN_ORDER,
    )
    made = await client.create(
        made.evolve(metadata=ObjectMeta(name="w", namespace=NS, labels={names.KAI_QUEUE: "q"}))
    )
    await found.settle()
    await client.subresource("scale").patch(
        await client.get(PodClique, "w-0-a", NS), MergePatch({"spec": {"replicas": 1}})
    )
    await found.settle()
    gang = await client.get(PodGang, "w-0", NS)
    await client.patch(gang, MergePatch({"metadata": {"labels": {names.SCHEDULER_NAME: None}}}))
    await found.settle()
    await client.delete(PodCliqueSet, "w", NS)
    await found.settle()
    assert not (await client.list(PodGang, namespace=NS)).items
