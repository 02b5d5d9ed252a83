"""Valid requests to start from: those of the API cases, and CRDs made to be attacked."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from .client import Client, Request

CASES: Final = Path(__file__).parents[2] / "tests" / "cases" / "apiserver.json"
ESTABLISH_TIMEOUT: Final = 30.0
NAMES: Final = ("a", "b", "w", "s", "obj")


@dataclass(frozen=True)
class Template:
    """A request of a case; document is its JSON body, if it has one."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    accept: str
    document: Any
    data: bytes

    def request(
        self,
        kind: str,
        body: bytes | None = None,
        *,
        query: dict[str, str] | None = None,
        content_type: str = "",
        expect: tuple[int, ...] = (),
    ) -> Request:
        words = self.query if query is None else query
        path = self.path + ("?" + urlencode(words) if words else "")
        headers = (("Accept", self.accept), ("Content-Type", content_type or self.content_type))
        return Request(kind, self.method, path, headers, self.data if body is None else body, expect)


_NESTED: Final = "self.all(x, self.exists(y, x <= y && 1 / (y + 1) > -1))"

#: a CRD whose patterns, rules and free fields are what a hostile user would aim at
TARGET: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "targets.fuzz.example.com"},
    "spec": {
        "group": "fuzz.example.com",
        "scope": "Namespaced",
        "names": {"plural": "targets", "kind": "Target"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "additionalPrinterColumns": [
                    {"name": "Deep", "type": "string", "jsonPath": ".spec.free"},
                    {"name": "When", "type": "date", "jsonPath": ".spec.time"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "slow": {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"},
                                    "slower": {"type": "string", "pattern": "^(a|a|aa)+$"},
                                    "cel": {
                                        "type": "string",
                                        "maxLength": 100000,
                                        "x-kubernetes-validations": [{"rule": "!self.matches('^(a+)+$')"}],
                                    },
                                    "list": {
                                        "type": "array",
                                        "maxItems": 100,
                                        "items": {"type": "integer"},
                                        "x-kubernetes-validations": [{"rule": _NESTED}],
                                    },
                                    "set": {
                                        "type": "array",
                                        "items": {"type": "string"},
                                        "x-kubernetes-list-type": "set",
                                    },
                                    "keyed": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "v": {"type": "number"},
                                            },
                                        },
                                    },
                                    "replicas": {"type": "integer", "format": "int32"},
                                    "time": {"type": "string", "format": "date-time"},
                                    "either": {"x-kubernetes-int-or-string": True},
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}

#: an object of it that is right
OBJECT: Final[dict[str, Any]] = {
    "apiVersion": "fuzz.example.com/v1",
    "kind": "Target",
    "metadata": {"name": "a"},
    "spec": {
        "slow": "aa.Bb",
        "slower": "aaa",
        "cel": "b",
        "list": [1, 2, 3],
        "set": ["a", "b"],
        "keyed": [{"name": "a", "v": 1.5}, {"name": "b"}],
        "replicas": 1,
        "time": "2026-01-01T00:00:00Z",
        "either": "50%",
        "free": {"a": {"b": [1]}},
    },
}


class Corpus:
    """The templates, bound to one namespace."""

    def __init__(self, namespace: str, cases: Path = CASES) -> None:
        self.namespace: Final = namespace
        document = json.loads(cases.read_text())
        self.fixtures: Final[list[dict[str, Any]]] = list(document["fixtures"].values())
        self.templates: Final = list(_templates(document["cases"], namespace))
        self.bodies: Final = [each for each in self.templates if isinstance(each.document, dict | list)]
        self.writes: Final = [each for each in self.bodies if each.method in ("POST", "PUT", "PATCH")]
        self.lists: Final = sorted(
            {each.path for each in self.templates if each.method == "GET" and each.path.count("/") > 2}
        )
        self.protobuf: Final = [
            each.data
            for each in self.templates
            if each.content_type.startswith("application/vnd.kubernetes.protobuf")
        ]

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}"

    @property
    def targets(self) -> str:
        return f"/apis/fuzz.example.com/v1/namespaces/{self.namespace}/targets"

    def prepare(self, client: Client) -> None:
        """Create the namespace, the CRDs and a few objects, and wait until all are served."""
        client.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        crds = [*self.fixtures, TARGET]
        for crd in crds:
            client.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        for crd in crds:
            self._wait_served(client, crd)
        self.restore(client)

    def restore(self, client: Client) -> None:
        """Put the objects back that requests aim at; those that exist stay."""
        for name in NAMES:
            client.call("POST", f"{self.core}/configmaps", {"metadata": {"name": name}, "data": {"k": "v"}})
            client.call("POST", self.targets, {**OBJECT, "metadata": {"name": name}})
            pod = {"containers": [{"name": "c", "image": "x:1"}]}
            client.call("POST", f"{self.core}/pods", {"metadata": {"name": name}, "spec": pod})
            widget = {"apiVersion": "conf.example.com/v1", "kind": "Widget", "metadata": {"name": name}}
            path = f"/apis/conf.example.com/v1/namespaces/{self.namespace}/widgets"
            client.call("POST", path, {**widget, "spec": {"size": "S"}})

    def spare(self, request: Request) -> Request:
        """The same request, but only tried where it would take the ground from under all later ones."""
        path, _, query = request.path.partition("?")
        path = path.rstrip("/")
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        ground = {"/api/v1/namespaces", f"/api/v1/namespaces/{self.namespace}", crds}
        ground |= {f"{crds}/{crd['metadata']['name']}" for crd in [*self.fixtures, TARGET]}
        if request.method != "DELETE" or path not in ground:
            return request
        return replace(request, path=f"{path}?{query}&dryRun=All".replace("?&", "?"))

    def clear(self, client: Client) -> None:
        """Remove what the fuzzer made in its namespace, so that memory means memory and not objects."""
        for kind in ("configmaps", "secrets", "pods", "services", "events", "serviceaccounts"):
            client.call("DELETE", f"{self.core}/{kind}?gracePeriodSeconds=0")
        for group in ("apps/v1", "batch/v1"):
            for kind in ("deployments", "statefulsets") if group == "apps/v1" else ("jobs", "cronjobs"):
                client.call(
                    "DELETE",
                    f"/apis/{group}/namespaces/{self.namespace}/{kind}",
                    {"propagationPolicy": "Background"},
                )
        client.call("DELETE", self.targets)
        self.restore(client)

    def _wait_served(self, client: Client, crd: dict[str, Any]) -> None:
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        deadline = time.monotonic() + ESTABLISH_TIMEOUT
        while client.call("GET", path).status != 200:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{crd['metadata']['name']} is not served")
            time.sleep(0.05)


def any_name(rng: random.Random) -> str:
    return rng.choice(NAMES)


def _templates(cases: Iterable[dict[str, Any]], namespace: str) -> Iterable[Template]:
    for case in cases:
        # What one case breaks for all others stays out: hooks would be called for every request.
        if "hooks" in case["given"].get("needs", []):
            continue
        for step in case["when"]["steps"]:
            text = json.dumps(step).replace("${ns}", namespace).replace("${u}", "fuzz")
            bound = json.loads(re.sub(r"\$\{\w+\}", "1", text))
            if "admissionregistration" in bound["path"]:
                continue
            yield _template(bound)


def _template(step: dict[str, Any]) -> Template:
    if "rawBase64" in step:
        data = base64.b64decode(step["rawBase64"])
    elif "rawBody" in step:
        data = step["rawBody"].encode()
    else:
        data = json.dumps(step["body"]).encode() if "body" in step else b""
    return Template(
        method=step["method"],
        path=quote(step["path"], safe="/%~:?=&,"),
        query={name: str(value) for name, value in step.get("query", {}).items() if name != "timeoutSeconds"}
        | ({"timeoutSeconds": "1"} if "watch" in step.get("query", {}) else {}),
        content_type=step.get("contentType", "application/json"),
        accept=step.get("accept", "application/json"),
        document=step.get("body"),
        data=data,
    )
