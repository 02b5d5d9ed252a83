"""Credentials to users: certificates, static tokens, ServiceAccount tokens."""

from __future__ import annotations

import datetime
import logging
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from quarterdeck.apiserver.auth.authenticate import (
    Authenticator,
    bearer_token,
    load_token_file,
    parse_token_file,
)
from quarterdeck.apiserver.auth.certificates import Authority
from quarterdeck.apiserver.auth.jwt import SigningKey, TokenError
from quarterdeck.apiserver.auth.serviceaccount import Binding, Claims, Reference, ServiceAccountTokens
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]
NOW = 1_800_000_000.0
START = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
ISSUER = "https://kubernetes.default.svc.cluster.local"


class Cluster:
    """Stored objects, as `ClusterReads`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.reads = 0

    def put(self, resource: str, namespace: str, name: str, uid: str, **metadata: str) -> None:
        self.objects[resource, namespace, name] = {"metadata": {"name": name, "uid": uid, **metadata}}

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        assert group == ""
        self.reads += 1
        return self.objects.get((resource, namespace, name))


class World:
    def __init__(self) -> None:
        self.now = NOW
        self.cluster = Cluster()
        self.cluster.put("serviceaccounts", "ns", "sa", "uid-sa")
        self.tokens = ServiceAccountTokens(SigningKey.generate())
        self.authenticator = Authenticator(
            self.cluster,
            service_accounts=self.tokens,
            static_tokens={"s3cret": UserInfo("bob", "7", ("devs",))},
            clock=lambda: self.now,
            tokens_kept=3,
        )

    def token(self, tokens: ServiceAccountTokens | None = None, **changes: Any) -> str:
        claims = Claims(
            sub="system:serviceaccount:ns:sa",
            aud=[ISSUER],
            exp=int(NOW) + 3600,
            nbf=int(NOW),
            iat=int(NOW),
            jti="j1",
            kubernetes=Binding(namespace="ns", serviceaccount=Reference("sa", "uid-sa")),
        )
        return (tokens or self.tokens).issue(msgspec.structs.replace(claims, **changes))

    def bound(self, **references: Reference) -> str:
        binding = Binding(namespace="ns", serviceaccount=Reference("sa", "uid-sa"))
        return self.token(kubernetes=msgspec.structs.replace(binding, **references))

    def error(self, token: str, *audiences: str) -> str:
        with pytest.raises(TokenError) as caught:
            self.authenticator.authenticate_token(token, audiences)
        with pytest.raises(StatusError) as refused:
            self.authenticator.authenticate(None, f"Bearer {token}")
        assert (refused.value.code, refused.value.message) == (401, "Unauthorized")
        return str(caught.value)


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("  BEARER abc  ", "abc"),
        ("Bearer abc def", "abc"),
        ("Bearer  abc", ""),
        ("Bearer", ""),
        ("Basic abc", ""),
        ("", ""),
    ],
)
def test_bearer_headers(header: str, token: str) -> None:
    assert bearer_token(header) == token


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer nope", "Basic Ym9iOng="])
def test_without_good_credentials_nobody_gets_in(world: World, header: str | None) -> None:
    with pytest.raises(StatusError) as caught:
        world.authenticator.authenticate(None, header)
    assert (caught.value.code, caught.value.reason, caught.value.message) == (
        401,
        "Unauthorized",
        "Unauthorized",
    )


def test_a_static_token_is_its_user(world: World) -> None:
    user = world.authenticator.authenticate(None, "Bearer s3cret")
    assert user == UserInfo("bob", "7", ("devs", "system:authenticated"))


def test_a_static_token_is_for_this_server_only(world: World) -> None:
    assert world.authenticator.authenticate_token("s3cret").audiences == (ISSUER,)
    assert world.authenticator.authenticate_token("s3cret", ["x", ISSUER]).audiences == (ISSUER,)
    with pytest.raises(TokenError, match="invalid bearer token"):
        world.authenticator.authenticate_token("s3cret", ["x"])


def test_the_token_file_has_upstreams_format() -> None:
    text = 't1,alice,1\n\nt2,bob,2,"g1,g2"\n,empty,3\nt1,carol,4,g\n"t,3",dan,5,,ignored\n'
    assert parse_token_file(text) == {
        "t1": UserInfo("carol", "4", ("g",)),
        "t2": UserInfo("bob", "2", ("g1", "g2")),
        "t,3": UserInfo("dan", "5", ("",)),
    }


def test_a_short_line_is_an_error_that_names_the_file(tmp_path: Any) -> None:
    path = tmp_path / "tokens.csv"
    path.write_text("secret-token,user\n")
    with pytest.raises(ValueError, match="at least 3 columns") as caught:
        load_token_file(path)
    assert str(path) in str(caught.value)
    assert "secret-token" not in str(caught.value)


def test_a_service_account_token_is_its_account(world: World) -> None:
    assert world.authenticator.authenticate(None, f"Bearer {world.token()}") == UserInfo(
        "system:serviceaccount:ns:sa",
        "uid-sa",
        ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"),
        {"authentication.kubernetes.io/credential-id": ("JTI=j1",)},
    )


def test_what_a_token_is_bound_to_shows_in_extra(world: World) -> None:
    world.cluster.put("pods", "ns", "p", "uid-p")
    token = world.bound(pod=Reference("p", "uid-p"), node=Reference("n", "uid-n"))
    assert world.authenticator.authenticate(None, f"Bearer {token}").extra == {
        "authentication.kubernetes.io/credential-id": ("JTI=j1",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("uid-p",),
        "authentication.kubernetes.io/node-name": ("n",),
        "authentication.kubernetes.io/node-uid": ("uid-n",),
    }


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (3600 + 61, "service account token has expired"),
        (-61, "service account token is not valid yet"),
    ],
)
def test_a_token_has_its_time(world: World, later: float, text: str) -> None:
    token = world.token()
    world.now = NOW + later
    assert world.error(token) == text


@pytest.mark.parametrize("later", [3600 + 59, -59, 0])
def test_clocks_may_differ_a_little(world: World, later: float) -> None:
    token = world.token()
    world.now = NOW + later
    assert world.authenticator.authenticate_token(token)


def test_a_token_from_the_future_and_one_without_end_are_refused(world: World) -> None:
    assert (
        world.error(world.token(iat=int(NOW) + 100, nbf=None))
        == "service account token is issued in the future"
    )
    assert world.error(world.token(exp=None)) == "service account token has expired"


def test_expiry_counts_for_remembered_tokens_too(world: World) -> None:
    token = world.token()
    assert world.authenticator.authenticate_token(token)
    world.now += 3661
    assert world.error(token) == "service account token has expired"
    assert world.authenticator.statistics()["verified_tokens"] == 0


def test_a_token_dies_with_its_account_at_once(world: World) -> None:
    token = world.token()
    assert world.authenticator.authenticate_token(token)
    del world.cluster.objects["serviceaccounts", "ns", "sa"]
    assert world.error(token) == 'serviceaccounts "sa" not found'
    world.cluster.put("serviceaccounts", "ns", "sa", "other")
    assert world.error(token) == "service account UID (other) does not match claim (uid-sa)"


def test_an_account_being_deleted_vouches_for_a_minute(world: World) -> None:
    token = world.token()
    stamp = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.cluster.put("serviceaccounts", "ns", "sa", "uid-sa", deletionTimestamp=stamp)
    world.now = NOW + 59
    assert world.authenticator.authenticate_token(token)
    world.now = NOW + 61
    assert world.error(token) == "service account ns/sa has been deleted"


@pytest.mark.parametrize(("kind", "namespace"), [("secret", "ns"), ("pod", "ns"), ("node", "")])
def test_a_bound_token_dies_with_the_object(world: World, kind: str, namespace: str) -> None:
    resource = f"{kind}s"
    token = world.bound(**{kind: Reference("o", "uid-o")})
    assert world.error(token) == "service account token has been invalidated"
    world.cluster.put(resource, namespace, "o", "uid-o")
    assert world.authenticator.authenticate_token(token)
    stamp = START.strftime("%Y-%m-%dT%H:%M:%SZ")
    world.cluster.put(resource, namespace, "o", "uid-o", deletionTimestamp=stamp)
    assert world.authenticator.authenticate_token(token)
    world.now += 61
    assert world.error(token) == "service account token has been invalidated"
    world.cluster.put(resource, namespace, "o", "new")
    assert world.error(token) == f"{kind} UID (new) does not match service account {kind} ref claim (uid-o)"


def test_a_pods_node_is_for_information(world: World) -> None:
    world.cluster.put("pods", "ns", "p", "uid-p")
    token = world.bound(pod=Reference("p", "uid-p"), node=Reference("gone"))
    extra = world.authenticator.authenticate_token(token).user.extra
    assert extra["authentication.kubernetes.io/node-name"] == ("gone",)
    assert "authentication.kubernetes.io/node-uid" not in extra


def test_a_token_is_for_its_audiences(world: World) -> None:
    token = world.token(aud=["a", "b"])
    found = world.authenticator.authenticate_token(token, ["b", "a", "z"])
    assert found.audiences == ("b", "a")
    assert world.error(token) == (
        f'token audiences ["a" "b"] is invalid for the target audiences ["{ISSUER}"]'
    )
    assert world.error(token, "x") == 'token audiences ["a" "b"] is invalid for the target audiences ["x"]'


def test_a_single_audience_may_be_a_string_and_none_means_the_server(world: World) -> None:
    assert world.authenticator.authenticate_token(world.token(aud="a"), ["a"]).audiences == ("a",)
    assert world.authenticator.authenticate_token(world.token(aud=[])).audiences == (ISSUER,)


def test_tokens_of_other_issuers_and_keys_are_not_accepted(world: World) -> None:
    stranger = ServiceAccountTokens(SigningKey.generate())
    assert world.error(world.token(stranger)) == "invalid signature, no keys found"
    elsewhere = ServiceAccountTokens(SigningKey.generate(), issuer="https://else.where")
    assert world.error(world.token(elsewhere)) == "invalid bearer token"
    assert world.error(world.token()[:-6] + "AAAAAA") == "invalid signature"
    assert world.error("a.b.c") == "invalid bearer token"


def test_an_earlier_key_still_counts(world: World) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    token = world.token(ServiceAccountTokens(old))
    rotated = ServiceAccountTokens(new, earlier_keys=[old.public])
    authenticator = Authenticator(world.cluster, service_accounts=rotated, clock=lambda: NOW)
    assert authenticator.authenticate_token(token)
    assert authenticator.authenticate_token(world.token(rotated))


def test_a_token_without_key_id_is_tried_with_all_keys(world: World) -> None:
    old, new = SigningKey.generate(), SigningKey.generate()
    rotated = ServiceAccountTokens(new, earlier_keys=[old.public])
    authenticator = Authenticator(world.cluster, service_accounts=rotated, clock=lambda: NOW)
    unnamed = SigningKey.from_pem(new.to_pem())
    unnamed._header = "eyJhbGciOiJFUzI1NiJ9"  # {"alg":"ES256"}
    assert authenticator.authenticate_token(world.token(ServiceAccountTokens(unnamed)))
    stranger = SigningKey.generate()
    stranger._header = unnamed._header
    with pytest.raises(TokenError, match="invalid signature"):
        authenticator.authenticate_token(world.token(ServiceAccountTokens(stranger)))


def test_only_so_many_tokens_are_remembered(world: World) -> None:
    tokens = [world.token(jti=f"j{number}") for number in range(5)]
    for token in (*tokens, *tokens):
        assert world.authenticator.authenticate_token(token)
        assert world.authenticator.statistics()["verified_tokens"] <= 3


def test_refused_tokens_are_not_remembered(world: World) -> None:
    world.error(world.token(aud=["x"]))
    world.error(world.token(exp=1))
    world.error("nonsense")
    assert world.authenticator.statistics()["verified_tokens"] == 0


def test_without_an_issuer_only_static_tokens_count(world: World) -> None:
    authenticator = Authenticator(world.cluster, static_tokens={"t": UserInfo("bob")})
    assert authenticator.authenticate_token("t").audiences == ()
    with pytest.raises(TokenError, match="invalid bearer token"):
        authenticator.authenticate_token(world.token())


def der(user: UserInfo) -> bytes:
    return Authority.create(START).issue_client(user, START).certificate.public_bytes(Encoding.DER)


def test_a_certificate_is_its_subject(world: World) -> None:
    certificate = der(UserInfo("alice", "42", ("g1", "g2")))
    user = world.authenticator.authenticate(certificate, None)
    assert (user.name, user.uid) == ("alice", "42")
    assert user.groups == ("g1", "g2", "system:authenticated")
    (credential,) = user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")
    assert len(credential) == len("X509SHA256=") + 64


def test_a_certificate_goes_before_a_token(world: World) -> None:
    certificate = der(UserInfo("alice"))
    assert world.authenticator.authenticate(certificate, "Bearer s3cret").name == "alice"
    assert world.authenticator.authenticate(certificate, "Bearer wrong").name == "alice"


def test_a_certificate_is_read_once(world: World) -> None:
    certificate = der(UserInfo("alice"))
    first = world.authenticator.authenticate(certificate, None)
    assert world.authenticator.authenticate(bytes(bytearray(certificate)), None) is first
    assert world.authenticator.statistics()["certificates"] == 1


def test_a_certificate_does_not_outlive_its_dates(world: World) -> None:
    certificate = der(UserInfo("alice"))
    assert world.authenticator.authenticate(certificate, None)
    world.now = NOW + 366 * 24 * 3600
    with pytest.raises(StatusError):
        world.authenticator.authenticate(certificate, None)
    assert world.authenticator.authenticate(certificate, "Bearer s3cret").name == "bob"


def test_a_certificate_without_a_name_is_nobody(world: World) -> None:
    server = Authority.create(START).issue_server(["localhost"], START)
    nameless = server.certificate.public_bytes(Encoding.DER).replace(b"kube-apiserver", b"\0" * 14)
    for broken in (b"nonsense", nameless[:40]):
        with pytest.raises(StatusError):
            world.authenticator.authenticate(broken, None)


def test_no_secret_is_shown_or_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = world.token()
    world.authenticator.authenticate(None, f"Bearer {token}")
    world.error(token[:-6] + "AAAAAA")
    shown = repr(world.authenticator) + repr(world.tokens) + repr(vars(world.authenticator)) + caplog.text
    assert "s3cret" not in shown
    assert token.rsplit(".", 1)[1] not in shown
