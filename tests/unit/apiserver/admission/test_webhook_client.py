"""Calling webhooks over TLS: reuse of connections and the texts of failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from cryptography import x509

from quarterdeck.apiserver.webhookclient import (
    CallFault,
    ConfigurationFault,
    ServiceResolver,
    WebhookClient,
    endpoint,
)
from quarterdeck.testing import eventually

from .hookendpoint import LOOPBACK, Answer, HookEndpoint, hook_endpoint, http

NO_OBJECT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct "
    '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _fail(config: dict[str, Any], *, timeout: int = 5, resolve: ServiceResolver | None = None) -> str:
    async def run() -> str:
        client = WebhookClient(resolve)
        try:
            with pytest.raises((CallFault, ConfigurationFault)) as raised:
                await client.post(endpoint(config), b"{}", timeout=timeout)
        finally:
            client.close()
        return str(raised.value)

    return asyncio.run(run())


def _fail_at(answer: Answer, *, timeout: int = 5, host: str = "127.0.0.1", **options: Any) -> str:
    """The failure text for an endpoint, with its address replaced."""

    async def run() -> str:
        async with hook_endpoint(answer, **options) as server:
            client = WebhookClient()
            config = {"url": f"https://{host}:{server.port}/a", "caBundle": server.ca_bundle}
            try:
                with pytest.raises(CallFault) as raised:
                    await client.post(endpoint(config), b"{}", timeout=timeout)
            finally:
                client.close()
            return str(raised.value).replace(f"{host}:{server.port}", "HOST")

    return asyncio.run(run())


def test_answers_are_decoded_and_the_connection_is_kept() -> None:
    async def run() -> HookEndpoint:
        async with hook_endpoint(lambda path, body: http({"echo": path})) as server:
            client = WebhookClient()
            target = endpoint(server.config("/a"))
            for _ in range(3):
                assert await client.post(target, b"{}", timeout=7) == {"echo": "/a?timeout=7s"}
            client.close()
            return server

    server = asyncio.run(run())
    assert server.connections == 1
    assert [path for path, _ in server.requests] == ["/a?timeout=7s"] * 3


def test_concurrent_calls_use_connections_of_their_own() -> None:
    async def run() -> int:
        barrier = asyncio.Barrier(3)

        async def answer(path: str, body: bytes) -> bytes:
            await barrier.wait()
            return http({})

        async with hook_endpoint(answer) as server, asyncio.timeout(5):
            client = WebhookClient()
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(client.post(endpoint(server.config()), b"{}", timeout=5))
            client.close()
            return server.connections

    assert asyncio.run(run()) == 3


def test_a_connection_closed_while_idle_is_replaced() -> None:
    async def run() -> int:
        raw = http({"a": 1}).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
        async with hook_endpoint(lambda path, body: raw) as server:
            client = WebhookClient()
            for _ in range(2):
                assert await client.post(endpoint(server.config()), b"{}", timeout=5) == {"a": 1}
            client.close()
            return server.connections

    assert asyncio.run(run()) == 2


def test_yaml_answers_are_understood() -> None:
    async def run() -> Any:
        async with hook_endpoint(lambda path, body: http(b"a: 1\n", media="text/yaml")) as server:
            client = WebhookClient()
            try:
                return await client.post(endpoint(server.config()), b"{}", timeout=5)
            finally:
                client.close()

    assert asyncio.run(run()) == {"a": 1}


def test_refused_connection() -> None:
    text = _fail({"url": "https://127.0.0.1:1/x"})
    assert (
        text == 'Post "https://127.0.0.1:1/x?timeout=5s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


def test_unknown_authority() -> None:
    async def run() -> str:
        async with hook_endpoint(lambda path, body: http({})) as server:
            client = WebhookClient()
            with pytest.raises(CallFault) as raised:
                await client.post(endpoint({"url": server.url}), b"{}", timeout=5)
            client.close()
            return str(raised.value).replace(server.url, "URL")

    assert asyncio.run(run()) == (
        'Post "URL/?timeout=5s": tls: failed to verify certificate: '
        "x509: certificate signed by unknown authority"
    )


def test_unreadable_authority() -> None:
    text = _fail({"url": "https://127.0.0.1:1/x", "caBundle": "anVuaw=="})
    assert text == "unable to load root certificates: unable to parse bytes as PEM block"


@pytest.mark.parametrize(
    ("names", "host", "text"),
    [
        (
            [x509.DNSName("localhost")],
            "127.0.0.1",
            "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs",
        ),
        ([LOOPBACK], "localhost", "certificate is not valid for any names, but wanted to match localhost"),
        (
            [x509.DNSName("a.b"), x509.DNSName("c.d")],
            "localhost",
            "certificate is valid for a.b, c.d, not localhost",
        ),
        ([], "127.0.0.1", "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"),
    ],
)
def test_wrong_names_in_the_certificate(names: list[x509.GeneralName], host: str, text: str) -> None:
    failure = _fail_at(lambda path, body: http({}), names=names, host=host)
    assert failure == f'Post "https://HOST/a?timeout=5s": tls: failed to verify certificate: x509: {text}'


def test_a_wrong_name_is_told_before_an_unknown_authority() -> None:
    """In the order of Go's verifier, though OpenSSL has found the other reason first."""

    async def run() -> str:
        async with hook_endpoint(lambda path, body: http({}), names=[x509.DNSName("a.b")]) as server:
            client = WebhookClient()
            with pytest.raises(CallFault) as raised:
                await client.post(endpoint({"url": server.url}), b"{}", timeout=5)
            client.close()
            return str(raised.value)

    assert asyncio.run(run()).endswith("127.0.0.1 because it doesn't contain any IP SANs")


@pytest.mark.parametrize("leaves", ["forgotten", "idle for long"])
def test_connections_that_nobody_will_use_are_closed(leaves: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with hook_endpoint(lambda path, body: http({})) as server:
            client, target = WebhookClient(), endpoint(server.config())
            if leaves != "forgotten":
                monkeypatch.setattr("quarterdeck.apiserver.webhookclient._IDLE_SECONDS", 0.05)
            await client.post(target, b"{}", timeout=5)
            [(connection, _)] = client._idle[target.pool_key]
            if leaves == "forgotten":
                client.forget(target)

            async def is_closed() -> bool:
                closed: bool = connection.closed
                return closed

            await eventually(is_closed)
            assert not client._idle
            client.close()

    asyncio.run(run())


def test_expired_certificate() -> None:
    text = _fail_at(lambda path, body: http({}), is_expired=True)
    assert "x509: certificate has expired or is not yet valid: current time 2" in text
    assert " is after 2" in text


def test_closed_connection() -> None:
    assert _fail_at(lambda path, body: None) == 'Post "https://HOST/a?timeout=5s": EOF'


def test_slow_answer() -> None:
    async def never(path: str, body: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    assert _fail_at(never, timeout=1) == 'Post "https://HOST/a?timeout=1s": context deadline exceeded'


def test_slow_body() -> None:
    text = _fail_at(lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", timeout=1)
    assert text == (
        "unexpected error when reading response body. Please retry. Original error: context deadline exceeded"
    )


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            http(b"boom", status=500, media="text/plain"),
            'an error on the server ("boom") has prevented the request from succeeding',
        ),
        (
            http(b"boom", status=500),
            'an error on the server ("unknown") has prevented the request from succeeding',
        ),
        (http(b"boom", status=404), "the server could not find the requested resource"),
        (http(b"boom", status=403, media="text/plain"), "boom"),
        (
            http(b"", status=301),
            "the server responded with the status code 301 but did not return more information",
        ),
        (http({"kind": "Status", "message": "mine"}, status=500), "mine"),
        (http(b""), "0-length response with status code: 200 and content type: application/json"),
        (
            http(b"boom"),
            NO_OBJECT,
        ),
    ],
)
def test_answers_that_are_no_review(raw: bytes, text: str) -> None:
    assert _fail_at(lambda path, body: raw) == text


def test_services_are_reached_through_the_resolver_under_their_own_name() -> None:
    async def run() -> None:
        name = x509.DNSName("hook.team.svc")
        async with hook_endpoint(lambda path, body: http({"path": path}), names=[name]) as server:
            asked = []

            def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
                asked.append((namespace, name, port))
                return "127.0.0.1", server.port

            client = WebhookClient(resolve)
            service = {"namespace": "team", "name": "hook", "path": "mutate"}
            target = endpoint({"service": service, "caBundle": server.ca_bundle})
            assert target.url(3) == "https://hook.team.svc:443/mutate?timeout=3s"
            assert await client.post(target, b"{}", timeout=3) == {"path": "/mutate?timeout=3s"}
            assert asked == [("team", "hook", 443)]
            client.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("//validate-v1-pod", "/validate-v1-pod"),
        ("/a//b/../c/./d/", "/a/c/d"),
        ("", "/"),
        ("/", "/"),
        ("/a%20b", "/a%20b"),
    ],
)
def test_paths_are_called_cleaned_as_gos_client_does(given: str, called: str) -> None:
    """envtest registers `https://host//path`; Go's mux would answer a redirect to that."""

    async def run() -> Any:
        async with hook_endpoint(lambda path, body: http({"path": path})) as server:
            client = WebhookClient()
            config = {"url": f"https://127.0.0.1:{server.port}{given}", "caBundle": server.ca_bundle}
            try:
                return await client.post(endpoint(config), b"{}", timeout=5)
            finally:
                client.close()

    assert asyncio.run(run()) == {"path": f"{called}?timeout=5s"}
    service = {"namespace": "team", "name": "hook", "path": given.replace("%20", " ")}
    assert endpoint({"service": service}).path == called


def test_the_body_of_an_answer_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarterdeck.apiserver.webhookclient._MAX_ANSWER", 1000)
    assert _fail_at(lambda path, body: http({"a": "x" * 1000})) == (
        "unexpected error when reading response body. Please retry. Original error: the body is too large"
    )


def test_what_is_no_http_is_told_as_gos_client_tells_it() -> None:
    text = _fail_at(lambda path, body: b"SSH-2.0-OpenSSH\r\n\r\n")
    assert text.startswith(
        'Post "https://HOST/a?timeout=5s": net/http: HTTP/1.x transport connection broken: '
    )


def test_services_without_endpoint_or_off_the_machine_are_not_called() -> None:
    config = {"service": {"namespace": "team", "name": "hook"}}
    prefix = 'Post "https://hook.team.svc:443/?timeout=5s": '
    assert _fail(config) == f'{prefix}no endpoints available for service "hook"'
    text = _fail(config, resolve=lambda namespace, name, port: ("10.1.2.3", 443))
    assert text.startswith(f'{prefix}service "team/hook" has no endpoint on a loopback address')
