"""Documents that no client library writes: types that are no text, numbers nobody can hold."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.testing import eventually

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
NO_TEXT: list[Any] = [5, 0, True, False, [], {}]
DIGITS = "1" * 5000

Call = Callable[..., Awaitable[tuple[int, Any]]]


def run(scenario: Callable[[Call], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with ApiServer(ServerOptions(port=0)) as server:
            local = server.local()

            async def call(
                method: str, path: str, body: bytes = b"", media: str = "application/json", **query: str
            ) -> tuple[int, Any]:
                headers = [("Content-Type", media)]
                code, _, answer = await local.exchange(method, path, urlencode(query), headers, body)
                return code, json.loads(answer)

            await call("POST", CONFIGMAPS, b'{"metadata":{"name":"a"}}')
            await scenario(call)

    asyncio.run(serve())


@pytest.mark.parametrize("key", ["kind", "apiVersion"])
def test_a_patch_that_leaves_a_type_that_is_no_text_is_invalid(key: str) -> None:
    async def scenario(call: Call) -> None:
        for value in NO_TEXT:
            change = json.dumps({key: value}).encode()
            operations = json.dumps([{"op": "add", "path": f"/{key}", "value": value}]).encode()
            for media, body in ((MERGE, change), (JSON_PATCH, operations)):
                code, answer = await call("PATCH", f"{CONFIGMAPS}/a", body, media)
                assert (code, answer["reason"]) == (422, "Invalid"), (media, value)
                assert "couldn't get version/kind; json parse error" in answer["message"]
            code, answer = await call("PATCH", f"{CONFIGMAPS}/a", change, STRATEGIC)
            assert (code, answer["reason"]) == (422, "Invalid"), value

    run(scenario)


def test_a_strategic_patch_says_what_does_not_go_into_a_go_value() -> None:
    async def scenario(call: Call) -> None:
        for value, why in (("5", "cannot convert int64 to string"), ("[]", "unrecognized type: string")):
            _, answer = await call("PATCH", f"{CONFIGMAPS}/a", b'{"kind":%s}' % value.encode(), STRATEGIC)
            assert answer["message"].endswith(f": {why}"), answer
        _, answer = await call("PATCH", f"{CONFIGMAPS}/a", b'{"data":[1.5]}', STRATEGIC)
        assert answer["message"].endswith(": cannot restore map from slice"), answer

    run(scenario)


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_of_thousands_of_digits_is_a_bad_request(sign: str) -> None:
    async def scenario(call: Call) -> None:
        number = (sign + DIGITS).encode()
        body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","generation":%s}}' % number
        for method, path, media in (
            ("POST", CONFIGMAPS, "application/json"),
            ("POST", CONFIGMAPS, "application/yaml"),
            ("PUT", f"{CONFIGMAPS}/a", "application/json"),
            ("PATCH", f"{CONFIGMAPS}/a", MERGE),
            ("PATCH", f"{CONFIGMAPS}/a", STRATEGIC),
        ):
            code, answer = await call(method, path, body, media)
            assert (code, answer["reason"]) == (400, "BadRequest"), (method, media, answer)
        operations = b'[{"op":"add","path":"/data","value":%s}]' % number
        code, _ = await call("PATCH", f"{CONFIGMAPS}/a", operations, JSON_PATCH)
        assert code == 400
        code, _ = await call("DELETE", f"{CONFIGMAPS}/a", b'{"gracePeriodSeconds":%s}' % number)
        assert code == 400

    run(scenario)


async def _is_served(call: Call, path: str) -> bool:
    try:
        code, _ = await call("GET", path)
    except ValueError:  # a page that is not there is no JSON
        return False
    return code == 200


def test_a_number_that_no_double_holds_may_stand_where_nobody_reads_it() -> None:
    """As kube-apiserver 1.36.3 answers; objects of custom kinds are read as a whole."""
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }

    async def scenario(call: Call) -> None:
        for place, number in enumerate((DIGITS, f"{DIGITS}.5", "1e999")):
            code, answer = await call(
                "POST", CONFIGMAPS, f'{{"metadata":{{"name":"n{place}"}},"other":{number}}}'.encode()
            )
            assert (code, "other" in answer) == (201, False), answer
        body = f'{{"metadata":{{"name":"n"}},"other":{DIGITS}}}'.encode()
        code, answer = await call("POST", CONFIGMAPS, body, fieldValidation="Strict")
        assert (code, answer["message"].rpartition(": ")[2]) == (400, 'unknown field "other"')
        body = f'{{"metadata":{{"name":"n"}},"data":{{"a":{DIGITS}}}}}'.encode()
        code, answer = await call("POST", CONFIGMAPS, body)
        problem = "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        assert (code, answer["message"].partition(": ")[2]) == (400, problem)
        code, answer = await call("POST", CRDS, json.dumps(definition).encode())
        assert code == 201, answer
        assert await eventually(lambda: _is_served(call, widgets), timeout=30)
        for number in (DIGITS, "1" * 400):
            body = (
                f'{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w"}},"x":{number}}}'
            ).encode()
            code, answer = await call("POST", widgets, body)
            problem = f"json: cannot unmarshal number {number} into Go value of type float64"
            message = f'Widget in version "v1" cannot be handled as a Widget: {problem}'
            assert (code, answer["message"]) == (400, message)

    run(scenario)


def test_a_number_of_thousands_of_digits_in_a_query_is_a_bad_request() -> None:
    async def scenario(call: Call) -> None:
        for name in ("limit", "timeoutSeconds", "resourceVersion"):
            code, answer = await call("GET", CONFIGMAPS, **{name: DIGITS})
            assert code == 400, (name, answer)
            assert "value out of range" in answer["message"]

    run(scenario)


def test_in_yaml_a_number_that_no_float_holds_is_text() -> None:
    async def scenario(call: Call) -> None:
        body = f"metadata: {{name: b}}\ndata: {{a: {DIGITS}}}\n".encode()
        code, answer = await call("POST", CONFIGMAPS, body, "application/yaml")
        assert (code, answer["data"]["a"]) == (201, DIGITS)

    run(scenario)
