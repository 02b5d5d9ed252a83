"""Answers recorded on kube-apiserver 1.36.3: warnings, refusals and bodies of odd requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from quarterdeck.apiserver import ApiServer, ServerOptions
from quarterdeck.apiserver.document.yamltext import to_yaml
from quarterdeck.apiserver.inprocess import LocalServer

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
THINGS = "/apis/example.com/v1/namespaces/default/things"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: warned of: the second value hides the first
POD_SPEC = {
    "containers": [
        {"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}
    ]
}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD_SPEC}
SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
JOB = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}


class Api:
    def __init__(self, server: LocalServer) -> None:
        self._server = server
        self.warnings: list[str] = []

    async def call(
        self, method: str, path: str, body: Any = None, media: str = "application/json", **query: str
    ) -> tuple[int, Any]:
        raw = b"" if body is None else json.dumps(body).encode()
        headers = [("Content-Type", media)] if raw else []
        code, found, answer = await self._server.exchange(method, path, urlencode(query), headers, raw)
        self.warnings = [value for name, value in found if name.lower() == "warning"]
        try:
            return code, json.loads(answer)
        except ValueError:
            return code, answer.decode()  # a page that is not there


def run(scenario: Callable[[Api], Awaitable[None]]) -> None:
    async def serve() -> None:
        async with ApiServer(ServerOptions(port=0)) as server:
            await scenario(Api(server.local()))

    asyncio.run(serve())


@pytest.mark.parametrize(
    ("path", "body", "change", "is_warned_of_change"),
    [
        (DEPLOYMENTS, {"spec": SELECTED}, {"spec": {"replicas": 2}}, True),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            {"spec": SELECTED},
            {"spec": {"replicas": 2}},
            True,
        ),
        ("/apis/apps/v1/namespaces/default/replicasets", {"spec": SELECTED}, {"spec": {"replicas": 2}}, True),
        # a DaemonSet counts the changes of its template apart
        (
            "/apis/apps/v1/namespaces/default/daemonsets",
            {"spec": SELECTED},
            {"spec": {"minReadySeconds": 2}},
            False,
        ),
        ("/apis/batch/v1/namespaces/default/jobs", {"spec": JOB}, {"spec": {"parallelism": 2}}, True),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
            {"spec": {"suspend": True}},
            True,
        ),
        (
            "/api/v1/namespaces/default/podtemplates",
            {"template": TEMPLATE},
            {"template": {"metadata": {"labels": {"q": "1"}}}},
            True,
        ),
    ],
)
def test_a_template_is_warned_of_when_the_wanted_state_changes(
    path: str, body: Json, change: Json, is_warned_of_change: bool
) -> None:
    async def scenario(api: Api) -> None:
        assert (await api.call("POST", path, {"metadata": {"name": "x"}, **body}))[0] == 201
        assert [text for text in api.warnings if "hides previous definition" in text]
        await api.call("PATCH", f"{path}/x", {"metadata": {"labels": {"z": "1"}}}, MERGE)
        assert api.warnings == []
        assert (await api.call("PATCH", f"{path}/x", change, MERGE))[0] == 200
        assert bool(api.warnings) is is_warned_of_change
        await api.call("PATCH", f"{path}/x/status", {"status": {"conditions": []}}, MERGE)
        assert not [text for text in api.warnings if "hides" in text]

    run(scenario)


def test_warnings_of_claims_and_ingresses() -> None:
    async def scenario(api: Api) -> None:
        claims = "/api/v1/namespaces/default/persistentvolumeclaims"
        annotations = {"volume.beta.kubernetes.io/storage-class": "x"}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5"}}}
        await api.call("POST", claims, {"metadata": {"name": "c", "annotations": annotations}, "spec": spec})
        old, fraction = api.warnings
        assert old == (
            '299 - "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; '
            'use \\"storageClassName\\" attribute instead"'
        )
        assert fraction == (
            '299 - "spec.resources.requests[storage]: fractional byte value \\"1500m\\" is invalid, '
            'must be an integer"'
        )
        ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
        annotations = {"kubernetes.io/ingress.class": "x"}
        backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
        await api.call(
            "POST", ingresses, {"metadata": {"name": "i", "annotations": annotations}, "spec": backend}
        )
        [old] = api.warnings
        assert old == (
            '299 - "annotation \\"kubernetes.io/ingress.class\\" is deprecated, '
            "please use 'spec.ingressClassName' instead\""
        )

    run(scenario)


def test_an_applied_object_of_no_go_type_is_an_internal_error() -> None:
    async def scenario(api: Api) -> None:
        config: Json = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": SELECTED,
        }
        head = (
            "failed to convert new object (/d; apps/v1, Kind=Deployment) to proper version: "
            "unable to convert unstructured object to apps/v1, Kind=Deployment: "
        )
        template = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        config["spec"] = {**SELECTED, "template": template, "replicas": 1.5}
        code, answer = await api.call("PATCH", f"{DEPLOYMENTS}/d", config, APPLY, fieldManager="m")
        assert (code, answer["message"]) == (500, f"{head}cannot convert float64 to int32")
        assert "reason" not in answer
        container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "abc"}}}
        config["spec"] = {**SELECTED, "template": {**TEMPLATE, "spec": {"containers": [container]}}}
        code, answer = await api.call("PATCH", f"{DEPLOYMENTS}/d", config, APPLY, fieldManager="m")
        assert code == 500
        assert answer["message"].startswith(f"{head}quantities must match the regular expression")
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "!!"}}
        path = "/api/v1/namespaces/default/secrets/s"
        code, answer = await api.call("PATCH", path, secret, APPLY, fieldManager="m")
        assert code == 500
        assert answer["message"].endswith(
            "Kind=Secret: error decoding from json: illegal base64 data at input byte 0"
        )

    run(scenario)


def test_a_strategic_patch_cannot_change_the_type() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": SELECTED})
        change = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}}
        code, answer = await api.call("PATCH", f"{DEPLOYMENTS}/d", change, STRATEGIC)
        assert (code, answer["kind"], answer["apiVersion"]) == (200, "Deployment", "apps/v1")
        assert answer["metadata"]["labels"] == {"a": "b"}
        code, _ = await api.call("PATCH", f"{DEPLOYMENTS}/d", change, MERGE)
        assert code == 422

    run(scenario)


@pytest.mark.parametrize(("version", "code"), [("0", 201), ("abc", 201), ("-1", 201), ("1", 500)])
def test_only_a_version_keeps_an_object_from_being_created(version: str, code: int) -> None:
    async def scenario(api: Api) -> None:
        body = {"metadata": {"name": "a", "resourceVersion": version}}
        found, answer = await api.call("POST", CONFIGMAPS, body)
        assert found == code
        if code == 500:
            assert answer["message"] == "resourceVersion should not be set on objects to be created"

    run(scenario)


def test_a_collection_is_deleted_in_chunks() -> None:
    async def scenario(api: Api) -> None:
        for name in "abc":
            await api.call("POST", CONFIGMAPS, {"metadata": {"name": name}})
        _, listed = await api.call("GET", CONFIGMAPS)
        code, answer = await api.call("DELETE", CONFIGMAPS, limit="2")
        assert code == 200
        assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "b"]
        metadata = answer["metadata"]
        assert metadata["resourceVersion"] == listed["metadata"]["resourceVersion"]
        assert metadata["remainingItemCount"] == 1
        assert metadata["continue"]
        _, listed = await api.call("GET", CONFIGMAPS)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["c"]

    run(scenario)


def test_bad_list_options_are_named_in_the_order_of_the_options() -> None:
    async def scenario(api: Api) -> None:
        _, answer = await api.call("GET", CONFIGMAPS, limit="x", timeoutSeconds="y")
        assert answer["message"] == 'strconv.ParseInt: parsing "y": invalid syntax'
        code, answer = await api.call("GET", CONFIGMAPS, **{"continue": "abc", "resourceVersion": "5"})
        assert code == 400
        assert answer["message"].startswith("invalid continue token: continue key is not valid: ")

    run(scenario)


def test_a_short_watch_of_the_future_still_says_that_it_is() -> None:
    async def scenario(api: Api) -> None:
        query = {
            "watch": "1",
            "timeoutSeconds": "1",
            "resourceVersion": "999999999",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        code, event = await api.call("GET", CONFIGMAPS, **query)
        assert (code, event["type"], event["object"]["code"]) == (200, "ERROR", 504)
        assert event["object"]["message"].startswith(
            "Timeout: Too large resource version: 999999999, current: "
        )

    run(scenario)


def test_true_is_not_one_in_a_field_without_a_type() -> None:
    async def scenario(api: Api) -> None:
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema = {"type": "object", "properties": {"spec": free}}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        version["subresources"] = {"status": {}}
        names = {"plural": "things", "kind": "Thing"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
        await api.call("POST", CRDS, {"metadata": {"name": "things.example.com"}, "spec": spec})
        for _ in range(100):
            if (await api.call("GET", THINGS))[0] == 200:
                break
            await asyncio.sleep(0.01)
        thing = {
            "apiVersion": "example.com/v1",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": {"a": True},
        }
        await api.call("POST", THINGS, thing)
        _, answer = await api.call("PATCH", f"{THINGS}/t", {"spec": {"a": 1}}, MERGE)
        assert (answer["metadata"]["generation"], answer["spec"]) == (2, {"a": 1})
        # the metadata of a status patch is not looked at
        change = {"metadata": {"uid": "other"}, "status": {"b": 1}}
        assert (await api.call("PATCH", f"{THINGS}/t/status", change, MERGE))[0] == 200

    run(scenario)


def test_addresses_of_a_pod() -> None:
    async def scenario(api: Api) -> None:
        await api.call("POST", PODS, {"metadata": {"name": "p"}, "spec": POD_SPEC})

        async def patch(status: Json) -> tuple[int, Any]:
            return await api.call("PATCH", f"{PODS}/p/status", {"status": status}, MERGE)

        _, answer = await patch({"hostIP": "1.2.3.4"})
        assert "hostIPs" not in answer["status"]
        code, answer = await patch({"hostIPs": [{"ip": "5.6.7.8"}]})
        assert code == 422
        assert answer["message"] == (
            'Pod "p" is invalid: status.hostIPs[0].ip: Invalid value: "5.6.7.8": must be equal to `hostIP`'
        )
        _, answer = await patch({"podIP": "1.2.3.4", "podIPs": [{"ip": "5.6.7.8"}]})
        assert answer["status"]["podIPs"] == [{"ip": "1.2.3.4"}]

    run(scenario)


def test_the_range_of_a_node_does_not_change() -> None:
    async def scenario(api: Api) -> None:
        nodes = "/api/v1/nodes"
        await api.call("POST", nodes, {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.1.0.0/24"}})
        code, answer = await api.call("PATCH", f"{nodes}/n", {"spec": {"podCIDR": "10.2.0.0/24"}}, MERGE)
        assert code == 422
        assert answer["message"] == (
            'Node "n" is invalid: spec.podCIDRs: Forbidden: '
            'node updates may not change podCIDR except from "" to valid'
        )

    run(scenario)


@pytest.mark.parametrize(
    ("path", "body", "change", "message"),
    [
        (
            DEPLOYMENTS,
            {"spec": SELECTED},
            {"spec": {"strategy": {"type": "Odd"}}},
            (
                'Unsupported value: {"Type":"Odd","RollingUpdate":'
                '{"MaxUnavailable":"25%","MaxSurge":"25%"}}: supported values: "Recreate", "RollingUpdate"'
            ),
        ),
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            {"spec": SELECTED},
            {"spec": {"updateStrategy": {"type": "Odd"}}},
            (
                'Invalid value: {"Type":"Odd","RollingUpdate":{"Partition":0,"MaxUnavailable":null}}: '
                "must be 'RollingUpdate' or 'OnDelete'"
            ),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            {"spec": JOB},
            {
                "spec": {
                    "podFailurePolicy": {
                        "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
                    }
                }
            },
            (
                'Invalid value: {"Rules":[{"Action":"Ignore","OnExitCodes":{"ContainerName":null,'
                '"Operator":"In","Values":[1]},"OnPodConditions":null}]}: field is immutable'
            ),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            {
                "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
                "reason": "R",
                "note": "M",
                "type": "Normal",
                "action": "A",
                "eventTime": "2024-01-01T00:00:00.000000Z",
                "reportingController": "x.y/z",
                "reportingInstance": "i",
            },
            {"regarding": {"name": "q"}},
            (
                'Invalid value: {"Kind":"Pod","Namespace":"default","Name":"q","UID":"","APIVersion":"",'
                '"ResourceVersion":"","FieldPath":""}: field is immutable'
            ),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
            {"spec": {"accessModes": ["ReadWriteMany"]}},
            (
                "Forbidden: spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims\n"
                '@@ -1,6 +1,6 @@\n {\n  "AccessModes": [\n-  "ReadWriteOnce"\n+  "ReadWriteMany"\n  ],\n'
                '  "Selector": null,\n  "Resources": {\n'
            ),
        ),
    ],
)
def test_structs_in_errors_have_their_go_names(path: str, body: Json, change: Json, message: str) -> None:
    async def scenario(api: Api) -> None:
        assert (await api.call("POST", path, {"metadata": {"name": "x"}, **body}))[0] == 201
        code, answer = await api.call("PATCH", f"{path}/x", change, MERGE)
        assert code == 422
        assert message in [cause["message"] for cause in answer["details"]["causes"]]

    run(scenario)


@pytest.mark.parametrize(
    ("cidr", "why"),
    [
        ("10.0.0.1/8", "must not have bits set beyond the prefix length"),
        ("::ffff:1.2.3.4/120", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.0/33", "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"),
    ],
)
def test_ranges_of_a_network_policy(cidr: str, why: str) -> None:
    async def scenario(api: Api) -> None:
        path = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
        spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]}
        code, answer = await api.call("POST", path, {"metadata": {"name": "p"}, "spec": spec})
        assert code == 422
        assert answer["message"].endswith(f'.ipBlock.cidr: Invalid value: "{cidr}": {why}')

    run(scenario)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n", '"n"'),
        ("Y", '"Y"'),
        ("1e3", '"1e3"'),
        ("0o7", '"0o7"'),
        ("on", '"on"'),
        ("é", "é"),
        ("1e", "1e"),
        ("500m", "500m"),
        ("\U0001f389", '"\\U0001F389"'),
    ],
)
def test_yaml_quotes_what_go_would_read_as_something_else(text: str, line: str) -> None:
    assert to_yaml({"k": text}).decode() == f"k: {line}\n"


def test_yaml_ends_without_a_mark() -> None:
    assert to_yaml({"k": "a\n\n"}) == b"k: |+\n  a\n\n"


def test_a_list_as_yaml_is_the_list_as_json() -> None:
    """Made item by item of stored text, unless a key is too long for that; of a custom kind, and empty."""

    async def scenario(api: Api) -> None:
        async def both(path: str) -> tuple[bytes, Any]:
            _, _, text = await api._server.exchange("GET", path, "", [("Accept", "application/yaml")], b"")
            return text, (await api.call("GET", path))[1]

        for number in range(3):
            data = {"a": "1", "plain": "text", "lines": "one\ntwo\n"}
            await api.call("POST", CONFIGMAPS, {"metadata": {"name": f"c{number}"}, "data": data})
        for path in (CONFIGMAPS, PODS, f"{CONFIGMAPS}/c1", CRDS):
            text, document = await both(path)
            assert text == to_yaml(document)
        long = {"x" * 200: "y"}
        await api.call("POST", CONFIGMAPS, {"metadata": {"name": "long"}, "data": long})
        text, document = await both(CONFIGMAPS)
        assert text == to_yaml(document)

    run(scenario)
