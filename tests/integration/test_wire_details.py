"""Single things that clients noticed, over a socket: answers as kube-apiserver has them, files in bounds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from growth import Scale
from hostile.client import Client, Request
from kube.server import is_built
from parity import server

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
DIGITS = b"9" * 5_000
MIB = 1 << 20


@pytest.fixture(
    params=[
        "embedded_server",
        pytest.param(
            "real_server",
            marks=[
                pytest.mark.kube,
                pytest.mark.skipif(not is_built(), reason="the real kube-apiserver is not built (make kube)"),
            ],
        ),
    ]
)
def either(request: pytest.FixtureRequest) -> Iterator[Client]:
    """The embedded server, and the real one that it is to behave as."""
    client = Client(request.getfixturevalue(request.param))
    yield client
    client.close()


def send(client: Client, method: str, path: str, media: str, body: bytes) -> tuple[int, str]:
    answer = client.send(Request("test", method, path, (("Content-Type", media),), body))
    return answer.status, answer.message


@pytest.mark.parametrize(
    ("media", "patch"),
    [
        ("application/merge-patch+json", b'{"kind":5}'),
        ("application/strategic-merge-patch+json", b'{"kind":5}'),
        ("application/json-patch+json", b'[{"op":"replace","path":"/kind","value":5}]'),
        ("application/merge-patch+json", b'{"apiVersion":[]}'),
    ],
)
def test_a_patch_that_makes_the_kind_a_number_is_unprocessable(
    either: Client, media: str, patch: bytes
) -> None:
    either.call("POST", CONFIG_MAPS, {"metadata": {"name": "patched"}})
    status, message = send(either, "PATCH", f"{CONFIG_MAPS}/patched", media, patch)
    assert status == 422
    assert message.startswith(' "" is invalid: patch: Invalid value: ')


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CONFIG_MAPS, b'{"metadata":{"name":"long-number","generation":%s}}'),
        (DEPLOYMENTS, b'{"metadata":{"name":"long-number"},"spec":{"replicas":%s}}'),
    ],
)
def test_a_number_of_five_thousand_digits_is_a_bad_request(
    either: Client, media: str, path: str, body: bytes
) -> None:
    status, message = send(either, "POST", path, media, body % DIGITS)
    assert status == 400
    assert "json: cannot unmarshal" in message


def test_an_object_as_yaml_costs_a_few_times_its_json() -> None:
    with server.embedded() as running:
        scale = Scale(running.kubeconfig, running.pid)
        spec = {"containers": [{"name": f"c{n}", "image": "i", "env": [{"name": "A"}]} for n in range(5)]}
        scale.client.call(
            "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}
        )
        assert scale.client.call("POST", PODS, {"metadata": {"name": "p"}, "spec": spec}).status == 201

        def seconds(accept: str) -> float:
            """The least of several rounds: what else happens meanwhile is not the answer's."""
            request = Request("test", "GET", f"{PODS}/p", (("Accept", accept),))
            return min(sum(scale.cost(request).seconds for _ in range(40)) for _ in range(5))

        assert seconds("application/yaml") <= 5 * seconds("application/json")
        scale.client.close()


def test_the_database_gives_space_back_and_its_log_stays_small(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with server.embedded(["--data-dir", str(data)]) as running:
        client = Client(running.kubeconfig)
        for number in range(400):
            body = {"metadata": {"name": "large"}, "data": {"text": f"{number}" + "x" * 200_000}}
            method, path = ("POST", CONFIG_MAPS) if not number else ("PUT", f"{CONFIG_MAPS}/large")
            assert client.call(method, path, body).status < 300
        assert (data / "state.db-wal").stat().st_size < 16 * MIB, "80 MB were written"
        assert json.loads(client.call("GET", f"{CONFIG_MAPS}/large").body)["data"]["text"].startswith("399x")
        client.close()
    database = sqlite3.connect(data / "state.db")
    assert database.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    database.close()
