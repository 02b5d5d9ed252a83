"""The CA and what it issues: TLS really works with it, and files outlive the process."""

from __future__ import annotations

import base64
import datetime
import os
import ssl
import stat
import tempfile
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from quarterdeck.apiserver.auth import certificates, privatefile
from quarterdeck.apiserver.auth.authenticate import Authenticator
from quarterdeck.apiserver.auth.certificates import (
    ADMIN,
    Authority,
    CertificateError,
    Credentials,
    KeyPair,
    open_credentials,
)
from quarterdeck.apiserver.auth.kubeconfig import build_kubeconfig, write_kubeconfig
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.state.bootstrap import kubernetes_service

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
YEAR = datetime.timedelta(days=365)


class Nothing:
    def get(self, group: str, resource: str, namespace: str, name: str) -> None:
        return None


def handshake(
    server: ssl.SSLContext, client: ssl.SSLContext, name: str
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A TLS handshake in memory: (server side, client side)."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    asking = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [asking, serving]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            break
    asking.write(b"x")  # with TLS 1.3 the server sees the client's certificate only now
    assert serving.read(1) == b"x"
    return serving, asking


def client_context(credentials: Credentials, pair: KeyPair | None = None) -> ssl.SSLContext:
    """Of a client that trusts the CA and shows a pair."""
    context = ssl.create_default_context(cadata=credentials.authority.certificate_pem.decode())
    if pair is not None:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.to_pem())
            file.flush()
            context.load_cert_chain(file.name)
    return context


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return open_credentials(None, now=NOW)


@pytest.mark.parametrize(
    "name",
    ["127.0.0.1", "::1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"],
)
def test_the_server_is_trusted_under_all_its_names(credentials: Credentials, name: str) -> None:
    serving, asking = handshake(credentials.server_context(), client_context(credentials), name)
    assert serving.getpeercert(True) is None
    assert asking.version() in ("TLSv1.2", "TLSv1.3")


def test_the_server_is_not_trusted_under_other_names(credentials: Credentials) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(credentials.server_context(), client_context(credentials), "example.com")


def test_a_client_certificate_arrives_as_its_user(credentials: Credentials) -> None:
    client = client_context(
        credentials, credentials.authority.issue_client(UserInfo("bob", groups=("a", "b")), NOW)
    )
    serving, _ = handshake(credentials.server_context(), client, "localhost")
    user = Authenticator(Nothing()).authenticate(serving.getpeercert(True), None)
    assert (user.name, user.groups) == ("bob", ("a", "b", "system:authenticated"))


def test_the_admin_is_a_master(credentials: Credentials) -> None:
    client = client_context(credentials, credentials.admin)
    serving, _ = handshake(credentials.server_context(), client, "localhost")
    user = Authenticator(Nothing()).authenticate(serving.getpeercert(True), None)
    assert user.name == ADMIN.name
    assert user.is_master


def test_a_certificate_of_another_authority_is_refused(credentials: Credentials) -> None:
    stranger = Authority.create(NOW).issue_client(ADMIN, NOW)
    with pytest.raises(ssl.SSLError):
        handshake(credentials.server_context(), client_context(credentials, stranger), "localhost")


def test_a_server_certificate_does_not_make_a_client(credentials: Credentials) -> None:
    with pytest.raises(ssl.SSLError):
        handshake(credentials.server_context(), client_context(credentials, credentials.server), "localhost")


def test_strict_verification_is_passed(credentials: Credentials) -> None:
    server, client = credentials.server_context(), client_context(credentials, credentials.admin)
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    handshake(server, client, "localhost")


def test_old_protocols_are_refused(credentials: Credentials) -> None:
    assert credentials.server_context().minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_names_that_do_not_fit_a_certificate_are_refused(credentials: Credentials, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        credentials.authority.issue_client(UserInfo(name), NOW)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_everything_is_reused(tmp_path: Path) -> None:
    first = open_credentials(tmp_path / "pki", now=NOW)
    before = contents(tmp_path / "pki")
    second = open_credentials(tmp_path / "pki", now=NOW + datetime.timedelta(days=30))
    assert contents(tmp_path / "pki") == before
    assert sorted(before) == ["admin.pem", "ca.pem", "server.pem", "service-account.pem"]
    assert second.service_account_key.public.key_id == first.service_account_key.public.key_id
    handshake(second.server_context(), client_context(first, first.admin), "localhost")


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "pki"
    old = os.umask(0)
    try:
        open_credentials(directory, now=NOW)
    finally:
        os.umask(old)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    for path in directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (directory / "ca.pem").chmod(0o644)
    open_credentials(directory, now=NOW)
    assert stat.S_IMODE((directory / "ca.pem").stat().st_mode) == 0o600


def test_certificates_near_their_end_are_renewed(tmp_path: Path) -> None:
    first = open_credentials(tmp_path, now=NOW)
    later = open_credentials(tmp_path, now=NOW + 0.85 * YEAR)
    assert later.server.certificate != first.server.certificate
    assert later.admin.certificate != first.admin.certificate
    assert later.authority.certificate == first.authority.certificate


def test_a_renewed_authority_keeps_what_it_issued(tmp_path: Path) -> None:
    first = open_credentials(tmp_path, now=NOW)
    later = open_credentials(tmp_path, now=NOW + 9 * YEAR)
    assert later.authority.certificate != first.authority.certificate
    assert later.authority.has_issued(first.admin)
    assert later.service_account_key.public.key_id == first.service_account_key.public.key_id


def test_a_new_server_name_needs_a_new_certificate(tmp_path: Path) -> None:
    first = open_credentials(tmp_path, now=NOW)
    more = open_credentials(tmp_path, now=NOW, names=[*certificates.SERVER_NAMES, "box.example", "10.9.0.1"])
    assert more.server.certificate != first.server.certificate
    names = more.server.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "box.example" in names.get_values_for_type(x509.DNSName)
    assert open_credentials(tmp_path, now=NOW).server.certificate == more.server.certificate


def test_the_server_is_trusted_at_the_address_of_its_own_service() -> None:
    server = open_credentials(None, now=NOW).server.certificate
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    [address] = kubernetes_service(6443)["spec"]["clusterIPs"]
    assert address in {str(each) for each in names.get_values_for_type(x509.IPAddress)}


def test_certificates_of_a_replaced_authority_are_replaced(tmp_path: Path) -> None:
    first = open_credentials(tmp_path, now=NOW)
    (tmp_path / "ca.pem").unlink()
    second = open_credentials(tmp_path, now=NOW)
    assert not second.authority.has_issued(first.server)
    assert second.authority.has_issued(second.server)
    assert second.authority.has_issued(second.admin)


@pytest.mark.parametrize("name", ["server.pem", "admin.pem"])
@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"]
)
def test_a_broken_certificate_is_replaced(tmp_path: Path, name: str, content: bytes) -> None:
    open_credentials(tmp_path, now=NOW)
    (tmp_path / name).write_bytes(content)
    again = open_credentials(tmp_path, now=NOW)
    handshake(again.server_context(), client_context(again, again.admin), "localhost")


@pytest.mark.parametrize("name", ["ca.pem", "service-account.pem"])
def test_a_broken_root_key_stops_the_start(tmp_path: Path, name: str) -> None:
    open_credentials(tmp_path, now=NOW)
    (tmp_path / name).write_bytes(b"garbage")
    with pytest.raises(CertificateError, match=name):
        open_credentials(tmp_path, now=NOW)


def test_a_key_of_another_certificate_is_refused() -> None:
    one, two = Authority.create(NOW), Authority.create(NOW)
    with pytest.raises(ValueError, match="belong together"):
        KeyPair.from_pem(one.certificate_pem + two.key_pem)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = tmp_path / "f"
    privatefile.write_private(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="disk full"):
        privatefile.write_private(path, b"new")
    assert contents(tmp_path) == {"f": b"old"}


def test_no_key_is_shown(credentials: Credentials) -> None:
    shown = (
        f"{credentials!r} {credentials.server!r} {credentials.admin!r} {credentials.service_account_key!r}"
    )
    assert "PRIVATE" not in shown
    secret = credentials.server.key_pem.splitlines()[1].decode()
    assert secret not in shown


def test_a_kubeconfig_holds_all_a_client_needs(credentials: Credentials, tmp_path: Path) -> None:
    path = tmp_path / "new" / "kubeconfig"
    write_kubeconfig(
        path, build_kubeconfig("https://127.0.0.1:6443", credentials.authority, credentials.admin)
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = yaml.safe_load(path.read_text())
    (context,) = document["contexts"]
    assert document["current-context"] == context["name"]
    (cluster,) = document["clusters"]
    assert cluster["cluster"]["server"] == "https://127.0.0.1:6443"
    (user,) = document["users"]
    pem = b"".join(
        base64.b64decode(user["user"][key]) for key in ("client-certificate-data", "client-key-data")
    )
    client = ssl.create_default_context(
        cadata=base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    )
    (tmp_path / "pem").write_bytes(pem)
    client.load_cert_chain(tmp_path / "pem")
    handshake(credentials.server_context(), client, "localhost")


def test_a_kubeconfig_may_hold_a_token(credentials: Credentials) -> None:
    document = build_kubeconfig("https://h", credentials.authority, "tok", name="n", namespace="ns")
    assert document["users"] == [{"name": "n", "user": {"token": "tok"}}]
    assert document["contexts"][0]["context"] == {"cluster": "n", "user": "n", "namespace": "ns"}
