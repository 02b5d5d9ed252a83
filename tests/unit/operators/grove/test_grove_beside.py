"""Two installations on one cluster, each with its namespaces, its scheduler and its derived roles."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quarterdeck.api import UNSET, ObjectMeta
from quarterdeck.api.k8s import Namespace, Pod, ValidatingWebhookConfiguration
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, RoleBinding, RoleRef, Subject
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.errors import ConfigError, Forbidden
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import BackendRegistry
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodCliqueSet,
    PodGang,
    SchedulerTopologyBinding,
    TopologyLevel,
    definitions,
)
from quarterdeck.operators.kai.types import Topology
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.operator.program import RIVAL, Program, ProgramOptions
from quarterdeck.runtime.rbac import roles
from quarterdeck.testing import Link, TestCluster, eventually, run_until_idle

from .grovekit import clique, light_definitions, pcs, pod_spec

GROUP = "rbac.authorization.k8s.io"
PLAIN = {"topologyAwareScheduling": {"enabled": True}}
KAI = {
    **PLAIN,
    "schedulerName": "kai-scheduler",
    "schedulerConfig": {"podGroups": "disabled", "requireQueue": False},
}


def program(link: Link, settings: Mapping[str, Any], own: str, *watched: str) -> Program:
    operator = GroveOperator(BackendRegistry(find=tuple), {names.INIT_IMAGE_ENV: "initc"})
    options = ProgramOptions(
        namespace=own,
        watch_namespaces=watched,
        settings={"grove": settings},
        webhook_url="https://127.0.0.1:0",
    )
    return Program(link.client, [operator], options)


async def grant(cluster: TestCluster, user: str, made: Program) -> None:
    subjects = [Subject(api_group=GROUP, kind="User", name=user)]
    for role in roles(user, made.manager.rules(), namespaces=made.options.watch_namespaces):
        await cluster.client.create(role)
        binding = ClusterRoleBinding if isinstance(role, ClusterRole) else RoleBinding
        reference = RoleRef(api_group=GROUP, kind=role.kind, name=user)
        metadata = ObjectMeta(name=user, namespace=role.metadata.namespace)
        await cluster.client.create(binding(metadata=metadata, role_ref=reference, subjects=subjects))


@asynccontextmanager
async def installed(
    cluster: TestCluster, settings: Mapping[str, Any], own: str, *watched: str
) -> AsyncIterator[Link]:
    """An installation that may do what its roles say; it takes its webhooks with it."""
    link = cluster.link(user=own)
    made = program(link, settings, own, *watched)
    await grant(cluster, own, made)
    async with made.manager:
        running = asyncio.ensure_future(made.serve())
        try:
            await made.wait_ready()
            yield link
        finally:
            made.manager.request_stop()
            await running
            await made.withdraw()


def manifest(namespace: str, scheduler: str = "") -> PodCliqueSet:
    spec = pod_spec(scheduler_name=scheduler)
    made = pcs(clique("a", 2, pod_spec=spec), is_complete=False)
    return made.evolve(metadata=ObjectMeta(name="w", namespace=namespace))


@pytest.mark.real_time  # webhooks under certificates that are made for today
async def test_two_schedulers_on_one_cluster_in_namespaces_of_their_own() -> None:
    spaces = ("grove-a", "grove-b", "team-a", "team-b", "team-c", "nobodys")
    async with TestCluster(crds=[*definitions(), *kai_definitions()], controllers=True) as cluster:
        client = cluster.client
        for name in spaces:
            await client.create(Namespace(metadata=ObjectMeta(name=name)))
        async with installed(cluster, KAI, "grove-a", "team-a") as ours:
            async with installed(cluster, PLAIN, "grove-b", "team-b", "team-c") as theirs:
                for team in ("team-a", "team-b", "team-c"):
                    await client.create(manifest(team))

                async def pods() -> list[tuple[str, str]]:
                    found = (await client.list(Pod)).items
                    return sorted((each.metadata.namespace, each.spec.scheduler_name) for each in found)

                async def are_made() -> bool:
                    gangs = (await client.list(PodGang)).items
                    return len(gangs) == 3 and len(await pods()) == 6

                await eventually(are_made)
                gangs = (await client.list(PodGang)).items
                by_team = {each.metadata.namespace: each.metadata.labels for each in gangs}
                chosen = {team: labels[names.SCHEDULER_NAME] for team, labels in by_team.items()}
                default, kai = "default-scheduler", "kai-scheduler"
                assert chosen == {"team-a": kai, "team-b": default, "team-c": default}
                assert set(await pods()) == {("team-a", kai), ("team-b", default), ("team-c", default)}

                # each namespace is judged by its own installation, and by none where there is none
                for team, scheduler in (("team-a", kai), ("team-b", default), ("nobodys", kai)):
                    made = manifest(team, scheduler)
                    await client.create(made.evolve(metadata=ObjectMeta(name="named", namespace=team)))
                with pytest.raises(Forbidden, match="kai-scheduler"):
                    await client.create(
                        manifest("team-c", kai).evolve(metadata=ObjectMeta(name="x", namespace="team-c"))
                    )
                await topologies(cluster)
                assert not [
                    each for each in await client.list(PodGang) if each.metadata.namespace == "nobodys"
                ]
                assert await registered(cluster) == {"grove-a": {"team-a"}, "grove-b": {"team-b", "team-c"}}
                for link, served in (
                    (ours, {"grove-a", "team-a"}),
                    (theirs, {"grove-b", "team-b", "team-c"}),
                ):
                    assert [each for each in link.log if each.status == 403] == []
                    written = {each.target.namespace for each in link.log if each.is_write}
                    assert written - {"", "default"} == served
            # what one leaves behind is the other's as before
            assert await registered(cluster) == {"grove-a": {"team-a"}}
            await client.create(
                manifest("team-c", "kai-scheduler").evolve(metadata=ObjectMeta(name="x", namespace="team-c"))
            )


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (("team-a", "team-b"), ("team-b", "team-c"), "team-b"),
        (("team-a",), (), "team-a"),
        ((), ("team-a",), "team-a"),
        (("team-a",), ("team-b",), ""),
    ],
)
async def test_who_comes_second_says_which_namespaces_are_served_twice(
    first: tuple[str, ...], second: tuple[str, ...], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with TestCluster(crds=definitions()) as cluster:
        for name in ("grove-a", "grove-b", "team-a", "team-b", "team-c"):
            await cluster.client.create(Namespace(metadata=ObjectMeta(name=name)))
        async with installed(cluster, {}, "grove-a", *first):
            assert RIVAL not in caplog.messages
            async with installed(cluster, {}, "grove-b", *second) as link:
                assert [each for each in link.log if each.status == 403] == []
                rivals = await program(cluster.link(), {}, "grove-b", *second).rivals()
            assert (RIVAL in caplog.messages) == bool(told)
            assert {each.rpartition(": ")[2] for each in rivals} == ({told} if told else set())


async def registered(cluster: TestCluster) -> dict[str, set[str]]:
    """The namespaces that webhooks are called for, by the installation that registered them."""
    found: dict[str, set[str]] = {}
    for each in (await cluster.client.list(ValidatingWebhookConfiguration)).items:
        for hook in each.webhooks:
            selector = hook.namespace_selector
            assert selector
            [term] = selector.match_expressions
            assert isinstance(term, LabelSelectorRequirement)
            assert (term.key, term.operator) == ("kubernetes.io/metadata.name", "In")
            found.setdefault(each.metadata.name.split(".")[1], set()).update(term.values)
    return found


async def topologies(cluster: TestCluster) -> None:
    """A topology is kept by the installation that its label names, and by no other."""
    spec = ClusterTopologySpec(levels=(TopologyLevel(domain="rack", key="r"),))
    # the other one would refuse it: it has no such scheduler
    bound = spec.evolve(
        scheduler_topology_bindings=(
            SchedulerTopologyBinding(scheduler_name="kai-scheduler", topology_reference="t"),
        )
    )
    labels = {names.INSTALLATION: "grove-a"}
    made = ClusterTopologyBinding(metadata=ObjectMeta(name="bound", labels=labels), spec=bound)
    await cluster.client.delete(await cluster.client.create(made))
    for name, keeper in (("ours", "grove-a"), ("theirs", "grove-b"), ("nobodys", "")):
        labels = {names.INSTALLATION: keeper} if keeper else {}
        await cluster.client.create(
            ClusterTopologyBinding(metadata=ObjectMeta(name=name, labels=labels), spec=spec)
        )

    async def statuses() -> dict[str, list[str]]:
        found = (await cluster.client.list(ClusterTopologyBinding)).items
        return {
            each.metadata.name: [one.scheduler_name for one in each.status.scheduler_topology_statuses]
            for each in found
            if each.status.conditions
        }

    async def are_kept() -> bool:
        return await statuses() == {"ours": ["kai-scheduler"], "theirs": []}

    await eventually(are_kept)
    assert [each.metadata.name for each in (await cluster.client.list(Topology)).items] == ["ours"]


async def test_the_topology_of_an_installation_for_all_namespaces_is_left_alone() -> None:
    async with TestCluster(crds=light_definitions()) as cluster:
        labels = {names.MANAGED_BY: names.OPERATOR}
        spec = ClusterTopologySpec(levels=(TopologyLevel(domain="rack", key="r"),))
        metadata = ObjectMeta(name=names.DEFAULT_TOPOLOGY, labels=labels)
        await cluster.client.create(ClusterTopologyBinding(metadata=metadata, spec=spec))
        for watched, is_left in ((("team-a",), True), ((), False)):
            manager = cluster.manager(cache=CacheOptions(namespaces=watched or UNSET))
            environment = OperatorEnvironment(name="grove", namespace="grove-a", watch_namespaces=watched)
            GroveOperator(BackendRegistry(find=tuple), {}).setup(manager, environment)
            async with cluster.serving(manager):
                await run_until_idle(manager)
            assert bool((await cluster.client.list(ClusterTopologyBinding)).items) is is_left


async def test_levels_would_make_one_topology_for_all() -> None:
    levels = {"topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "r"}]}}
    async with TestCluster() as cluster:
        link = cluster.link()
        with pytest.raises(ConfigError, match=r"with the label grove.io/operator-namespace: grove-a"):
            program(link, levels, "grove-a", "team-a")
        assert not program(link, levels, "grove-a").options.watch_namespaces
