"""Tests on a cluster of their own, on virtual time: `pytest test_team.py`."""

import pytest
from team_operator.controller import team_controller
from team_operator.types import Team, TeamSpec
from team_operator.webhook import one_team_each

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ClusterRoleBinding, Container, Namespace, Pod, PodSpec, ResourceQuota
from quarterdeck.api.k8s.rbac import RoleRef, Subject
from quarterdeck.client.clock import Clock
from quarterdeck.errors import Forbidden, Invalid, NotFound
from quarterdeck.runtime import Manager, roles
from quarterdeck.testing import EventLog, TestCluster, has_condition, run_until_idle

pytestmark = pytest.mark.cluster(crds=[Team], controllers=True)


def team(name: str, *members: str, gpus: int = 0) -> Team:
    return Team(metadata=ObjectMeta(name=name), spec=TeamSpec(members=members, gpus=gpus))


@pytest.fixture
async def running(cluster: TestCluster, manager: Manager) -> Manager:
    manager.add(team_controller())
    await cluster.start(manager)
    return manager


async def test_a_team_gets_a_namespace_with_a_quota(
    cluster: TestCluster, running: Manager, recorder: EventLog
) -> None:
    await cluster.client.create(team("vision", "ada", gpus=4))
    await run_until_idle(running)
    quota = await cluster.client.get(ResourceQuota, "gpus", "team-vision")
    assert quota.spec.hard["requests.nvidia.com/gpu"] == 4
    assert has_condition(await cluster.client.get(Team, "vision"), "Ready")
    assert recorder.about("vision") == ["Normal Ready namespace team-vision is ready"]


async def test_a_team_stays_until_its_pods_have_ended(
    cluster: TestCluster, running: Manager, clock: Clock
) -> None:
    vision = await cluster.client.create(team("vision", "ada"))
    await run_until_idle(running)
    spec = PodSpec(containers=(Container(name="main", image="train"),))
    pod = await cluster.client.create(
        Pod(metadata=ObjectMeta(name="train", namespace="team-vision"), spec=spec)
    )
    await cluster.client.delete(vision)
    await run_until_idle(running)
    assert has_condition(await cluster.client.get(Team, "vision"), "Ready", False, "PodsLeft")

    await cluster.client.delete(pod)
    await run_until_idle(running)
    with pytest.raises(NotFound):
        await cluster.client.get(Team, "vision")
    await clock.sleep(10)  # virtual seconds, for the garbage collector and the namespace controller
    with pytest.raises(NotFound):
        await cluster.client.get(Namespace, "team-vision")


async def test_nobody_is_in_two_teams(cluster: TestCluster, running: Manager) -> None:
    await cluster.serve_webhooks(one_team_each(running.cache))
    await cluster.client.create(team("vision", "ada", "grace"))
    await run_until_idle(running)
    with pytest.raises(Forbidden, match="ada is in team vision already"):
        await cluster.client.create(team("speech", "ada"))


async def test_gpus_must_be_fair(cluster: TestCluster) -> None:
    with pytest.raises(Invalid, match="at most 8 GPUs for each member"):
        await cluster.client.create(team("vision", "ada", gpus=9))


async def test_the_derived_permissions_are_enough(cluster: TestCluster) -> None:
    manager = cluster.manager(link=cluster.link(user="team-operator"))
    manager.add(team_controller())
    [role] = roles("team-operator", manager.rules())
    await cluster.client.create(role)
    await cluster.client.create(
        ClusterRoleBinding(
            metadata=role.metadata,
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="team-operator"),
            subjects=(Subject(api_group="rbac.authorization.k8s.io", kind="User", name="team-operator"),),
        )
    )
    async with cluster.serving(manager):
        vision = await cluster.client.create(team("vision", "ada", gpus=4))
        await run_until_idle(manager)
        assert has_condition(await cluster.client.get(Team, "vision"), "Ready")
        await cluster.client.delete(vision)
        await run_until_idle(manager)
        with pytest.raises(NotFound):
            await cluster.client.get(Team, "vision")
