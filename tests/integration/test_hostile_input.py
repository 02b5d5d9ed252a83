"""Bad input gets a Status and changes nothing: a short, seeded run of ``tools/fuzz.py``, and each attack on
the connection once. ``python tools/fuzz.py --seconds 600 --seed 7`` is the long form."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from fuzz import Fuzzer
from hostile import media, mutation, wire
from hostile.client import PATIENCE, Client, Request
from parity import server

SEED = 1
#: how many numbered requests the run sends; every generator has its turn
REQUESTS = 600
MIB = 1 << 20


@pytest.fixture(scope="module")
def running() -> Iterator[server.Embedded]:
    """A server of its own: whatever happens to it must not spoil other tests."""
    with server.embedded() as embedded:
        yield embedded


@pytest.fixture
def client(running: server.Embedded) -> Iterator[Client]:
    client = Client(running.kubeconfig)
    yield client
    client.close()


def test_fuzz_run_finds_nothing(running: server.Embedded) -> None:
    with Fuzzer(running.kubeconfig, seed=SEED, pid=running.pid, growth=300 * MIB) as fuzzer:
        report = fuzzer.run(seconds=120, count=REQUESTS)
    assert report.requests == REQUESTS
    assert not report.findings, f"\n{report}"


def test_requests_depend_on_the_seed_alone(running: server.Embedded) -> None:
    first, second = (Fuzzer(running.kubeconfig, seed=SEED) for _ in range(2))
    assert [first.request(number) for number in range(50)] == [second.request(number) for number in range(50)]


@pytest.mark.parametrize("raw", wire.everything(random.Random(SEED)), ids=lambda raw: raw.name)
def test_broken_connection_hurts_nobody_else(running: server.Embedded, raw: wire.Raw) -> None:
    with Fuzzer(running.kubeconfig, seed=SEED) as fuzzer:
        fuzzer.attack(raw, 0)
        assert not fuzzer.report.findings


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", b"{"),
        ("application/json", b""),
        ("application/json", b'{"metadata":{"name":"x"},"data":{"k":1}}'),
        ("application/json", b'{"metadata":{"name":1}}'),
        ("application/yaml", b"a: [b"),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00\xff"),
        ("application/json", b"[" * 10_001 + b"]" * 10_001),
        ("application/json", b'{"data":' + b'{"a":' * 10_001 + b"1" + b"}" * 10_001 + b"}"),
    ],
    ids=[
        "cut-off",
        "empty",
        "wrong-type",
        "wrong-name-type",
        "bad-yaml",
        "bad-protobuf",
        "deep-list",
        "deep-map",
    ],
)
def test_unreadable_body_is_a_bad_request(client: Client, content_type: str, body: bytes) -> None:
    headers = media.headers(content_type)
    response = client.send(Request("test", "POST", "/api/v1/namespaces/default/configmaps", headers, body))
    assert response.status == 400
    assert response.json()["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("method", "path", "content_type", "text"),
    [
        ("POST", "configmaps", "application/yaml", b"%s"),
        ("POST", "configmaps", "application/json", b'{"data":%s}'),
        (
            "PATCH",
            "configmaps/a?fieldManager=f",
            "application/apply-patch+yaml",
            b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":%s}',
        ),
    ],
    ids=["yaml", "json", "apply"],
)
def test_nesting_beyond_the_limit_is_refused_at_once(
    method: str, path: str, content_type: str, text: bytes
) -> None:
    # A server of its own: what overflows the stack takes the whole process with it.
    with server.embedded() as own:
        client = Client(own.kubeconfig)
        for shape, depth in itertools.product(("array", "object", "both"), (10_001, 100_000)):
            body = text % mutation.nested(depth, shape)
            where = f"/api/v1/namespaces/default/{path}"
            response = client.send(Request("test", method, where, media.headers(content_type), body))
            assert (response.status, response.seconds < PATIENCE) == (400, True), (shape, depth)
        client.close()


def test_body_over_the_limit_is_too_large(client: Client) -> None:
    body = b'{"data":{"k":"' + b"x" * media.LIMIT + b'"}}'
    response = client.send(Request("test", "POST", "/api/v1/namespaces/default/configmaps", media.JSON, body))
    assert response.status == 413
    assert response.json()["message"] == "Request entity too large: limit is 3145728"


def test_yaml_aliases_do_not_expand_without_bound(client: Client) -> None:
    corpus_free = "\n".join(["a0: &a0 [x]"] + [f"a{n}: &a{n} [*a{n - 1},*a{n - 1}]" for n in range(1, 40)])
    response = client.send(
        Request(
            "test",
            "POST",
            "/api/v1/namespaces/default/configmaps",
            media.headers("application/yaml"),
            corpus_free.encode(),
        )
    )
    assert response.status in (400, 413)
    assert response.seconds < PATIENCE
