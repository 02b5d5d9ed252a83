"""The backend framework: registry, manager, what backends may not do, configuration."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, OwnerReference, Scheme
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.errors import ConfigError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import (
    Backend,
    BackendAlreadyRegistered,
    BackendError,
    BackendManager,
    BackendNotFound,
    BackendRegistry,
    BackendViolation,
    default_registry,
    get,
    initialize,
    prepare_pod,
    registered_names,
)
from quarterdeck.operators.grove.backends.conformance import conformance_problems, sample_pod
from quarterdeck.operators.grove.backends.contract import needs_delete_hook
from quarterdeck.operators.grove.backends.example import ExampleBackend
from quarterdeck.operators.grove.backends.guard import guarded_client, prepared
from quarterdeck.operators.grove.backends.interface import Interface
from quarterdeck.operators.grove.backends.kube import KubeBackend
from quarterdeck.operators.grove.backends.lpx import LpxBackend
from quarterdeck.operators.grove.backends.manager import _Process
from quarterdeck.operators.grove.backends.report import BackendReport
from quarterdeck.operators.grove.configuration import effective_document, load_configuration, load_file
from quarterdeck.operators.grove.metrics import GroveMetrics
from quarterdeck.operators.grove.types import PodGang, definitions
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.metrics import Registry
from quarterdeck.testing import TestCluster

from .grovekit import NOW, NS, clique, pcs, pod_spec, running

EXAMPLE = Path(__file__).parents[4] / "examples" / "grove-backend"


OURS = ["kai-scheduler", "default-scheduler", "koord-scheduler", "lpx-scheduler", "volcano"]


def registry(*points: EntryPoint) -> BackendRegistry:
    return BackendRegistry(find=lambda: points)


def point(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=names.BACKEND_ENTRY_POINTS)


def test_a_registered_backend_is_found_and_listed_after_ours() -> None:
    known = registry()
    known.register("zebra", ExampleBackend)
    known.register("ant", ExampleBackend)
    assert known.get_factory("ant") is ExampleBackend
    assert known.names() == [*OURS, "ant", "zebra"]


def test_a_name_can_be_taken_once() -> None:
    known = registry()
    known.register("ant", ExampleBackend)
    with pytest.raises(BackendAlreadyRegistered, match='scheduler backend "ant" is already registered'):
        known.register("ant", KubeBackend)
    assert known.get_factory("ant") is ExampleBackend
    known.register("ant", KubeBackend, replace=True)
    assert known.get_factory("ant") is KubeBackend


@pytest.mark.parametrize("name", ["kai-scheduler", "default-scheduler"])
def test_our_own_backends_cannot_be_replaced(name: str) -> None:
    with pytest.raises(BackendAlreadyRegistered):
        registry().register(name, ExampleBackend, replace=True)
    thief = registry(point(name, "quarterdeck.operators.grove.backends.example:ExampleBackend"))
    assert thief.get_factory(name) is not ExampleBackend


def test_our_own_backends_come_through_the_entry_points_of_the_distribution() -> None:
    ours = {
        each.name: each.load()
        for each in entry_points(group=names.BACKEND_ENTRY_POINTS)
        if each.dist is not None and each.dist.name == "quarterdeck"
    }
    assert ours == {name: registry().get_factory(name) for name in registry().names()}


def test_an_unknown_name_is_not_found() -> None:
    with pytest.raises(BackendNotFound):
        registry().get_factory("nobody")


def test_no_registration_is_lost_among_threads() -> None:
    known = registry()

    def register(number: int) -> bool:
        known.register(f"b{number:02}", ExampleBackend)
        return f"b{number:02}" in known.names()

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(register, range(50)))
    assert len(known.names()) == len(OURS) + 50


def test_entry_points_are_found_and_broken_ones_are_skipped_until_they_are_asked_for() -> None:
    known = registry(
        point("good", "quarterdeck.operators.grove.backends.example:ExampleBackend"),
        point("broken", "no_such_module:Backend"),
    )
    assert known.names()[len(OURS) :] == ["broken", "good"]
    assert known.get_factory("good") is ExampleBackend
    with pytest.raises(BackendError, match='"broken" cannot be loaded: No module named'):
        known.get_factory("broken")


def test_entry_points_can_be_looked_for_again() -> None:
    found: list[EntryPoint] = []
    known = BackendRegistry(find=lambda: found)
    assert "late" not in known.names()
    found.append(point("late", "quarterdeck.operators.grove.backends.example:ExampleBackend"))
    assert "late" not in known.names()
    known.reload()
    assert "late" in known.names()


def test_only_entry_points_that_are_allowed_are_loaded() -> None:
    known = registry(point("good", "quarterdeck.operators.grove.backends.example:ExampleBackend"))
    known.register("mine", ExampleBackend)
    known.restrict([])
    assert "good" not in known.names()
    assert known.get_factory("mine") is ExampleBackend
    known.restrict(["good"])
    assert known.get_factory("good") is ExampleBackend
    known.restrict(["other"])
    with pytest.raises(BackendNotFound):
        known.get_factory("good")
    known.restrict(None)
    assert "good" in known.names()


def test_a_configuration_says_which_entry_points_are_allowed() -> None:
    known = registry(point("good", "quarterdeck.operators.grove.backends.example:ExampleBackend"))
    document = {"schedulerName": "good", "schedulerPlugins": {"allowed": ["other"]}}
    with pytest.raises(ConfigError, match='unsupported scheduler "good"'):
        load_configuration(document, known)
    assert load_configuration({"schedulerName": "good"}, known).scheduler_name == "good"


def test_the_process_has_a_registry() -> None:
    assert registered_names()[:2] == ["kai-scheduler", "default-scheduler"]
    assert default_registry.unsupported("x").startswith(
        'unsupported scheduler "x" (supported: kai-scheduler,'
    )


class Broken(Backend):
    def init(self) -> None:
        raise RuntimeError("boom")


class FromTheFuture(Backend):
    interface_version = "2.0"


async def manager(name: str, **backends: Any) -> BackendManager:
    known = registry()
    for each, factory in backends.items():
        known.register(each, factory)
    made = BackendManager(known)
    async with TestCluster() as cluster:
        await made.initialize(cluster.client, Scheme(), NoRecorder(), name)
    return made


async def test_without_a_name_it_is_the_default_scheduler() -> None:
    made = await manager("")
    assert made.scheduler_name == "default-scheduler"
    assert isinstance(made.get(), KubeBackend)


async def test_an_unknown_scheduler_is_named_with_those_that_are_known() -> None:
    made = BackendManager(registry())
    async with TestCluster() as cluster:
        for _ in range(2):
            with pytest.raises(BackendError) as error:
                await made.initialize(cluster.client, Scheme(), NoRecorder(), "foo")
            assert str(error.value) == (
                'unsupported scheduler "foo" (supported: kai-scheduler, default-scheduler); '
                "also koord-scheduler, lpx-scheduler and volcano where those are installed"
            )
    assert made.get() is None


async def test_a_backend_that_does_not_start_leaves_none() -> None:
    with pytest.raises(BackendError, match="failed to initialize backend: boom"):
        await manager("broken", broken=Broken)


async def test_a_backend_for_another_contract_is_refused() -> None:
    with pytest.raises(BackendError, match=r"written for version 2\.0 of the interface, this is 1\.0"):
        await manager("future", future=FromTheFuture)


class Written2(Backend):
    """Of the next major version, where a hook has another name."""

    interface_version = "2.1"

    def on_gang_delete(self, gang: str) -> str:
        return f"{gang} is deleted"


class Written1(Backend):
    """Of the version before."""

    interface_version = "1.4"

    def on_pod_gang_removed(self, gang: str) -> str:
        return f"{gang} is removed"


class Renamed:
    """A backend of version 1 in the form of version 2."""

    def __init__(self, earlier: Any) -> None:
        self._earlier = earlier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._earlier, "on_pod_gang_removed" if name == "on_gang_delete" else name)


def versions(interface: Interface) -> BackendRegistry:
    known = BackendRegistry(find=tuple, interface=interface)
    known.register("new", Written2)
    known.register("old", Written1)
    return known


async def test_two_major_versions_work_side_by_side_and_the_earlier_one_is_told_of() -> None:
    settings = {"scheduler": {"defaultProfileName": "new", "profiles": [{"name": "new"}, {"name": "old"}]}}
    text = "backend old is written for version 1.4 of the interface, this is 2.0"
    # the default scheduler's own backend says nothing, and is one of the present
    async with running(settings, registry=versions(Interface("2.0", {"1": Renamed}))) as grove:
        told = [each.note for each in grove.events.events if each.reason == "BackendInterfaceDeprecated"]
        assert told == [f"{text}: the next major version will refuse it"]
        for name in ("new", "old"):
            spec = pod_spec(scheduler_name=name)
            made = pcs(clique("a", pod_spec=spec), name=name)
            await grove.client.create(made.evolve(metadata=ObjectMeta(name=name, namespace=NS)))
        await grove.settle()
        pods = (await grove.client.list(Pod, namespace=NS)).items
        assert sorted(each.spec.scheduler_name for each in pods) == ["new", "old"]


async def test_a_backend_of_an_earlier_major_version_is_adapted_until_the_next() -> None:
    async with TestCluster() as cluster:
        made = BackendManager(versions(Interface("2.0", {"1": Renamed})))
        await made.initialize(cluster.client, Scheme(), NoRecorder(), "new", profiles={"old": {}})
        asked: list[Any] = [made.find("new"), made.find("old")]
        assert [each.on_gang_delete("g") for each in asked] == ["g is deleted", "g is removed"]
        assert list(made.notices) == ["old"]
        last = BackendManager(versions(Interface("3.0", {"2": Renamed})))
        with pytest.raises(BackendError, match=r"written for version 1\.4 of the interface, this is 3\.0"):
            await last.initialize(cluster.client, Scheme(), NoRecorder(), "old")


async def test_only_the_first_start_counts() -> None:
    made = await manager("example", example=ExampleBackend)
    await made.initialize(None, Scheme(), NoRecorder(), "default-scheduler")  # type: ignore[arg-type]
    assert isinstance(made.get(), ExampleBackend)


def test_without_a_start_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Process, "manager", None)
    assert get() is None
    with pytest.raises(BackendError, match="backend not initialized"):
        prepare_pod(sample_pod().draft())
    with pytest.raises(BackendError, match="backend not initialized"):
        BackendManager(registry()).prepare_pod(sample_pod(), PodGang(metadata=ObjectMeta(name="g")))


async def test_a_process_without_an_operator_has_one_manager_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Process, "manager", None)
    async with TestCluster() as cluster:
        await initialize(cluster.client, Scheme(), NoRecorder(), "")
        await initialize(cluster.client, Scheme(), NoRecorder(), "kai-scheduler")
    first = get()
    assert isinstance(first, KubeBackend)  # only the first start counts
    draft = sample_pod().draft()
    prepare_pod(draft)
    assert draft.done().spec.scheduler_name == "default-scheduler"


class Recording(BackendReport):
    """One whose metrics can be read."""

    def __init__(self) -> None:
        self.registry = Registry()
        super().__init__(GroveMetrics(self.registry), NoRecorder(), now=lambda: NOW, clock=lambda: 0.0)

    @property
    def told(self) -> list[tuple[str, ...]]:
        """Which backend is active, in which version."""
        return [labels for labels, _ in self.registry.family("grove_scheduler_backend_info").items()]


class Versioned(Backend):
    version = "7.1"


def quiet(kind: Any) -> Any:
    """One that is started without what its scheduler needs."""
    return type("Quiet", (kind,), {"init": lambda self: None})


@pytest.mark.parametrize("name", OURS)
async def test_every_backend_of_ours_has_the_version_of_the_distribution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry()
    factory = quiet(known.get_factory(name))
    monkeypatch.setattr(known, "get_factory", lambda _: factory)
    report = Recording()
    async with TestCluster() as cluster:
        await BackendManager(known, report).initialize(cluster.client, Scheme(), NoRecorder(), name)
    assert report.told == [(name, version("quarterdeck"))]


async def test_backends_of_others_have_their_own_version_or_that_of_their_distribution() -> None:
    installed: Any = SimpleNamespace(
        name="theirs", load=lambda: ExampleBackend, dist=SimpleNamespace(version="3.2")
    )
    known = registry(installed)
    known.register("versioned", Versioned)
    known.register("by-hand", ExampleBackend)
    wanted = {"theirs": "3.2", "versioned": "7.1", "by-hand": "unknown"}
    async with TestCluster() as cluster:
        for name, each in wanted.items():
            report = Recording()
            await BackendManager(known, report).initialize(cluster.client, Scheme(), NoRecorder(), name)
            assert report.told == [(name, each)]


def test_the_metrics_of_the_design() -> None:
    known = Registry()
    metrics = GroveMetrics(known)
    metrics.initialized("kai", 0.1, is_success=True)
    metrics.initialized("kai", 0.1, is_success=False)
    metrics.operated("kai", "create", 0.1, is_success=True)
    metrics.operated("kai", "mutate", 0.1, is_success=False)
    metrics.active("kai", "1.0")
    lines = set(known.expose().decode().splitlines())
    name = "grove_scheduler_backend"
    assert lines >= {
        f'{name}_initialization_duration_seconds_count{{backend_name="kai",status="success"}} 1',
        f'{name}_initialization_duration_seconds_count{{backend_name="kai",status="failure"}} 1',
        f'{name}_operation_duration_seconds_count{{backend_name="kai",operation="create"}} 1',
        f'{name}_operation_total{{backend_name="kai",operation="create",status="success"}} 1',
        f'{name}_operation_total{{backend_name="kai",operation="mutate",status="failure"}} 1',
        f'{name}_info{{backend_name="kai",version="1.0"}} 1',
    }


def test_operations_are_logged_with_backend_operation_and_gang(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gang = PodGang(metadata=ObjectMeta(name="g"))
    with pytest.raises(RuntimeError), Recording().operating("kai", "create", gang):
        raise RuntimeError("no")
    told = {"backend": "kai", "operation": "OnPodGangCreate", "podgang": "g"}
    started, failed = caplog.records
    assert (started.getMessage(), failed.getMessage()) == (
        "Backend operation started",
        "Backend operation failed",
    )
    for record in (started, failed):
        assert record.__dict__["fields"].items() >= told.items()


async def test_a_gang_belongs_to_the_backend_that_its_label_names() -> None:
    made = await manager("example", example=ExampleBackend)

    def gang(label: str) -> PodGang:
        return PodGang(metadata=ObjectMeta(name="g", labels={names.SCHEDULER_NAME: label} if label else {}))

    assert isinstance(made.get_for(gang("")), ExampleBackend)
    with pytest.raises(BackendNotFound):
        made.get_for(gang("default-scheduler"))
    async with TestCluster():
        await made.drain("default-scheduler")
    assert isinstance(made.get_for(gang("default-scheduler")), KubeBackend)
    assert made.enabled == {"example"}
    with pytest.raises(BackendError, match="unsupported scheduler"):
        await made.drain("nobody")


def misbehaving(change: Any) -> Backend:
    class Bad(Backend):
        def prepare_pod(self, pod: Any) -> None:
            super().prepare_pod(pod)
            change(pod)

    return Bad(None, Scheme(), NoRecorder(), "bad", {})  # type: ignore[arg-type]


def set_name(pod: Any) -> None:
    pod.metadata.name = "mine"


def set_owner(pod: Any) -> None:
    pod.metadata.owner_references = [OwnerReference(name="me")]


def drop_gate(pod: Any) -> None:
    pod.spec.scheduling_gates = []


def drop_label(pod: Any) -> None:
    del pod.metadata.labels[names.PODGANG]


def change_label(pod: Any) -> None:
    pod.metadata.labels[names.PART_OF] = "me"


def drop_scheduler(pod: Any) -> None:
    pod.spec.scheduler_name = ""


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (set_name, "must not change name or namespace"),
        (set_owner, "must not change ownerReferences"),
        (drop_gate, f"must not remove the scheduling gate {names.GATE}"),
        (drop_label, f"must not change or remove labels of Grove: {names.PODGANG}"),
        (change_label, f"must not change or remove labels of Grove: {names.PART_OF}"),
        (drop_scheduler, "must leave spec.schedulerName non-empty"),
    ],
)
def test_a_backend_that_changes_what_is_not_its_own_gets_an_error(change: Any, text: str) -> None:
    with pytest.raises(BackendViolation, match=text):
        prepared(misbehaving(change), sample_pod())


def test_a_prepare_hook_that_waits_is_refused() -> None:
    class Slow(Backend):
        async def prepare_pod(self, pod: Any) -> None:  # type: ignore[override]
            pod.spec.scheduler_name = "x"

    with pytest.raises(BackendViolation, match="must not be async"):
        prepared(Slow(None, Scheme(), NoRecorder(), "slow", {}), sample_pod())  # type: ignore[arg-type]


async def test_a_backend_cannot_write_spec_or_status_of_a_gang() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        made = await cluster.client.create(
            PodGang(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGang().spec)
        )
        client = guarded_client(cluster.client, "bad")
        await client.patch(made, MergePatch({"metadata": {"annotations": {"a": "b"}}}))
        with pytest.raises(BackendViolation, match="backend bad must not change spec or status of a PodGang"):
            await client.patch(made, MergePatch({"spec": {"priorityClassName": "x"}}))
        with pytest.raises(BackendViolation):
            await client.status.patch(made, MergePatch({"status": {"phase": "Running"}}))
        with pytest.raises(BackendViolation):
            await client.delete(made)
        await client.create(Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=sample_pod().spec))


def test_only_backends_that_clear_away_need_a_finalizer() -> None:
    class Clearing(Backend):
        def on_pod_gang_delete(self, ctx: Any, pod_gang: Any) -> None:
            return None

    def make(kind: type[Backend]) -> Backend:
        return kind(None, Scheme(), NoRecorder(), "x", {})  # type: ignore[arg-type]

    assert not needs_delete_hook(make(KubeBackend))
    assert needs_delete_hook(make(Clearing))
    assert needs_delete_hook(object())  # type: ignore[arg-type]  # of any make: better asked than not


class Chatty(Backend):
    async def sync_pod_gang(self, ctx: Any, pod_gang: PodGang) -> None:
        stamp = {"metadata": {"annotations": {"n": pod_gang.metadata.resource_version}}}
        try:
            await ctx.client.patch(pod_gang, MergePatch(stamp))
        except Exception:  # noqa: BLE001  that is the point
            return

    def prepare_pod(self, pod: Any) -> None:
        super().prepare_pod(pod)
        pod.metadata.annotations["n"] = pod.metadata.annotations.get("n", "") + "x"


async def test_the_kit_finds_what_is_wrong() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        problems = await conformance_problems(Chatty, cluster.client, scheduler_name="chatty")
    assert problems == [
        "prepare_pod: a pod that was prepared changes when prepared again",
        "sync_pod_gang: 1 writes for a gang that has not changed",
        "sync_pod_gang: an error of the API server is swallowed",
    ]


@pytest.mark.parametrize("kind", [KubeBackend, ExampleBackend, LpxBackend])
async def test_the_backends_that_come_along_conform(kind: Any) -> None:
    async with TestCluster(crds=definitions()) as cluster:
        assert await conformance_problems(kind, cluster.client, scheduler_name="x") == []


async def test_the_example_to_copy_from_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    known = registry(point("my-scheduler", "my_backend:MyBackend"))
    factory = known.get_factory("my-scheduler")
    try:
        async with TestCluster(crds=definitions()) as cluster:
            assert await conformance_problems(factory, cluster.client, scheduler_name="my-scheduler") == []
        made = factory(None, Scheme(), NoRecorder(), "my-scheduler", {})  # type: ignore[arg-type]
        found = prepared(made, sample_pod())
        assert found.metadata.annotations["mybackend.io/example"] == "value"
        assert found.metadata.labels["mybackend.io/managed"] == "true"
    finally:
        sys.modules.pop("my_backend", None)


def load(**document: Any) -> Any:
    return load_configuration(document, registry())


def complaint(**document: Any) -> str:
    with pytest.raises(ConfigError) as error:
        load(**document)
    return str(error.value)


def test_an_empty_configuration_has_all_defaults() -> None:
    document = effective_document(load())
    assert document["schedulerName"] == "default-scheduler"
    assert document["runtimeClientConnection"] == {
        "qps": 100.0,
        "burst": 120,
        "contentType": "",
        "acceptContentTypes": "",
    }
    assert document["controllers"] == {
        "podCliqueSet": {"concurrentSyncs": 10},
        "podClique": {"concurrentSyncs": 10},
        "podCliqueScalingGroup": {"concurrentSyncs": 5},
        "podGang": {"concurrentSyncs": 5},
    }
    assert document["leaderElection"]["leaseDuration"] == "15s"
    assert document["server"]["webhooks"]["port"] == 2750
    assert document["network"] == {"autoMNNVLEnabled": False}
    assert effective_document(load(**document)) == document


ELECTION: dict[str, Any] = {"enabled": True}
COMPLAINTS: dict[str, tuple[Mapping[str, Any], str]] = {
    "burst": (
        {"runtimeClientConnection": {"burst": -1}},
        "clientConnection.burst: Invalid value: -1: must be non-negative",
    ),
    "lease": (
        {"leaderElection": {**ELECTION, "leaseDuration": "0s"}},
        'leaderElection.leaseDuration: Invalid value: "0s": must be greater than 0',
    ),
    "lease and renewal": (
        {"leaderElection": {**ELECTION, "leaseDuration": "5s"}},
        'leaderElection.leaseDuration: Invalid value: "5s": LeaseDuration must be greater than RenewDeadline',
    ),
    "lock": (
        {"leaderElection": {**ELECTION, "resourceLock": "", "resourceName": ""}},
        (
            "[leaderElection.resourceLock: Required value: resourceLock is required, "
            "leaderElection.resourceName: Required value: resourceName is required]"
        ),
    ),
    "syncs": (
        {"controllers": {"podGang": {"concurrentSyncs": 0}}},
        "controllers.podGang.concurrentSyncs: Invalid value: 0: must be greater than 0",
    ),
    "level": (
        {"logLevel": "verbose"},
        'logLevel: Unsupported value: "verbose": supported values: "debug", "info", "error"',
    ),
    "format": (
        {"logFormat": "xml"},
        'logFormat: Unsupported value: "xml": supported values: "json", "text"',
    ),
    "levels twice": (
        {
            "topologyAwareScheduling": {
                "enabled": True,
                "levels": [{"domain": "rack", "key": "a"}, {"domain": "rack", "key": "a"}],
            }
        },
        (
            '[topologyAwareScheduling.levels[1].domain: Duplicate value: "rack", '
            'topologyAwareScheduling.levels[1].key: Duplicate value: "a"]'
        ),
    ),
    "domain": (
        {"topologyAwareScheduling": {"enabled": True, "levels": [{"domain": "Rack", "key": "a"}]}},
        'topologyAwareScheduling.levels[0].domain: Invalid value: "Rack"',
    ),
    "scheduler": (
        {"schedulerName": "foo"},
        (
            'schedulerName: Invalid value: "foo": unsupported scheduler "foo" (supported: kai-scheduler, '
            "default-scheduler)"
        ),
    ),
    "profile without name": (
        {"scheduler": {"profiles": [{"name": ""}]}},
        "scheduler.profiles[0].name: Required value: scheduler profile name is required",
    ),
    "unknown profile": (
        {"scheduler": {"profiles": [{"name": "nope"}]}},
        (
            'scheduler.profiles[0].name: Unsupported value: "nope": supported values: "kai-scheduler", '
            '"default-scheduler"'
        ),
    ),
    "profile twice": (
        {"scheduler": {"profiles": [{"name": "kai-scheduler"}, {"name": "kai-scheduler"}]}},
        'scheduler.profiles[1].name: Duplicate value: "kai-scheduler"',
    ),
    "default profile": (
        {"scheduler": {"profiles": [{"name": "default-scheduler"}], "defaultProfileName": "kai-scheduler"}},
        (
            'scheduler.defaultProfileName: Invalid value: "kai-scheduler": default profile must be one of '
            "the configured profiles"
        ),
    ),
    "both styles": (
        {"schedulerName": "kai-scheduler", "scheduler": {"profiles": [{"name": "default-scheduler"}]}},
        (
            'schedulerName: Invalid value: "kai-scheduler": must match scheduler.defaultProfileName '
            "when both are"
        ),
    ),
    "options of KAI": (
        {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "maybe"}},
        "schedulerConfig.podGroups: Invalid value",
    ),
    "options of a profile": (
        {"scheduler": {"profiles": [{"name": "kai-scheduler", "config": {"x": 1}}]}},
        "scheduler.profiles[0].config: Invalid value",
    ),
    "type": ({"logLevel": 7}, "logLevel: must be a string, not an integer"),
    "kind": ({"kind": "Pod"}, 'no kind "Pod" is known for version'),
}


@pytest.mark.parametrize("what", COMPLAINTS)
def test_a_configuration_that_makes_no_sense_is_complained_about(what: str) -> None:
    document, text = COMPLAINTS[what]
    assert text in complaint(**document)


def test_an_election_that_is_off_is_not_looked_at() -> None:
    assert load(leaderElection={"leaseDuration": "1s"}).leader_election.enabled is False


def test_levels_are_not_looked_at_while_topology_is_off() -> None:
    assert load(topologyAwareScheduling={"levels": [{"domain": "X", "key": ""}]})


def test_profiles_have_the_default_scheduler_among_them() -> None:
    made = load(scheduler={"profiles": [{"name": "kai-scheduler", "config": {"podGroups": "disabled"}}]})
    assert made.enabled_schedulers == ("kai-scheduler", "default-scheduler")
    assert made.scheduler_name == "default-scheduler"
    assert dict(made.options_of("kai-scheduler")) == {"podGroups": "disabled"}
    assert dict(made.options_of("gone")) == {}
    assert effective_document(made)["scheduler"]["profiles"] == [
        {"name": "kai-scheduler", "config": {"podGroups": "disabled"}},
        {"name": "default-scheduler", "config": {}},
    ]


def test_options_reach_the_factory() -> None:
    made = load(schedulerName="kai-scheduler", schedulerConfig={"podGroups": "disabled"})
    assert dict(made.options_of("kai-scheduler")) == {"podGroups": "disabled"}


def test_a_field_that_says_nothing_has_its_default() -> None:
    silent = load(logLevel=None, server={"webhooks": None}, scheduler=None, schedulerConfig=None)
    assert silent == load()


def test_unknown_fields_are_skipped_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    load(servers={}, controllers={"podGang": {"threads": 3}})
    found = [record.__dict__.get("quarterdeck_fields") or record.getMessage() for record in caplog.records]
    assert len(found) == 2


def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "apiVersion: operator.config.grove.io/v1alpha1\nkind: OperatorConfiguration\nlogLevel: error\n"
    )
    assert load_file(file, registry()).log_level == "error"
    file.write_text("- 1\n")
    with pytest.raises(ConfigError, match="expected an OperatorConfiguration"):
        load_file(file, registry())
    with pytest.raises(ConfigError, match="No such file"):
        load_file(tmp_path / "none", registry())
