"""The operator as a whole: its start, its backends over time, clusters that others have left behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import UNSET, Key, ObjectMeta, Scheme, owner_reference
from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import ConfigMap, Pod, Secret
from quarterdeck.api.k8s.volume import SecretVolumeSource, Volume
from quarterdeck.client import Client, MergePatch
from quarterdeck.errors import NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import Backend, BackendRegistry, HookContext, get, prepare_pod
from quarterdeck.operators.grove.configwatch import ConfigurationWatch
from quarterdeck.operators.grove.controllers import set_controller
from quarterdeck.operators.grove.controllers.expectation import PodExpectations
from quarterdeck.operators.grove.controllers.preflight import StartError
from quarterdeck.operators.grove.program import exit_code_of
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    PodClique,
    PodCliqueSet,
    PodGang,
    SchedulerTopologyBinding,
    TopologyLevel,
)
from quarterdeck.operators.kai.types import Topology
from quarterdeck.operators.kai.types import TopologyLevel as KaiLevel
from quarterdeck.operators.kai.types import TopologySpec as KaiTopologySpec
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.testing import EventLog, TestCluster, eventually, run_until_idle
from quarterdeck.wire.http import Request
from tests.harness.grove.guard import make_shared

from .grovekit import NOW, NS, Grove, clique, group, light_definitions, pcs, running, set_ready


class Moody(Backend):
    """Fails when it is told to."""

    problem = ""
    seen: list[str]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen = []

    def health(self) -> None:
        if self.problem:
            raise RuntimeError(self.problem)

    def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self.seen.append(pod_gang.metadata.name)


class Broken(Moody):
    def init(self) -> None:
        raise RuntimeError("no license")


class Known:
    """A registry with one more backend, whose instances are remembered."""

    def __init__(self, name: str, kind: type[Moody]) -> None:
        self.registry = BackendRegistry(find=tuple)
        self.made: list[Moody] = []

        def build(
            client: Client, scheme: Scheme, recorder: Recorder, scheduler_name: str, config: Mapping[str, Any]
        ) -> Moody:
            self.made.append(kind(client, scheme, recorder, scheduler_name, config))
            return self.made[-1]

        self.registry.register(name, build)


def fresh(*cliques: Any, **fields: Any) -> PodCliqueSet:
    made = pcs(*cliques, **fields)
    return made.evolve(metadata=ObjectMeta(name=made.metadata.name, namespace=NS))


async def status_of(cluster: TestCluster) -> tuple[str, dict[str, Any]]:
    """The active backend, and the condition of the operator."""
    found = await cluster.client.get(ConfigMap, names.STATUS_CONFIG_MAP, NS)
    (condition,) = json.loads(found.data["conditions"])
    return found.data.get("activeBackend", ""), condition


async def test_a_backend_that_does_not_start_ends_the_operator_and_is_told() -> None:
    registry = Known("moody", Broken).registry
    async with TestCluster(crds=light_definitions()) as cluster:
        manager = cluster.manager()
        manager = cluster.manager(recorder=EventBroadcaster(manager.client))
        webhooks = GroveOperator(registry, {}).setup(
            manager, OperatorEnvironment(name="grove", settings={"schedulerName": "moody"}, namespace=NS)
        )
        with pytest.raises(StartError, match="failed to initialize backend: no license") as error:
            async with cluster.serving(manager):
                await asyncio.sleep(5)
        assert exit_code_of(error.value) == 5
        active, condition = await status_of(cluster)
        assert active == ""
        assert (condition["status"], condition["reason"]) == ("False", "BackendInitializationFailed")
        assert webhooks.checks["scheduler-backend"]() == condition["message"]
        events = await cluster.client.rest.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        told = [each["reason"] for each in json.loads(events.body)["items"]]
        assert told == ["BackendInitializationFailed"]


async def test_the_status_is_shown_and_served() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        manager, log = cluster.manager(), EventLog()
        manager = cluster.manager(recorder=log)
        operator = GroveOperator(BackendRegistry(find=tuple), {})
        webhooks = operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        assert webhooks.checks["scheduler-backend"]() == "scheduler backend is not configured"
        async with cluster.serving(manager):
            await run_until_idle(manager)
            active, condition = await status_of(cluster)
            assert (active, condition["status"]) == ("default-scheduler", "True")
            assert webhooks.checks["scheduler-backend"]() is None
            assert served(webhooks) == {"activeBackend": active, "conditions": [condition]}
        assert [each.reason for each in log.events] == ["BackendInitialized"]


async def test_the_backend_of_the_process_is_that_of_the_operator_that_runs() -> None:
    async with running() as grove:
        active = get()
        assert active is not None
        assert active.name == "default-scheduler"
        draft = Pod(metadata=ObjectMeta(name="p")).draft()
        prepare_pod(draft)
        assert draft.done().spec.scheduler_name == "default-scheduler"
        assert (await status_of(grove.cluster))[0] == active.name


@pytest.mark.parametrize("active", ["kai-scheduler", "default-scheduler"])
async def test_of_several_backends_the_status_is_about_the_active_one(active: str) -> None:
    profiles: list[dict[str, Any]] = [
        {"name": "default-scheduler"},
        {"name": "kai-scheduler", "config": {"podGroups": "disabled"}},
    ]
    settings = {"scheduler": {"profiles": profiles, "defaultProfileName": active}}
    async with running(settings) as grove:
        name, condition = await status_of(grove.cluster)
        assert (name, condition["status"]) == (active, "True")
        assert condition["message"] == f"Scheduler backend '{active}' initialized successfully"
        notes = {each.note for each in grove.events.events if each.reason == "BackendInitialized"}
        assert notes == {f"Scheduler backend '{each['name']}' initialized successfully" for each in profiles}


def served(webhooks: OperatorWebhooks) -> Any:
    request = Request("GET", names.STATUS_PATH)
    return json.loads(webhooks.open_endpoints[names.STATUS_PATH](request).body)


async def test_a_backend_that_is_ill_makes_the_operator_unready_until_it_is_well() -> None:
    known = Known("moody", Moody)
    async with TestCluster(crds=light_definitions()) as cluster:
        manager = cluster.manager()
        webhooks = GroveOperator(known.registry, {}).setup(
            manager, OperatorEnvironment(name="grove", settings={"schedulerName": "moody"}, namespace=NS)
        )
        check = webhooks.checks["scheduler-backend"]
        async with cluster.serving(manager):
            await asyncio.sleep(1)
            assert check() is None
            known.made[0].problem = "scheduler is away"
            await asyncio.sleep(31)
            assert check() == "moody: scheduler is away"
            known.made[0].problem = ""
            await asyncio.sleep(31)
            assert check() is None


async def test_the_topology_of_the_configuration_is_kept_and_goes_with_the_feature() -> None:
    settings = {"topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "rack", "key": "r"}]}}
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running(settings, cluster=cluster) as grove:
            found = await grove.client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)
            assert [(each.domain, each.key) for each in found.spec.levels] == [
                ("rack", "r"),
                ("host", "kubernetes.io/hostname"),
            ]
        async with running(cluster=cluster) as grove:
            with pytest.raises(NotFound):
                await grove.client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)


async def test_gangs_of_an_earlier_backend_stay_with_it() -> None:
    known = Known("moody", Moody)
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running({"schedulerName": "moody"}, registry=known.registry, cluster=cluster) as grove:
            await grove.client.create(fresh(clique("a", 2, 1), name="old"))
            await grove.settle()
        async with running(registry=known.registry, cluster=cluster) as grove:
            assert [each.reason for each in grove.events.events] == ["BackendInitialized", "BackendSwitched"]
            await grove.client.create(fresh(clique("a"), name="new"))
            scale = grove.client.subresource("scale")
            old = await grove.client.get(PodClique, "old-0-a", NS)
            await scale.patch(old, MergePatch({"spec": {"replicas": 3}}))
            await grove.settle()
            assert set(known.made[1].seen) == {"old-0"}
            pods = (await grove.client.list(Pod, namespace=NS)).items
            named = {(pod.metadata.labels[names.PART_OF], pod.spec.scheduler_name) for pod in pods}
            assert named == {("old", "moody"), ("new", "default-scheduler")}


async def test_a_draining_backend_keeps_its_options_over_restarts_until_its_last_gang_is_gone() -> None:
    known, options = Known("moody", Moody), {"mood": "sour"}
    settings = {"schedulerName": "moody", "schedulerConfig": options}
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running(settings, registry=known.registry, cluster=cluster) as grove:
            await grove.client.create(fresh(clique("a"), name="old"))
            await grove.settle()
        for _ in range(2):
            async with running(registry=known.registry, cluster=cluster) as grove:
                await asyncio.sleep(31)
                assert known.made[-1].config == options
                assert len(known.made) > 1
        async with running(registry=known.registry, cluster=cluster) as grove:
            await grove.client.delete(PodCliqueSet, "old", NS)
            await asyncio.sleep(61)
            told = await grove.client.get(ConfigMap, names.STATUS_CONFIG_MAP, NS)
            assert "backendOptions" not in told.data
            metrics = grove.manager.metrics
            assert isinstance(metrics, RuntimeMetrics)
            assert not dict(metrics.registry.family("grove_scheduler_backend_healthy").items())
        count = len(known.made)
        async with running(registry=known.registry, cluster=cluster):
            assert len(known.made) == count


async def test_options_of_earlier_backends_that_make_no_sense_do_not_keep_the_operator_from_starting() -> (
    None
):
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        metadata = ObjectMeta(name=names.STATUS_CONFIG_MAP, namespace=NS)
        await cluster.client.create(ConfigMap(metadata=metadata, data={"backendOptions": "[1"}))
        async with running(cluster=cluster):
            assert (await status_of(cluster))[1]["status"] == "True"


async def test_a_gang_without_a_label_belongs_to_the_scheduler_of_its_pods() -> None:
    known = Known("moody", Moody)
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running({"schedulerName": "moody"}, registry=known.registry, cluster=cluster) as grove:
            await grove.client.create(fresh(clique("a"), name="old"))
            await grove.settle()
        gang = await cluster.client.get(PodGang, "old-0", NS)
        await cluster.client.patch(gang, MergePatch({"metadata": {"labels": {names.SCHEDULER_NAME: None}}}))
        shared = await make_shared(cluster.client, {}, known.registry)
        await cluster.reconcile_once(set_controller(shared), Key(NS, "old"))
        untold = await cluster.client.get(PodGang, "old-0", NS)
        assert names.SCHEDULER_NAME not in untold.metadata.labels
        async with running(registry=known.registry, cluster=cluster) as grove:
            await grove.settle()
            found = await grove.client.get(PodGang, "old-0", NS)
            assert found.metadata.labels[names.SCHEDULER_NAME] == "moody"


class Sulky(Moody):
    """Fails at first."""

    def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        super().sync_pod_gang(ctx, pod_gang)
        if len(self.seen) == 1:
            raise RuntimeError("not yet")


async def test_a_gang_is_new_to_its_backend_once_whatever_comes_of_it() -> None:
    known, metrics = Known("sulky", Sulky), RuntimeMetrics()
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        manager = cluster.manager(metrics=metrics)
        settings = {"schedulerName": "sulky"}
        GroveOperator(known.registry, {}).setup(
            manager, OperatorEnvironment(name="grove", settings=settings, namespace=NS)
        )
        async with cluster.serving(manager):
            await cluster.client.create(fresh(clique("a")))
            await asyncio.sleep(10)
        totals: dict[Any, Any] = dict(
            metrics.registry.family("grove_scheduler_backend_operation_total").items()
        )
        assert totals["sulky", "create", "failure"].value == 1
        assert ("sulky", "create", "success") not in totals
        assert totals["sulky", "update", "success"].value >= 1


async def test_gangs_of_a_backend_that_nobody_knows_any_more_are_told_so() -> None:
    known = Known("moody", Moody)
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        async with running({"schedulerName": "moody"}, registry=known.registry, cluster=cluster) as grove:
            await grove.client.create(fresh(clique("a"), name="old"))
            await grove.settle()
        async with running(cluster=cluster) as grove:
            await asyncio.sleep(5)
            told = [each for each in grove.events.events if each.reason == "BackendOperationFailed"]
            assert {each.regarding.metadata.name for each in told} == {"old-0"}
            assert 'unsupported scheduler "moody"' in told[0].note


async def test_another_scheduler_in_the_file_is_taken_over_for_new_sets(tmp_path: Path) -> None:
    known, file = Known("moody", Moody), tmp_path / "config.yaml"
    file.write_text("{}")
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        watch, log = ConfigurationWatch(file, known.registry), EventLog()
        metrics = RuntimeMetrics()
        manager = cluster.manager(recorder=log, metrics=metrics)
        operator = GroveOperator(known.registry, {}, watch)
        operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        async with cluster.serving(manager):
            grove = Grove(cluster, manager, cluster.link(), log)
            await cluster.client.create(fresh(clique("a"), name="old"))
            await grove.settle()
            file.write_text("schedulerName: moody")
            await asyncio.sleep(6)
            await cluster.client.create(fresh(clique("a"), name="new"))
            await grove.settle()
            pods = (await cluster.client.list(Pod, namespace=NS)).items
            named = {(pod.metadata.labels[names.PART_OF], pod.spec.scheduler_name) for pod in pods}
            assert named == {("old", "default-scheduler"), ("new", "moody")}
            told = [each.note for each in log.events if each.reason == "BackendSwitched"]
            assert told == ["Switched from backend 'default-scheduler' to 'moody'"]
            assert (await status_of(cluster))[0] == "moody"
            info = metrics.registry.family("grove_scheduler_backend_info").items()
            assert [labels for labels, _ in info] == [("moody", "unknown")]


async def test_a_backend_that_was_switched_to_is_asked_for_its_health(tmp_path: Path) -> None:
    known, file = Known("moody", Moody), tmp_path / "config.yaml"
    file.write_text("{}")
    async with TestCluster(crds=light_definitions()) as cluster:
        manager = cluster.manager()
        operator = GroveOperator(known.registry, {}, ConfigurationWatch(file, known.registry))
        webhooks = operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        async with cluster.serving(manager):
            await asyncio.sleep(1)
            file.write_text("schedulerName: moody")
            await asyncio.sleep(6)
            known.made[0].problem = "scheduler is away"
            await asyncio.sleep(31)
            assert webhooks.checks["scheduler-backend"]() == "moody: scheduler is away"


async def test_every_switch_is_told_as_it_was(tmp_path: Path) -> None:
    known, file = Known("moody", Moody), tmp_path / "config.yaml"
    file.write_text("{}")
    async with TestCluster(crds=light_definitions()) as cluster:
        broadcaster = EventBroadcaster(cluster.client)
        watch = ConfigurationWatch(file, known.registry)
        manager = cluster.manager(recorder=broadcaster)
        operator = GroveOperator(known.registry, {}, watch)
        operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        async with cluster.serving(manager):
            for content in ("schedulerName: moody", "{}"):
                await asyncio.sleep(6)
                file.write_text(content)
            await asyncio.sleep(6)
        found = await cluster.client.rest.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        notes = {(each["reason"], each["note"]) for each in json.loads(found.body)["items"]}
        assert notes == {
            ("BackendInitialized", "Scheduler backend 'default-scheduler' initialized successfully"),
            ("BackendInitialized", "Scheduler backend 'moody' initialized successfully"),
            ("BackendSwitched", "Switched from backend 'default-scheduler' to 'moody'"),
            ("BackendSwitched", "Switched from backend 'moody' to 'default-scheduler'"),
        }


@pytest.mark.parametrize(
    ("content", "is_ready"),
    [("schedulerName: broken", False), ("schedulerName: nobody", True), ("schedulerName: [", True)],
)
async def test_a_file_that_makes_no_sense_changes_nothing(
    tmp_path: Path, content: str, is_ready: bool
) -> None:
    known, file = Known("broken", Broken), tmp_path / "config.yaml"
    file.write_text("{}")
    async with TestCluster(crds=light_definitions()) as cluster:
        watch = ConfigurationWatch(file, known.registry)
        manager = cluster.manager()
        operator = GroveOperator(known.registry, {}, watch)
        webhooks = operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        async with cluster.serving(manager):
            await asyncio.sleep(1)
            file.write_text(content)
            watch.request_reload()
            await asyncio.sleep(1)
            active, condition = await status_of(cluster)
            assert active == "default-scheduler"
            assert (condition["status"] == "True") is is_ready
            assert (webhooks.checks["scheduler-backend"]() is None) is is_ready


async def test_a_switch_that_failed_and_is_taken_back_leaves_nothing_behind(tmp_path: Path) -> None:
    known, file = Known("broken", Broken), tmp_path / "config.yaml"
    file.write_text("{}")
    async with TestCluster(crds=light_definitions()) as cluster:
        watch, log = ConfigurationWatch(file, known.registry), EventLog()
        manager = cluster.manager(recorder=log)
        operator = GroveOperator(known.registry, {}, watch)
        webhooks = operator.setup(manager, OperatorEnvironment(name="grove", namespace=NS))
        async with cluster.serving(manager):
            await asyncio.sleep(1)
            file.write_text("schedulerConfig: {gangScheduling: true}")
            await asyncio.sleep(6)
            assert "Workload" in str(webhooks.checks["scheduler-backend"]())
            file.write_text("{}")
            watch.request_reload()
            await asyncio.sleep(1)
            assert webhooks.checks["scheduler-backend"]() is None
            active, condition = await status_of(cluster)
            assert (active, condition["status"]) == ("default-scheduler", "True")
            assert condition["reason"] == "BackendInitialized"
            assert not [each for each in log.events if each.reason == "BackendSwitched"]


async def test_hashes_of_another_implementation_are_replaced_and_nothing_is_updated() -> None:
    async with TestCluster(crds=light_definitions(), controllers=True) as cluster:
        client = cluster.client
        async with running(cluster=cluster) as grove:
            await client.create(fresh(clique("a", 2, 1), clique("b"), groups=[group("g", ["b"])]))
            await grove.settle()
            await set_ready(grove)
            await grove.settle()
        ours = (await client.get(PodCliqueSet, "w", NS)).status.current_generation_hash
        await as_if_by_another(client)
        before = {pod.metadata.uid for pod in (await client.list(Pod, namespace=NS)).items}
        async with running(cluster=cluster) as grove:
            await grove.settle()
            found = await client.get(PodCliqueSet, "w", NS)
            assert found.status.current_generation_hash == ours
            assert found.metadata.annotations[names.HASH_VERSION] == names.OUR_HASH_VERSION
            assert not found.status.update_progress
            pods = (await client.list(Pod, namespace=NS)).items
            assert {pod.metadata.uid for pod in pods} == before
            hashes = {pod.metadata.labels[names.TEMPLATE_HASH] for pod in pods}
            assert "theirs" not in hashes
            for each in (await client.list(PodClique, namespace=NS)).items:
                assert each.status.current_pod_template_hash == each.metadata.labels[names.TEMPLATE_HASH]
                assert each.status.current_pod_clique_set_generation_hash == ours


async def as_if_by_another(client: Client) -> None:
    """Hashes as another implementation writes them."""
    label = MergePatch({"metadata": {"labels": {names.TEMPLATE_HASH: "theirs"}}})
    status = {"currentPodTemplateHash": "theirs", "currentPodCliqueSetGenerationHash": "theirs"}
    for pod in (await client.list(Pod, namespace=NS)).items:
        await client.patch(pod, label)
    for each in (await client.list(PodClique, namespace=NS)).items:
        await client.patch(each, label)
        await client.status.patch(each, MergePatch({"status": status}))
    found = await client.get(PodCliqueSet, "w", NS)
    await client.status.patch(found, MergePatch({"status": {"currentGenerationHash": "theirs"}}))
    await client.patch(found, MergePatch({"metadata": {"annotations": {names.HASH_VERSION: None}}}))


async def test_the_token_of_older_versions_goes_when_no_pod_needs_it() -> None:
    async with running() as grove:
        client = grove.client
        made = await client.create(fresh(clique("a")))
        await grove.settle()
        legacy = Secret(
            metadata=ObjectMeta(
                name="w-initc-sa-token-secret",
                namespace=NS,
                owner_references=(owner_reference(made, controller=True),),
            )
        )
        await client.create(legacy)
        (pod,) = (await client.list(Pod, namespace=NS)).items
        volume = Volume(name="t", secret=SecretVolumeSource(secret_name="w-initc-sa-token-secret"))
        user = Pod(
            metadata=ObjectMeta(name="user", namespace=NS, labels=pod.metadata.labels),
            spec=pod.spec.evolve(volumes=(volume,), hostname="w-0-a-7"),
        )
        user = await client.create(user)
        # both are read again when the Secret of today is made again
        await client.delete(Secret, "w-ic-sat", NS)
        await grove.settle()
        assert (await client.get(Secret, "w-ic-sat", NS)).data["token"]
        await client.get(Secret, "w-initc-sa-token-secret", NS)
        await client.delete(user)
        await client.patch(await client.get(PodCliqueSet, "w", NS), MergePatch({"spec": {"replicas": 2}}))
        await grove.settle()
        with pytest.raises(NotFound):
            await client.get(Secret, "w-initc-sa-token-secret", NS)


KAI = {"schedulerName": "kai-scheduler", "topologyAwareScheduling": {"enabled": True}}


def binding(*levels: tuple[str, str], bound: str = "") -> ClusterTopologyBinding:
    return ClusterTopologyBinding(
        metadata=ObjectMeta(name="topo"),
        spec=ClusterTopologySpec(
            levels=tuple(TopologyLevel(domain=domain, key=key) for domain, key in levels),
            scheduler_topology_bindings=(
                (SchedulerTopologyBinding(scheduler_name="kai-scheduler", topology_reference=bound),)
                if bound
                else ()
            ),
        ),
    )


async def drift(grove: Grove) -> tuple[str, str]:
    found = await grove.client.get(ClusterTopologyBinding, "topo")
    condition = find_condition(found.status.conditions, names.TOPOLOGY_DRIFT)
    assert condition is not None
    return condition.status, condition.reason


async def test_the_topology_of_a_scheduler_is_made_or_only_compared() -> None:
    async with (
        TestCluster(crds=[*light_definitions(), *kai_definitions()], controllers=True) as cluster,
        running(KAI, cluster=cluster) as grove,
    ):
        client = grove.client
        await client.create(binding(("rack", "r"), ("host", "h")))
        await grove.settle()
        made = await client.get(Topology, "topo")
        assert [level.node_label for level in made.spec.levels] == ["r", "h"]
        assert await drift(grove) == ("False", "InSync")
        await client.delete(made)
        await grove.settle()
        assert (await client.get(Topology, "topo")).metadata.uid != made.metadata.uid
        await client.delete(ClusterTopologyBinding, "topo")
        await eventually(lambda: is_gone(client), timeout=30)

        theirs = Topology(
            metadata=ObjectMeta(name="theirs"), spec=KaiTopologySpec(levels=(KaiLevel(node_label="x"),))
        )
        await client.create(theirs)
        await client.create(binding(("rack", "r"), bound="theirs"))
        await grove.settle()
        assert await drift(grove) == ("True", "Drift")
        assert (await client.get(Topology, "theirs")).spec == theirs.spec
        found = await client.get(ClusterTopologyBinding, "topo")
        (status,) = found.status.scheduler_topology_statuses
        assert (status.scheduler_name, status.topology_reference, status.in_sync) == (
            "kai-scheduler",
            "theirs",
            False,
        )


async def is_gone(client: Client) -> bool:
    try:
        await client.get(Topology, "topo")
    except NotFound:
        return True
    return False


def seen(uid: str, *, is_deleting: bool = False) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, uid=uid, deletion_timestamp=NOW if is_deleting else UNSET))


def test_writes_count_until_they_are_seen() -> None:
    now = 0.0
    expected = PodExpectations(lambda: now)
    expected.created("clique", "a")
    expected.created("clique", "b")
    expected.deleted("clique", "old")
    assert expected.settle("clique", [seen("old")]) == (2, frozenset({"old"}))
    assert expected.settle("other", [seen("old")]) == (0, frozenset())
    assert expected.settle("clique", [seen("old"), seen("a")]) == (1, frozenset({"old"}))
    assert expected.settle("clique", [seen("a"), seen("old", is_deleting=True)]) == (1, frozenset())
    now = 61.0
    assert expected.settle("clique", [seen("a")]) == (0, frozenset())


def test_a_deletion_that_a_restored_server_does_not_know_of_counts_no_more() -> None:
    now = 0.0
    expected = PodExpectations(lambda: now)
    expected.deleted("clique", "back")
    assert expected.settle("clique", [seen("back")]) == (0, frozenset({"back"}))
    now = 61.0
    assert expected.settle("clique", [seen("back")]) == (0, frozenset())


def test_a_clique_that_is_gone_is_forgotten() -> None:
    expected = PodExpectations(lambda: 0.0)
    expected.created("clique", "a")
    expected.deleted("clique", "b")
    expected.forget("clique")
    assert expected.settle("clique", [seen("b")]) == (0, frozenset())


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "backend-default-scheduler"),
        ({"schedulerName": "kai-scheduler"}, "backend-kai-scheduler"),
        ({"scheduler": {"profiles": [{"name": "kai-scheduler"}]}}, "backend"),
    ],
)
async def test_the_backend_controller_has_the_name_of_the_backend(
    settings: Mapping[str, Any], name: str
) -> None:
    async with TestCluster() as cluster:
        manager = cluster.manager()
        operator = GroveOperator(BackendRegistry(find=tuple), {})
        operator.setup(manager, OperatorEnvironment(name="grove", settings=settings, namespace=NS))
        assert [each.name for each in manager.controllers if each.name.startswith("backend")] == [name]
