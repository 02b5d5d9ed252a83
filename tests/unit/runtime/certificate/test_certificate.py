"""Certificates: rotation under open connections, files that change, and certificates of our own making."""

from __future__ import annotations

import asyncio
import os
import ssl
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from quarterdeck.api import ObjectMeta, crd
from quarterdeck.api.k8s import ConfigMap, Secret, ValidatingWebhookConfiguration
from quarterdeck.client import MergePatch
from quarterdeck.client.call import Call, ProceedStream
from quarterdeck.client.transport import Stream
from quarterdeck.client.wrapper import intercept
from quarterdeck.errors import ConfigError
from quarterdeck.runtime import Manager
from quarterdeck.runtime.certificate import (
    BundlePublisher,
    BundleTarget,
    EphemeralCertificates,
    FileCertificates,
    KeyPair,
    Life,
    Material,
    SelfSigned,
    ServingContext,
    selfsigned,
)
from quarterdeck.runtime.certificate.rotation import next_material
from quarterdeck.runtime.certificate.selfsigned import WATCH_SECONDS
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import (
    Conversion,
    ServiceTarget,
    UrlTarget,
    Validator,
    WebhookInstaller,
    WebhookOptions,
    WebhookServer,
    conversion_stanza,
    webhook_configurations,
)
from quarterdeck.testing import Refuse, eventually
from quarterdeck.wire.certificate import (
    certificates_in,
    dns_names_of,
    is_signed_by,
    issue,
    lifetime_used,
    make_authority,
    to_pem,
)
from quarterdeck.wire.http import Response
from tests.unit.runtime.servicekit import (
    Authority,
    Gang,
    Web,
    client_of,
    embedded,
    install,
    link_to,
    until,
)

pytestmark = pytest.mark.real_time

NAMES = ("hook.qd.svc", "hook", "hook.qd", "hook.qd.svc.cluster.local")


def der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def plain_server(directory: Path, **options: Any) -> WebhookServer:
    server = WebhookServer(
        WebhookOptions(host="127.0.0.1", port=0, **options),
        certificates=FileCertificates(directory, poll=0.05),
    )
    server.register("/ping", lambda request: Response(200, b'"pong"'))
    return server


async def until_served(port: int, context: ssl.SSLContext, certificate: bytes, name: str | None) -> None:
    async with asyncio.timeout(60):
        while True:
            web = await Web.connect(port, context, name)
            served = web.peer_certificate
            await web.close()
            if served == der(certificate):
                return
            await asyncio.sleep(0.05)


async def test_rotation_with_an_open_connection_and_a_new_one(tmp_path: Path) -> None:
    authority = Authority()
    first = authority.issue(tmp_path)
    async with plain_server(tmp_path) as server:
        context = authority.client_context()
        opened = await Web.connect(server.port, context)
        assert opened.peer_certificate == der(first)
        assert await opened.send("POST", "/ping", b"x") == (200, b'"pong"')

        second = authority.issue(tmp_path)
        await until_served(server.port, context, second, "localhost")
        assert await opened.send("POST", "/ping", b"x") == (200, b'"pong"'), "the open connection lives on"
        assert opened.peer_certificate == der(first)
        await opened.close()


async def test_clients_without_a_server_name_get_the_new_certificate_too(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path)
    context = authority.client_context()
    context.check_hostname = False
    async with plain_server(tmp_path) as server:
        second = authority.issue(tmp_path)
        await until_served(server.port, context, second, None)


async def test_a_secret_volume_swapped_by_symbolic_link_is_noticed(tmp_path: Path) -> None:
    """As the kubelet does it: the files are links into a directory that is itself a link."""
    authority = Authority()
    authority.issue(tmp_path / "v1")
    certs = tmp_path / "certs"
    certs.mkdir()
    (certs / "..data").symlink_to(tmp_path / "v1")
    for name in ("tls.crt", "tls.key"):
        (certs / name).symlink_to(Path("..data", name))
    async with plain_server(certs) as server:
        second = authority.issue(tmp_path / "v2")
        (certs / "..new").symlink_to(tmp_path / "v2")
        os.replace(certs / "..new", certs / "..data")
        await until_served(server.port, authority.client_context(), second, "localhost")


async def test_a_bad_new_pair_is_counted_and_the_old_one_stays(tmp_path: Path) -> None:
    authority = Authority()
    first = authority.issue(tmp_path)
    metrics = RuntimeMetrics()
    used: list[KeyPair] = []
    context = ServingContext()

    def use(pair: KeyPair) -> None:
        context.replace(pair)
        used.append(pair)

    source = FileCertificates(tmp_path, poll=0.02, metrics=metrics)
    async with source.serve(use):
        assert [pair.certificate for pair in used] == [first]
        (tmp_path / "tls.key").write_bytes(b"nonsense")
        await until(lambda: metrics.certificate_errors.value >= 2)
        assert len(used) == 1
        (tmp_path / "tls.key").unlink()
        errors = metrics.certificate_errors.value
        await until(lambda: metrics.certificate_errors.value > errors)
        second = authority.issue(tmp_path)
        await until(lambda: len(used) == 2)
        assert used[1].certificate == second
        reads = metrics.certificate_reads.value
        await until(lambda: metrics.certificate_reads.value > reads + 1)
        assert len(used) == 2, "what did not change is not served anew"
    assert metrics.certificate_reads.value > metrics.certificate_errors.value
    assert "withheld" in repr(used[0])


async def test_a_client_authority_makes_client_certificates_mandatory(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue(tmp_path)
    clients = Authority("clients")
    clients.issue(tmp_path / "client")
    (tmp_path / "clients.crt").write_bytes(clients.pem)
    async with plain_server(tmp_path, client_ca=str(tmp_path / "clients.crt")) as server:
        with_certificate = authority.client_context()
        with_certificate.load_cert_chain(tmp_path / "client" / "tls.crt", tmp_path / "client" / "tls.key")
        # The leaf is made for servers; what counts here is who signed it.
        web = await Web.connect(server.port, authority.client_context())
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            await web.send("POST", "/ping", b"x")
        await web.close()
    with pytest.raises(ConfigError, match="failed to read client CA cert"):
        ServingContext(client_ca=str(tmp_path / "missing"))


class Calendar:
    """Steps through time with one Secret, as the replicas together would."""

    def __init__(self, life: Life | None = None) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.material: Material | None = None
        self.life = life if life is not None else Life()
        self.is_published = True

    def step(self, **span: float) -> bool:
        """Let time pass, then look once; returns whether something was written."""
        self.now += timedelta(**span)
        wanted = next_material(
            self.material,
            name="hook.qd",
            dns_names=NAMES,
            now=self.now,
            is_published=self.is_published,
            life=self.life,
        )
        if wanted is not None:
            self.material = wanted
        return wanted is not None

    @property
    def authorities(self) -> list[Any]:
        assert self.material is not None
        return certificates_in(self.material.bundle)

    @property
    def leaf(self) -> Any:
        assert self.material is not None
        return certificates_in(self.material.certificate)[0]


def test_fresh_material_has_ten_years_of_authority_one_of_serving_and_all_names() -> None:
    calendar = Calendar()
    assert calendar.step()
    [authority] = calendar.authorities
    assert authority.not_valid_after_utc - calendar.now == timedelta(days=3650)
    assert calendar.leaf.not_valid_after_utc - calendar.now == timedelta(days=365)
    assert set(dns_names_of(calendar.leaf)) == set(NAMES)
    assert is_signed_by(calendar.leaf, authority)
    assert not calendar.step()
    ServingContext().replace(calendar.material.pair)  # it was made above


def test_the_serving_certificate_is_renewed_at_two_thirds_of_its_life() -> None:
    calendar = Calendar()
    calendar.step()
    first, bundle = calendar.leaf, calendar.material.bundle  # it was made above
    assert not calendar.step(days=240)
    assert calendar.step(days=5)
    assert calendar.leaf != first
    assert calendar.material.bundle == bundle  # it was made above


def test_a_new_authority_is_published_before_it_signs_and_the_old_one_leaves_last() -> None:
    calendar = Calendar(Life(authority=timedelta(days=300), serving=timedelta(days=290)))
    calendar.step()
    [old], old_leaf = calendar.authorities, calendar.leaf
    calendar.is_published = False
    assert calendar.step(days=200)
    new, kept = calendar.authorities
    assert kept == old
    assert calendar.leaf == old_leaf, "clients may not know the new authority yet"
    assert not calendar.step(hours=12)
    calendar.is_published = True
    assert calendar.step(hours=12)
    assert is_signed_by(calendar.leaf, new)
    assert calendar.authorities == [new, old], "connections checked against the old one go on"
    assert not calendar.step(hours=12)
    assert calendar.step(hours=13)
    assert calendar.authorities == [new]
    assert not calendar.step(hours=12)


def test_an_unpublished_authority_signs_when_the_certificate_is_about_to_expire() -> None:
    calendar = Calendar(Life(authority=timedelta(days=300), serving=timedelta(days=290)))
    calendar.step()
    calendar.is_published = False
    assert calendar.step(days=201)
    assert not calendar.step(days=60)
    assert calendar.step(days=20)
    assert is_signed_by(calendar.leaf, calendar.authorities[0])


def test_damaged_material_is_replaced_as_little_as_possible() -> None:
    calendar = Calendar()
    calendar.step()
    good = calendar.material
    assert good is not None
    import msgspec

    calendar.material = msgspec.structs.replace(good, certificate=b"", key=b"")
    assert calendar.step()
    assert calendar.material.bundle == good.bundle
    calendar.material = msgspec.structs.replace(good, authority_key=b"gone")
    assert calendar.step()
    assert len(calendar.authorities) == 2, (
        "a new authority beside the old one, whose certificate still serves"
    )
    assert calendar.material.certificate == good.certificate
    assert calendar.step()
    assert is_signed_by(calendar.leaf, calendar.authorities[0])
    calendar.material = Material(b"nonsense", b"", b"", b"")
    assert calendar.step()
    assert "withheld" in repr(calendar.material)
    foreign, key = make_authority("foreign", now=calendar.now, life=timedelta(days=10))
    calendar.material = msgspec.structs.replace(good, bundle=to_pem([foreign]), authority_key=key)
    assert calendar.step(), "a certificate of another authority is worth nothing"
    assert is_signed_by(calendar.leaf, foreign)


def test_other_names_need_another_certificate() -> None:
    calendar = Calendar()
    calendar.step()
    wanted = next_material(
        calendar.material,
        name="x",
        dns_names=(*NAMES, "more.example.io"),
        now=calendar.now,
        is_published=True,
        life=calendar.life,
    )
    assert wanted is not None
    assert "more.example.io" in dns_names_of(certificates_in(wanted.certificate)[0])
    assert lifetime_used(calendar.leaf, calendar.now) < 0.01


class Replica:
    """One process that serves the Secret's certificate."""

    def __init__(self, client: Any, **options: Any) -> None:
        self.used: list[KeyPair] = []
        self.source = SelfSigned("hook", "kube-system", client=client, **options)
        self.block = self.source.serve(self.used.append)

    async def __aenter__(self) -> Replica:
        await self.block.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> None:
        await self.block.__aexit__(*exc)


@pytest.mark.virtual_time
async def test_replicas_race_to_create_the_secret_and_serve_the_same_certificate() -> None:
    async with embedded() as server:
        clients = [client_of(server) for _ in range(3)]
        replicas = [Replica(client) for client in clients]
        await asyncio.gather(*(replica.__aenter__() for replica in replicas))
        secret = await clients[0].get(Secret, "hook-tls", "kube-system")
        assert secret.type == "kubernetes.io/tls"
        assert set(secret.data) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
        assert {replica.used[0].certificate for replica in replicas} == {secret.data["tls.crt"]}
        assert {replica.source.bundle for replica in replicas} == {secret.data["ca.crt"]}
        for replica in replicas:
            await replica.__aexit__(None, None, None)


@pytest.mark.virtual_time
async def test_a_renewal_by_one_replica_is_served_by_all() -> None:
    async with embedded() as server:
        life = Life(serving=timedelta(days=3))
        async with Replica(client_of(server), life=life) as one, Replica(client_of(server), life=life) as two:
            await asyncio.sleep(13 * 3600)
            assert len(one.used) == len(two.used) == 1
            await asyncio.sleep(36 * 3600)
            assert len(one.used) == len(two.used) == 2
            assert one.used[1] == two.used[1] != one.used[0]


@pytest.mark.virtual_time
async def test_a_deleted_secret_is_made_anew() -> None:
    async with embedded() as server:
        client = client_of(server)
        async with Replica(client_of(server)) as replica:
            await client.delete(Secret, "hook-tls", "kube-system")
            await asyncio.sleep(60)
            secret = await client.get(Secret, "hook-tls", "kube-system")
            assert [pair.certificate for pair in replica.used][-1] == secret.data["tls.crt"]
            assert len(replica.used) == 2


@pytest.mark.virtual_time
async def test_an_outage_of_the_api_server_does_not_end_the_watch() -> None:
    async with embedded() as server:
        link = link_to(server)
        async with Replica(link.client) as replica:
            await asyncio.sleep(10)
            link.cut()
            await asyncio.sleep(1000)
            other = client_of(server)
            await other.delete(Secret, "hook-tls", "kube-system")
            link.restore()
            await asyncio.sleep(120)
            assert len(replica.used) == 2


@pytest.mark.virtual_time
async def test_a_secret_older_than_the_history_of_the_server_is_followed() -> None:
    async with embedded() as server:
        opened = 0

        async def count(call: Call, proceed: ProceedStream) -> Stream:
            nonlocal opened
            opened += 1
            return await proceed(call)

        async with Replica(intercept(client_of(server), watch=count)):
            await asyncio.sleep(1)
            await client_of(server).create(ConfigMap(metadata=ObjectMeta(name="other", namespace="default")))
            await server.store.forget_history()
            await asyncio.sleep(2 * WATCH_SECONDS)
            assert opened <= 3


@pytest.mark.virtual_time
async def test_readiness_waits_for_the_bundle_in_every_object_and_repairs_it() -> None:
    async with embedded() as server:
        client = client_of(server)
        hooks = [Validator(Gang, lambda admission, gang: None)]
        targets = [BundleTarget.validating("gangs"), BundleTarget.definition("gangs.example.io")]
        publish = BundlePublisher(client, targets)
        async with Replica(client_of(server), publish=publish) as replica:
            await asyncio.sleep(10)
            with pytest.raises(ConfigError, match="not in the cluster yet"):
                await replica.source.check()
            [configuration] = webhook_configurations("gangs", hooks, ServiceTarget("hook", "kube-system"))
            await client.create(configuration)
            definition = crd(Gang, conversion=UrlTarget("https://localhost:1", b"").conversion())
            await install(client, definition)
            await asyncio.sleep(10)
            await replica.source.check()
            bundle = replica.source.bundle
            found = await client.get(ValidatingWebhookConfiguration, "gangs")
            assert found.webhooks[0].client_config.ca_bundle == bundle
            stored = await client.get(targets[1].kind, "gangs.example.io")
            encoded = stored.at("spec", "conversion", "webhook", "clientConfig", "caBundle")
            assert b64decode(encoded) == bundle

            broken = {
                "webhooks": [
                    {**found.to_dict()["webhooks"][0], "clientConfig": {"url": "https://elsewhere/"}}
                ]
            }
            await client.patch(found, MergePatch(broken))
            await asyncio.sleep(61)
            repaired = await client.get(ValidatingWebhookConfiguration, "gangs")
            assert repaired.webhooks[0].client_config.ca_bundle == bundle


@pytest.mark.virtual_time
async def test_an_authority_is_rotated_in_step_with_its_publication() -> None:
    async with embedded() as server:
        published: list[bytes] = []

        async def publish(bundle: bytes) -> bool:
            published.append(bundle)
            return True

        life = Life(authority=timedelta(days=30), serving=timedelta(days=40))
        async with Replica(client_of(server), publish=publish, life=life) as replica:
            await asyncio.sleep(19 * 86400)
            assert len(replica.used) == 1
            first = replica.source.bundle
            await asyncio.sleep(2 * 86400)
            assert len(replica.used) == 2
            sizes = [len(certificates_in(bundle)) for bundle in dict.fromkeys(published)]
            assert sizes[:2] == [1, 2], "old and new together before the new one signs"
            await asyncio.sleep(2 * 86400)
            assert len(certificates_in(replica.source.bundle)) == 1
            assert replica.source.bundle != first


def test_an_authority_is_dead_at_the_very_end_of_its_life() -> None:
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    life = Life(authority=timedelta(days=3), serving=timedelta(days=30))

    def material(there: Material | None, now: datetime) -> Material | None:
        return next_material(there, name="x", dns_names=("h",), life=life, now=now, is_published=True)

    first = material(None, begin)
    assert first is not None
    [authority] = certificates_in(first.bundle)
    anew = material(first, authority.not_valid_after_utc)
    assert anew is not None
    assert authority not in certificates_in(anew.bundle)


@pytest.mark.virtual_time
async def test_without_a_client_it_says_so() -> None:
    source = SelfSigned("hook", "kube-system")
    with pytest.raises(ConfigError, match="need a client"):
        async with source.serve(lambda pair: None):
            pass
    async with embedded() as server:
        source.bind(client_of(server))
        async with source.serve(lambda pair: None):
            assert source.bundle


@pytest.mark.virtual_time
async def test_an_installer_is_done_when_every_definition_converts_as_wanted() -> None:
    async with embedded() as server:
        link, bundle = link_to(server), Authority().pem
        installer = WebhookInstaller(
            link.client, "gangs", UrlTarget("https://localhost:1"), definitions=["gangs.example.io"]
        )
        assert not await installer(bundle), "there is no such definition yet"
        await install(client_of(server), crd(Gang))
        assert await installer(bundle)
        link.log.clear()
        assert await installer(bundle)
        assert {each.verb for each in link.log} == {"get"}, "nothing differs any more"


@pytest.mark.virtual_time
async def test_a_bundle_that_somebody_was_faster_with_is_not_there_yet() -> None:
    async with embedded() as server:
        link = link_to(server)
        hooks = [Validator(Gang, lambda admission, gang: None)]
        [configuration] = webhook_configurations("gangs", hooks, ServiceTarget("hook", "kube-system"))
        await link.client.create(configuration)
        link.plan.add(Refuse(409, verbs=frozenset({"patch"}), times=1))
        publish = BundlePublisher(link.client, [BundleTarget.validating("gangs")])
        assert not await publish(b"pem")
        assert await publish(b"pem")
        assert await publish(b"pem"), "it is there already"


async def test_a_conversion_stanza_names_service_or_url() -> None:
    assert conversion_stanza(ServiceTarget("hook", "qd", 8443, b"pem")) == {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {"namespace": "qd", "name": "hook", "path": "/convert", "port": 8443},
                "caBundle": "cGVt",
            },
        },
    }
    url: Any = conversion_stanza(UrlTarget("https://h:1/"))
    assert url["webhook"]["clientConfig"] == {"url": "https://h:1/convert"}
    assert Conversion(Gang).versions == (Gang,)


async def test_self_signed_webhooks_are_trusted_by_an_api_server_that_has_the_bundle(tmp_path: Path) -> None:
    async with embedded() as server:
        client = client_of(server)
        await install(client, crd(Gang))
        source = SelfSigned("hook", "kube-system", client=client, dns_names=("localhost",))
        hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
        hooks.add(Validator(Gang, lambda admission, gang: admission.warn("seen")))
        async with hooks:
            for configuration in webhook_configurations(
                "gangs", hooks.webhooks, UrlTarget(f"https://localhost:{hooks.port}", source.bundle)
            ):
                await client.create(configuration)
            made = await client.create(Gang(metadata=ObjectMeta(name="a", namespace="default")))
            assert made.metadata.uid


async def test_a_manager_is_not_ready_before_its_bundle_is_in_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selfsigned, "PUBLISH_RETRY", 0.02)
    async with embedded() as server:
        is_there: list[bytes] = []

        async def publish(bundle: bytes) -> bool:
            return bool(is_there)

        client = client_of(server)
        source = SelfSigned("hook", "kube-system", client=client, publish=publish)
        hooks = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=source)
        hooks.add(Validator(Gang, lambda admission, gang: None))
        assert Manager(client, webhooks=hooks).checks.readiness()["webhook"] == hooks.check
        async with hooks:
            with pytest.raises(ConfigError, match="the CA bundle of the webhooks is not in the cluster yet"):
                await hooks.check()
            is_there.append(source.bundle)
            await eventually(lambda: source.is_published)
            await hooks.check()


def test_addresses_are_alternative_names_of_their_own() -> None:
    now = datetime.now(UTC)
    authority, key = make_authority("test", now=now, life=timedelta(days=1))
    pem, _ = issue(authority, key, ["hook.example", "127.0.0.1", "::1"], now=now, life=timedelta(days=1))
    certificate = certificates_in(pem)[0]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert dns_names_of(certificate) == ["hook.example", "127.0.0.1", "::1"]


async def test_a_webhook_is_reached_by_its_address() -> None:
    certificates = EphemeralCertificates(("127.0.0.1",))
    server = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=certificates)
    server.add(Validator(Gang, lambda admission, gang: None))
    async with server:
        context = ssl.create_default_context(cadata=certificates.bundle.decode())
        web = await Web.connect(server.port, context, name="127.0.0.1")
        await web.close()
