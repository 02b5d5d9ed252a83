"""The cluster of a test, and what is asserted about it."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, assert_type

import pytest
import yaml

import quarterdeck.testing
from quarterdeck.api import DynamicObject, GroupVersionKind, Key, ObjectMeta, crd
from quarterdeck.api.k8s import Pod
from quarterdeck.api.k8s.core import ConfigMap, Namespace
from quarterdeck.client import Client, Config
from quarterdeck.cluster.node.profile import NodeSettings
from quarterdeck.cluster.workload import Workloads
from quarterdeck.errors import ConfigError, Conflict, Forbidden, NotFound
from quarterdeck.runtime import Context, LeaderElectionLost, Manager, Requeue, Result
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.webhook import Admission, Denied, Validator
from quarterdeck.testing import (
    EPOCH,
    EventLog,
    LoopElector,
    TestCluster,
    assert_matches,
    consistently,
    differences,
    ends_alike,
    eventually,
    has_condition,
    localized,
    run,
    run_until_idle,
    shuffled,
)

from .kitwidget import Lamp, LampSpec, lamp

RULES = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "lamps"},
    "webhooks": [
        {
            "name": "lamps.kit.example.com",
            "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/validate-lamp"}},
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": ["kit.example.com"],
                    "apiVersions": ["v1"],
                    "resources": ["lamps"],
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


@pytest.mark.cluster(crds=[Lamp])
async def test_it_is_the_real_server_with_dates_of_the_loop(cluster: TestCluster, client: Client) -> None:
    assert client is cluster.client
    await asyncio.sleep(3600)
    made = await client.create(lamp("a"))
    assert (made.metadata.generation, made.status.lit) == (1, 0)
    assert str(made.metadata.creation_timestamp) == "2030-01-01T01:00:00Z"
    assert EPOCH.year == 2030


async def test_kinds_come_from_classes_documents_files_and_folders(
    cluster: TestCluster, tmp_path: Path
) -> None:
    def renamed(kind: str) -> dict[str, Any]:
        text = yaml.safe_dump(crd(Lamp)).replace("lamps", f"{kind.lower()}s").replace("Lamp", kind)
        document: dict[str, Any] = yaml.safe_load(text.replace("lamp\n", f"{kind.lower()}\n"))
        return document

    (tmp_path / "one.yaml").write_text("---\n---\n" + yaml.safe_dump_all([renamed("Bulb"), renamed("Wick")]))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "two.yml").write_text(yaml.safe_dump(renamed("Torch").copy()))
    await cluster.install(Lamp, tmp_path / "one.yaml", renamed("Flare"))
    await cluster.install(tmp_path)
    for kind in ("Lamp", "Bulb", "Wick", "Flare", "Torch"):
        gvk = GroupVersionKind("kit.example.com", "v1", kind)
        await cluster.client.create(
            DynamicObject(
                {
                    "apiVersion": gvk.api_version,
                    "kind": kind,
                    "metadata": {"name": "x", "namespace": "default"},
                }
            )
        )


async def test_users_have_the_rights_they_were_given(cluster: TestCluster) -> None:
    with pytest.raises(Forbidden, match='User "jane" cannot list resource "configmaps"'):
        await cluster.as_user("jane").list(ConfigMap, namespace="default")
    await cluster.as_user("root", "system:masters").list(ConfigMap, namespace="default")


@pytest.mark.cluster(controllers=True)
async def test_controllers_of_every_cluster_can_run(cluster: TestCluster) -> None:
    await cluster.client.create(Namespace(metadata=ObjectMeta(name="shop")))
    await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="shop")))
    await cluster.client.delete(Namespace, "shop")

    async def is_gone() -> bool:
        return all(each.metadata.name != "shop" for each in await cluster.client.list(Namespace))

    await eventually(is_gone, timeout=120)


@pytest.mark.cluster(controllers=Workloads(nodes=NodeSettings(count=1)))
async def test_pods_can_run_on_simulated_nodes(cluster: TestCluster) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    await cluster.client.create(Pod.from_dict(pod))

    async def is_running() -> bool:
        return (await cluster.client.get(Pod, "p", "default")).status.phase == "Running"

    await eventually(is_running)


@pytest.mark.real_time
async def test_an_existing_cluster_is_used_over_its_socket(tmp_path: Path) -> None:
    async with TestCluster(crds=[Lamp], listen=True) as running:
        kubeconfig = running.write_kubeconfig(tmp_path / "kubeconfig")
        assert Config.load(kubeconfig).server == running.config.server
        async with TestCluster(use_existing=kubeconfig) as cluster:
            assert not cluster.is_embedded
            await cluster.client.create(lamp("a"))
            assert await running.client.get(Lamp, "a", "default")
            with pytest.raises(Forbidden):
                await cluster.as_user("jane").list(Lamp)
            with pytest.raises(ConfigError, match="runs elsewhere"):
                _ = cluster.server
    with pytest.raises(ConfigError, match="listen=True"):
        TestCluster().write_kubeconfig(tmp_path / "other")


@pytest.mark.cluster(crds=[Lamp])
async def test_webhooks_are_served_and_registered(cluster: TestCluster) -> None:
    def check(admission: Admission, obj: Lamp) -> None:
        if obj.spec.watts > 100:
            raise Denied("too bright")

    await cluster.serve_webhooks(Validator(Lamp, check))
    await cluster.client.create(lamp("a"))
    with pytest.raises(Forbidden, match="denied the request: too bright"):
        await cluster.client.create(lamp("b", 500))


@pytest.mark.cluster(crds=[Lamp])
async def test_installed_configurations_call_the_local_address(cluster: TestCluster) -> None:
    def check(admission: Admission, obj: Lamp) -> None:
        raise Denied("never")

    from quarterdeck.testing import serve_webhooks

    async with serve_webhooks(Validator(Lamp, check, path="/validate-lamp")) as served:
        await cluster.install_webhooks(RULES, served.url, served.ca_bundle)
        with pytest.raises(Forbidden, match="never"):
            await cluster.client.create(lamp("a"))


def test_only_webhook_documents_are_rewritten() -> None:
    made = localized(RULES, "https://127.0.0.1:1/", b"pem")
    assert made["webhooks"][0]["clientConfig"] == {
        "url": "https://127.0.0.1:1/validate-lamp",
        "caBundle": "cGVt",
    }
    assert "service" in RULES["webhooks"][0]["clientConfig"], "the original is untouched"  # type: ignore[index]
    with pytest.raises(ConfigError, match="ConfigMap has no webhooks"):
        localized({"kind": "ConfigMap"}, "https://x", b"")


async def light(ctx: Context[Lamp]) -> Result | None:
    """One config map per lamp, and a status."""
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=ctx.key.name, namespace="default")), owner=ctx.obj)
    ctx.status.lit = ctx.obj.spec.watts
    ctx.conditions.set("Lit", ctx.obj.spec.watts > 0, reason="Switched")
    ctx.event("Normal", "Lit", f"{ctx.obj.spec.watts} W")
    return None


@pytest.mark.cluster(crds=[Lamp])
async def test_idle_means_that_everything_has_happened(
    cluster: TestCluster, manager: Manager, recorder: EventLog, clock: LoopClock
) -> None:
    manager.add(manager.controller(Lamp).owns(ConfigMap).build(light))
    await cluster.start(manager)
    await cluster.client.create(lamp("a", 7))
    before = clock.monotonic()
    await run_until_idle(manager)
    assert clock.monotonic() - before < 1.0
    found = await cluster.client.get(Lamp, "a", "default")
    assert_matches(found, {"status": {"lit": 7, "conditions": [{"type": "Lit", "status": "True"}]}})
    assert has_condition(found, "Lit", reason="Switched")
    assert not has_condition(found, "Lit", False)
    assert not has_condition(found, "Burnt")
    assert recorder.about("a")[0] == "Normal Lit 7 W"
    assert set(recorder.reasons) == {"Lit"}


@pytest.mark.cluster(crds=[Lamp])
async def test_idle_waits_for_retries_within_the_horizon_and_names_what_is_left(
    cluster: TestCluster, manager: Manager
) -> None:
    runs: list[float] = []

    async def reconcile(ctx: Context[Lamp]) -> Result | None:
        runs.append(asyncio.get_running_loop().time())
        if ctx.obj.spec.watts == 1:
            return Requeue(after=10.0)
        if len(runs) < 5:
            raise Conflict("again")
        return None

    manager.add(manager.controller(Lamp).build(reconcile))
    await cluster.start(manager)
    await cluster.client.create(lamp("a"))
    await run_until_idle(manager)
    assert len(runs) == 5
    await cluster.client.create(lamp("b", 1))
    await run_until_idle(manager)
    assert len(runs) == 6
    with pytest.raises(AssertionError, match=r"not idle after 60 s: controller lamp: .*one due soon"):
        await run_until_idle(manager, horizon=20.0, timeout=60.0)


async def test_a_manager_that_fails_fails_the_block(cluster: TestCluster) -> None:
    class Broken:
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise ValueError("broken")

    manager = cluster.manager()
    manager.add(Broken())
    with pytest.raises(ValueError, match="broken"):
        async with cluster.serving(manager):
            await asyncio.sleep(60)


@pytest.mark.cluster(crds=[Lamp])
async def test_a_reconciler_runs_once_for_a_key(cluster: TestCluster) -> None:
    await cluster.client.create(lamp("a", 3))

    async def reconcile(ctx: Context[Lamp]) -> Result | None:
        await light(ctx)
        if ctx.obj.spec.watts == 0:
            raise ValueError("dark")
        return Requeue(after=ctx.obj.spec.watts)

    def controller() -> Any:
        return Builder(Lamp).owns(ConfigMap).build(reconcile)

    result = await cluster.reconcile_once(controller(), Key("default", "a"))
    assert result == Requeue(after=3)
    assert (await cluster.client.get(Lamp, "a", "default")).status.lit == 3
    assert await cluster.reconcile_once(controller(), Key("default", "absent")) is None
    found = await cluster.client.get(Lamp, "a", "default")
    await cluster.client.update(found.evolve(spec=LampSpec(watts=0)))
    with pytest.raises(ValueError, match="dark"):
        await cluster.reconcile_once(controller(), Key("default", "a"))


async def test_elections_run_on_the_loop_of_the_test(cluster: TestCluster) -> None:
    def replica(name: str) -> tuple[Manager, Any]:
        link = cluster.link(name=f"lease of {name}")
        settings = LeaderElection(name="crew", namespace="default", identity=name)
        return cluster.manager(elector=LoopElector(link, settings)), link

    (first, link), (second, _) = replica("a"), replica("b")

    async def fail_over() -> None:
        async with cluster.serving(first):
            await eventually(lambda: first.is_leading)
            async with cluster.serving(second):
                await consistently(lambda: not second.is_leading, duration=60)
                link.cut()
                await eventually(lambda: second.is_leading, timeout=25)

    with pytest.raises(LeaderElectionLost):
        await fail_over()


async def test_eventually_waits_for_truth_assertions_and_objects(cluster: TestCluster) -> None:
    async def later() -> None:
        await asyncio.sleep(10)
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="a", namespace="default")))

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
        found = await eventually(lambda: cluster.client.get(ConfigMap, "a", "default"))
    assert found.metadata.name == "a"

    def never() -> None:
        assert not found, "two and two"

    with pytest.raises(AssertionError, match="two and two"):
        await eventually(never)
    with pytest.raises(AssertionError, match=r"not within 5 s: .* gave \[\]"):
        await eventually(list, timeout=5)
    with pytest.raises(ZeroDivisionError):
        await eventually(lambda: 1 / 0)
    with pytest.raises(AssertionError, match="not found"):
        await eventually(lambda: cluster.client.get(ConfigMap, "b", "default"), timeout=1)


async def test_eventually_awaits_async_probes_and_gives_what_they_found() -> None:
    answers = iter([None, "", "found"])

    async def search() -> str | None:
        await asyncio.sleep(0.01)
        return next(answers)

    def count() -> int | None:
        return 7

    # What is true is not None: the type checker knows as well.
    assert assert_type(await eventually(search), str) == "found"
    assert assert_type(await eventually(count), int) == 7
    assert assert_type(await eventually(lambda: asyncio.sleep(0.01, result=[1])), list[int]) == [1]
    await consistently(lambda: asyncio.sleep(0.01, result=True), duration=0.1)


async def test_consistently_looks_all_the_time() -> None:
    started = asyncio.get_running_loop().time()

    def age() -> float:
        return asyncio.get_running_loop().time() - started

    await consistently(lambda: age() < 10, duration=9)
    with pytest.raises(AssertionError, match="of 9: "):
        await consistently(lambda: age() < 10, duration=9)


def test_differences_name_their_paths() -> None:
    found = {"spec": {"parts": [{"a": 1}, {"a": 2}], "size": 4, "more": True}}
    assert differences(found, {"spec": {"size": lambda size: size > 3, "gone": None}}) == []
    assert differences(found, {"spec": {"parts": [{"a": 1}, {"a": 3}]}}) == [
        "spec.parts[1].a: expected 3, found 2"
    ]
    assert differences(found, {"spec": {"parts": []}}) == ["spec.parts: expected 0 elements, found 2"]
    assert differences(found, {"spec": {"size": {"x": 1}, "more": [1]}}) == [
        "spec.size: expected an object, found 4",
        "spec.more: expected a list, found True",
    ]
    with pytest.raises(AssertionError, match="spec: expected"):
        assert_matches({}, {"spec": 1})


def test_random_interleavings_end_alike_or_are_reported() -> None:
    async def scenario(cluster: TestCluster, chance: random.Random) -> object:
        manager = cluster.manager(plan=shuffled(chance.randrange(1000)))
        manager.add(manager.controller(Lamp).owns(ConfigMap).build(light))
        async with cluster.serving(manager):
            for name in chance.sample("abc", 3):
                await cluster.client.create(lamp(name, 1))
                await asyncio.sleep(chance.random() / 50)
            found = await cluster.client.get(Lamp, "a", "default")
            await cluster.client.update(found.evolve(spec=LampSpec(watts=9)))
            await run_until_idle(manager)
        lamps = await cluster.client.list(Lamp)
        return sorted((each.metadata.name, each.status.lit) for each in lamps)

    assert ends_alike(scenario, seeds=range(5), crds=[Lamp]) == [("a", 9), ("b", 1), ("c", 1)]

    async def luck(cluster: TestCluster, chance: random.Random) -> int:
        return chance.randrange(1000)

    with pytest.raises(AssertionError, match="seed 1 ends in"):
        ends_alike(luck, seeds=range(2))
    with pytest.raises(ValueError, match="nothing checked"):
        ends_alike(luck, seeds=())


def test_exported_names_are_exactly_the_public_ones() -> None:
    names = quarterdeck.testing.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), name[0].islower(), name))
    assert all(hasattr(quarterdeck.testing, name) for name in names)


def test_the_kit_works_without_pytest() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "from quarterdeck.testing import TestCluster, run\n"
        "async def main():\n"
        "    async with TestCluster() as cluster: return (await cluster.client.raw('GET', '/readyz')).body\n"
        "print(run(main()).decode())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr


def test_a_cluster_is_used_with_async_with() -> None:
    with pytest.raises(ConfigError, match="async with"):
        _ = TestCluster().client

    async def broken() -> None:
        async with TestCluster(crds=["no-such-file.yaml"]):
            pass

    with pytest.raises(FileNotFoundError):
        run(broken())


async def test_missing_objects_are_not_found(client: Client) -> None:
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "x", "default")
