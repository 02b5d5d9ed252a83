"""Operators as one program: what they are told, what it needs, what it leaves in the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import LabelSelector, ObjectMeta, Resource, crd
from quarterdeck.api.k8s import (
    ConfigMap,
    CustomResourceDefinition,
    Deployment,
    DeploymentSpec,
    MutatingWebhookConfiguration,
    Namespace,
    PodTemplateSpec,
    Service,
    ServicePort,
    ServiceSpec,
    ValidatingWebhookConfiguration,
)
from quarterdeck.api.k8s.pod import Container, PodSpec
from quarterdeck.errors import ConfigError, NotFound
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.operator.operator import installed_operators
from quarterdeck.runtime.operator.program import Program, ProgramOptions
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.webhook import Admission, Validator
from quarterdeck.testing import TestCluster, eventually
from tests.unit.runtime.runtimewidget import Widget

NAMESPACE = "quarterdeck-system"


def check(admission: Admission, obj: ConfigMap) -> None:
    """Nothing is wrong with it."""


class Tug:
    """An operator with one webhook and one kind of its own; it remembers what it was told."""

    name = "tug"

    def __init__(
        self,
        *,
        converted: tuple[str, ...] = (),
        has_webhook: bool = True,
        can_be_limited: bool = False,
    ) -> None:
        self.told: list[OperatorEnvironment] = []
        self._converted = converted
        self._has_webhook = has_webhook
        self._can_be_limited = can_be_limited

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        return [crd(Widget)]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        return {ConfigMap: KindOptions(labels="tug")}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        self.told.append(environment)
        if not self._has_webhook:
            return OperatorWebhooks()
        return OperatorWebhooks(
            configuration="tug",
            admission=(Validator(ConfigMap, check),),
            converted=self._converted,
            can_be_limited=self._can_be_limited,
            rules=(Rule(groups=("",), resources=("nodes",), verbs=("get",)),),
        )


def program(cluster: TestCluster, tug: Tug | None = None, **options: Any) -> Program:
    return Program(cluster.client, [tug or Tug()], ProgramOptions(**options))


def rows(made: Program) -> set[tuple[str, str, str, str]]:
    """Resources, verbs, names and namespace of what the program may do."""
    rules = made.manager.rules()
    return {
        (",".join(r.resources), ",".join(r.verbs), ",".join(r.resource_names), r.namespace) for r in rules
    }


async def test_an_operator_is_told_its_settings_and_where_it_is_served(cluster: TestCluster) -> None:
    tug = Tug()
    program(cluster, tug, settings={"tug": {"knots": 3}}, account="quarterdeck")
    (told,) = tug.told
    assert (told.name, told.namespace, told.account) == ("tug", NAMESPACE, "quarterdeck")
    assert told.settings == {"knots": 3}
    assert told.registers_webhooks
    assert not told.is_embedded
    assert told.server is not None
    assert told.server().url == "https://quarterdeck-webhook.quarterdeck-system.svc:443"


async def test_an_address_that_is_named_is_the_one_that_is_served(cluster: TestCluster) -> None:
    tug = Tug()
    program(cluster, tug, webhook_url="https://10.0.0.9:9443")
    assert tug.told[0].server is not None
    assert tug.told[0].server().url == "https://10.0.0.9:9443"


async def test_settings_of_an_operator_that_does_not_run_are_refused(cluster: TestCluster) -> None:
    with pytest.raises(ConfigError, match="settings for operators that do not run: barge, ferry"):
        program(cluster, settings={"ferry": {}, "barge": {}})


async def test_a_program_for_some_namespaces_caches_only_those_and_has_names_of_its_own(
    cluster: TestCluster,
) -> None:
    tug = Tug(can_be_limited=True)
    made = program(cluster, tug, watch_namespaces=("a", "b"), namespace="sys", name="one")
    assert tug.told[0].watch_namespaces == ("a", "b")
    held = made.manager.cache.options.resolve(ConfigMap.type_info.gvk, is_namespaced=True)
    assert [each.namespace for each in held] == ["a", "b"]
    assert [part.configuration for part in made.registrations] == ["tug.sys.one"]
    assert ("events", "create,patch", "", "sys") in rows(made)
    assert ("validatingwebhookconfigurations", "delete", "tug.sys.one", "") in rows(made)


async def test_an_operator_of_whole_clusters_is_not_limited_to_namespaces(cluster: TestCluster) -> None:
    with pytest.raises(ConfigError, match="operator tug serves whole clusters, not single namespaces"):
        program(cluster, watch_namespaces=("a",))
    with pytest.raises(ConfigError, match="'A_B' is no name of a namespace"):
        program(cluster, Tug(can_be_limited=True), watch_namespaces=("A_B",))


async def test_what_operators_need_not_cache_is_left_out_but_not_where_others_share_the_cache(
    cluster: TestCluster,
) -> None:
    assert program(cluster).manager.cache.options.by_kind == {ConfigMap: KindOptions(labels="tug")}
    assert program(cluster, is_embedded=True).manager.cache.options.by_kind == {ConfigMap: KindOptions()}


async def test_a_program_may_register_its_webhooks_and_withdraw_its_own_alone(cluster: TestCluster) -> None:
    kind = "validatingwebhookconfigurations"
    found = rows(program(cluster))
    assert (kind, "create,get,list,patch", "", "") in found
    assert (kind, "delete", "tug", "") in found
    assert ("deployments", "get", "quarterdeck", NAMESPACE) in found
    assert ("secrets", "create,get,update,watch", "", NAMESPACE) in found
    assert ("nodes", "get", "", "") in found
    assert not any("customresourcedefinitions" in resources for resources, *_ in found)
    converting = rows(program(cluster, Tug(converted=("widgets.example.com",))))
    assert ("customresourcedefinitions", "get,patch", "widgets.example.com", "") in converting


async def test_with_a_certificate_of_others_none_is_registered(cluster: TestCluster, tmp_path: Path) -> None:
    tug = Tug()
    made = program(cluster, tug, certificate_directory=str(tmp_path))
    found = rows(made)
    assert ("nodes", "get", "", "") in found
    assert not {"secrets", "deployments", "validatingwebhookconfigurations"} & {row[0] for row in found}
    (told,) = tug.told
    assert not told.registers_webhooks
    assert told.server is not None
    assert told.server().ca_bundle == ""
    (tmp_path / "ca.crt").write_text("the authority")
    assert told.server().ca_bundle == "the authority"


async def test_a_program_without_webhooks_needs_no_rights_for_them(cluster: TestCluster) -> None:
    assert "secrets" not in {row[0] for row in rows(program(cluster, Tug(has_webhook=False)))}


async def test_why_it_is_not_ready_before_it_runs(cluster: TestCluster) -> None:
    assert program(cluster).not_ready == "the controllers have not started"


async def test_a_program_that_does_not_install_leaves_the_cluster_alone(cluster: TestCluster) -> None:
    await program(cluster).prepare()
    with pytest.raises(NotFound):
        await cluster.client.get(Namespace, NAMESPACE)


async def test_webhooks_that_could_not_be_reached_are_refused_before_anything_is_installed(
    cluster: TestCluster,
) -> None:
    with pytest.raises(ConfigError, match=r"no Service quarterdeck-system/quarterdeck-webhook"):
        await program(cluster, installs=True).prepare()
    with pytest.raises(NotFound):
        await cluster.client.get(CustomResourceDefinition, "widgets.example.com")
    place = ObjectMeta(name="quarterdeck-webhook", namespace=NAMESPACE)
    await cluster.client.create(Service(metadata=place, spec=ServiceSpec(ports=[ServicePort(port=443)])))
    with pytest.raises(
        ConfigError, match=r"nothing is behind Service quarterdeck-system/quarterdeck-webhook"
    ):
        await program(cluster, installs=True).prepare()
    with pytest.raises(NotFound):
        await cluster.client.get(CustomResourceDefinition, "widgets.example.com")
    await program(cluster, installs=True, is_in_cluster=True).prepare()
    await cluster.client.get(CustomResourceDefinition, "widgets.example.com")


@pytest.mark.parametrize(
    ("tug", "options"),
    [
        (Tug(), {"webhook_url": "https://10.0.0.9:9443"}),
        (Tug(), {"is_embedded": True}),
        (Tug(has_webhook=False), {}),
    ],
    ids=["an address is named", "the server is this process", "there are no webhooks"],
)
async def test_no_service_is_asked_for_where_none_is_needed(
    cluster: TestCluster, tug: Tug, options: dict[str, Any]
) -> None:
    await program(cluster, tug, installs=True, **options).prepare()
    await cluster.client.get(CustomResourceDefinition, "widgets.example.com")


async def registered(cluster: TestCluster, **options: Any) -> Program:
    made = program(cluster, **options)
    for install in made.installers():
        await install(b"bundle")
    assert await are_registered(cluster)
    return made


async def are_registered(cluster: TestCluster) -> bool:
    assert not (await cluster.client.list(MutatingWebhookConfiguration)).items
    return bool((await cluster.client.list(ValidatingWebhookConfiguration)).items)


async def deploy(cluster: TestCluster, replicas: int) -> None:
    await cluster.client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    labels = {"app": "quarterdeck"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[Container(name="main", image="main")])
    )
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels=labels), template=template)
    await cluster.client.create(
        Deployment(metadata=ObjectMeta(name="quarterdeck", namespace=NAMESPACE), spec=spec)
    )


@pytest.mark.parametrize(("replicas", "stays"), [(None, False), (0, False), (1, True)])
async def test_the_last_replica_takes_the_webhooks_with_it(
    cluster: TestCluster, replicas: int | None, stays: bool
) -> None:
    if replicas is not None:
        await deploy(cluster, replicas)
    await (await registered(cluster)).withdraw()
    assert await are_registered(cluster) is stays


async def test_webhooks_at_an_address_go_with_the_process_behind_it(cluster: TestCluster) -> None:
    await deploy(cluster, 1)
    await (await registered(cluster, webhook_url="https://10.0.0.9:9443")).withdraw()
    assert not await are_registered(cluster)


async def test_an_embedded_cluster_keeps_its_webhooks(cluster: TestCluster) -> None:
    await (await registered(cluster, is_embedded=True, webhook_url="https://10.0.0.9:9443")).withdraw()
    assert await are_registered(cluster)


@pytest.mark.real_time
async def test_a_program_is_ready_when_its_webhooks_are_registered_and_withdraws_them_at_the_end(
    cluster: TestCluster,
) -> None:
    made = program(cluster, installs=True, webhook_url="https://127.0.0.1:0")
    running = asyncio.create_task(made.run())
    await made.wait_ready()
    assert made.not_ready == ""
    assert made.manager.is_started
    [configuration] = await cluster.client.list(ValidatingWebhookConfiguration)
    url = configuration.webhooks[0].client_config.url
    assert str(url).startswith(f"https://127.0.0.1:{made.webhooks.port}/")
    assert made.webhooks.port != 0
    made.manager.request_stop()
    assert await running == 0
    assert not await are_registered(cluster)


async def test_a_program_that_cannot_prepare_the_cluster_ends_with_code_1(cluster: TestCluster) -> None:
    assert await program(cluster, installs=True).run() == 1


class Anchored(Tug):
    """An operator whose controller needs a kind that is not served."""

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        manager.add(Builder(Widget).build(_nothing))
        return OperatorWebhooks()


async def _nothing(ctx: Context[Any]) -> None:
    return None


async def test_a_program_names_the_kind_that_it_still_waits_for(cluster: TestCluster) -> None:
    made = program(cluster, Anchored())
    serving = asyncio.create_task(made.serve())
    await eventually(lambda: made.manager.is_started)
    assert "Widget.example.com" in made.not_ready
    await cluster.install(Widget)
    await made.wait_ready()
    assert made.not_ready == ""
    made.manager.request_stop()
    await serving


@pytest.mark.parametrize(
    ("address", "asks"), [("0", False), ("127.0.0.1:8080", False), ("0.0.0.0:8080", True)], ids=str
)
async def test_who_serves_metrics_to_others_may_ask_who_they_are(
    cluster: TestCluster, address: str, asks: bool
) -> None:
    assert ("tokenreviews" in {row[0] for row in rows(program(cluster, metrics_address=address))}) is asks


def test_operators_of_other_distributions_are_found_by_name() -> None:
    found = installed_operators()
    assert list(found) == sorted(found)
    assert found["grove"].name == "grove"
