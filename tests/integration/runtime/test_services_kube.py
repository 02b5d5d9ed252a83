"""Election, events, webhooks, conversion and certificates against a real kube-apiserver.

Webhooks are called at localhost, so the server must run here.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import Model, ObjectMeta, Resource, crd, omitempty
from quarterdeck.api.k8s import (
    CustomResourceDefinition,
    Lease,
    MutatingWebhookConfiguration,
    Namespace,
    Secret,
    ValidatingWebhookConfiguration,
    core,
    events,
)
from quarterdeck.client import Client, Config
from quarterdeck.errors import Forbidden, Invalid, QuarterdeckError, ignore_not_found
from quarterdeck.runtime.certificate import SelfSigned
from quarterdeck.runtime.election import LeaderElection, LeaderElector, ThreadedElector, election_client
from quarterdeck.runtime.event import EventBroadcaster
from quarterdeck.runtime.health import AccessReviewer
from quarterdeck.runtime.webhook import (
    Admission,
    Conversion,
    Defaulter,
    Denied,
    Spoke,
    UrlTarget,
    Validator,
    WebhookInstaller,
    WebhookOptions,
    WebhookServer,
)
from quarterdeck.wire.http import Request
from tests.unit.runtime.servicekit import install, until

pytestmark = [pytest.mark.kube, pytest.mark.real_time]
GROUP = "services.quarterdeck.test"


class CrewSpec(Model):
    size: int = 1
    deck: str = omitempty("")


class Crew(Resource, group=GROUP, version="v1"):
    """The hub."""

    spec: CrewSpec = omitempty(CrewSpec())


class OldCrewSpec(Model):
    count: int = 1
    level: str = omitempty("")


class OldCrew(Resource, group=GROUP, version="v1alpha1", kind="Crew", plural="crews", storage=False):
    """A spoke."""

    spec: OldCrewSpec = omitempty(OldCrewSpec())


def to_hub(old: OldCrew) -> Crew:
    return Crew(metadata=old.metadata, spec=CrewSpec(size=old.spec.count, deck=old.spec.level))


def from_hub(hub: Crew) -> OldCrew:
    return OldCrew(metadata=hub.metadata, spec=OldCrewSpec(count=hub.spec.size, level=hub.spec.deck))


@asynccontextmanager
async def world(kubeconfig: Path) -> AsyncIterator[tuple[Client, str]]:
    """A client and a namespace that is deleted afterwards."""
    name = f"svc-{uuid.uuid4().hex[:8]}"
    async with Client.connect(Config.load(kubeconfig), on_warning=lambda text: None) as client:
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
        try:
            yield client, name
        finally:
            await client.delete(Namespace, name)


async def test_a_killed_leader_is_replaced_within_lease_and_retry(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        config = Config.load(real_server)
        timing = {"lease_duration": 4.0, "renew_deadline": 3.0, "retry_period": 1.0}
        first = LeaderElection(name="crew", namespace=ns, identity="first", **timing)  # type: ignore[arg-type]
        await LeaderElector(client, first).acquire()  # and never heard of again
        second = LeaderElection(name="crew", namespace=ns, identity="second", **timing)  # type: ignore[arg-type]
        elector = ThreadedElector(second, election_client(config, second))
        started = asyncio.get_running_loop().time()

        async def nothing() -> None:
            pass

        run = asyncio.create_task(elector.run(nothing, nothing))
        await until(lambda: elector.is_leader, seconds=20)
        assert 3.5 < asyncio.get_running_loop().time() - started < 4 + 2.2 + 2
        run.cancel()
        await asyncio.wait([run])
        assert not (await client.get(Lease, "crew", ns)).spec.holder_identity


async def test_events_of_both_apis_are_accepted_and_counted(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        subject = core.ConfigMap(metadata=ObjectMeta(name="a", namespace=ns, uid="u"))
        async with (
            EventBroadcaster(client) as modern,
            EventBroadcaster(client, api="core") as legacy,
            EventBroadcaster(client, api="both") as both,
        ):
            for index in range(3):
                modern.recorder("svc").event(subject, "Normal", "Modern", "Test", f"note {index}")
                legacy.recorder("svc").event(subject, "Warning", "Legacy", "Test", "same")
                both.recorder("svc").event(subject, "Warning", "Both", "Test", "same")
        found = {event.reason: event for event in await client.list(events.Event, namespace=ns)}
        series = found["Modern"].series
        assert series
        assert series.count == 3
        assert found["Modern"].reporting_instance.startswith("svc-")
        old = {event.reason: event for event in await client.list(core.Event, namespace=ns)}
        assert old["Legacy"].count == 3
        assert not found["Legacy"].series
        series = found["Both"].series
        assert series
        assert series.count == old["Both"].count == 3


def default_deck(admission: Admission, crew: Crew) -> Crew:
    return crew if crew.spec.deck else crew.evolve(spec=crew.spec.evolve(deck="main"))


def check_size(admission: Admission, crew: Crew) -> None:
    if crew.spec.size > 10:
        raise Denied("too many")
    if crew.spec.size == 9:
        raise Invalid("Crew is invalid: nine is unlucky")


async def test_webhooks_conversion_and_self_signed_certificates_work_together(
    real_server: Path,
) -> None:
    async with world(real_server) as (client, ns):
        source = SelfSigned("hook", ns, client=client, dns_names=("localhost",))
        hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
        hooks.add(Defaulter(Crew, default_deck), Validator(Crew, check_size))
        hooks.add_conversion(Conversion(Crew, Spoke(OldCrew, to_hub, from_hub)))
        async with hooks:
            await hooks.check()
            try:
                await _sail(client, ns, hooks, source)
            finally:
                for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
                    with ignore_not_found():
                        await client.delete(kind, "services.quarterdeck.test")
                with ignore_not_found():
                    await client.delete(CustomResourceDefinition, f"crews.{GROUP}")


async def _sail(client: Client, ns: str, hooks: WebhookServer, source: SelfSigned) -> None:
    secret = await client.get(Secret, "hook-tls", ns)
    assert secret.data["ca.crt"] == source.bundle
    await install(client, crd(Crew, OldCrew))
    target = UrlTarget(f"https://localhost:{hooks.port}")
    publish = WebhookInstaller(client, GROUP, target, webhooks=hooks.webhooks, conversions=hooks.conversions)
    assert await publish(source.bundle)
    versions = [
        (await client.get(kind, GROUP)).metadata.resource_version
        for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
    ]
    assert await publish(source.bundle)
    again = [
        (await client.get(kind, GROUP)).metadata.resource_version
        for kind in (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
    ]
    assert versions == again, "the server's defaults are no difference"

    async def create(kind: Any, name: str, **spec: Any) -> Any:
        document = {"metadata": {"name": name, "namespace": ns}, "spec": spec}
        gvk = kind.type_info.gvk
        made = kind.from_dict({"apiVersion": gvk.api_version, "kind": gvk.kind, **document})
        return await client.create(made)

    async with asyncio.timeout(20):
        while True:  # the server takes a moment to know its new webhooks
            try:
                made = await create(Crew, f"probe-{uuid.uuid4().hex[:6]}", size=2)
            except QuarterdeckError:
                await asyncio.sleep(0.2)
                continue
            if made.spec.deck == "main":
                break
            await asyncio.sleep(0.2)
    with pytest.raises(Forbidden, match=f'admission webhook "vcrew.{GROUP}" denied the request: too many'):
        await create(Crew, "large", size=11)
    with pytest.raises(QuarterdeckError, match="nine is unlucky"):
        await create(Crew, "unlucky", size=9)
    old = await create(OldCrew, "old", count=3)
    assert (old.spec.count, old.spec.level) == (3, "main"), "defaulted as the hub, answered as the spoke"
    assert (await client.get(Crew, "old", ns)).spec.size == 3
    listed = await client.list(OldCrew, namespace=ns)
    assert all(each.spec.level == "main" for each in listed)


async def test_the_real_server_judges_tokens(real_server: Path) -> None:
    async with world(real_server) as (client, _):
        reviewer = AccessReviewer(client)
        refusal = await reviewer.refuse(
            Request("GET", "/metrics", "", {"authorization": "Bearer not-a-token"})
        )
        assert refusal is not None
        assert refusal.status == 401
