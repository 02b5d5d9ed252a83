"""Objects on the server under test: written and read over the wire, as documents.

A kind that nobody serves gets a definition that takes anything, so that cases can mention kinds of operators
that do not run.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any, Final

from .case import CaseFailure
from .wire import Answer, Connection

Json = dict[str, Any]

TIMEOUT: Final = 30.0
"""Seconds until something that was asked for counts as not happening."""
_TRIES: Final = 10
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_MERGE: Final = {"Content-Type": "application/merge-patch+json", "Accept": "application/json"}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class ServerObjects:
    """A line to the server under test; used by one thread at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection
        self._resources: dict[str, dict[str, Json]] = {}

    def request(self, method: str, path: str, body: Json | None = None, *, merge: bool = False) -> Answer:
        """One request."""
        raw = json.dumps(body).encode() if body is not None else None
        return self._connection.request(method, path, body=raw, headers=_MERGE if merge else _JSON)

    def create(self, item: Json, *, dry_run: bool = False) -> Answer:
        """POST an object."""
        query = "?dryRun=All" if dry_run else ""
        return self.request("POST", f"{self.collection(item)}{query}", item)

    def make(self, item: Json) -> Json:
        """POST an object that must be taken; returns it as it was stored."""
        answer = self.create(item)
        if answer.status != 201:
            name = item["metadata"]["name"]
            raise CaseFailure(f"given {item['kind']} {name}: {answer.status}: {answer.text()}")
        made: Json = answer.json()
        return made

    def replace(self, item: Json, *, dry_run: bool = False, subresource: str = "") -> Answer:
        """PUT an object over the one that exists."""
        path = self.path(item)
        place = f"{path}/{subresource}" if subresource else path
        query = "?dryRun=All" if dry_run else ""
        for _ in range(_TRIES):
            version = self.request("GET", path).json()["metadata"]["resourceVersion"]
            metadata = {**item["metadata"], "resourceVersion": version}
            answer = self.request("PUT", f"{place}{query}", {**item, "metadata": metadata})
            if answer.status != 409:  # a controller was faster
                break
        return answer

    def put_status(self, item: Json) -> Answer:
        """PUT the status of an object that exists."""
        path = self.path(item)
        for _ in range(_TRIES):
            present = self.request("GET", path).json()
            answer = self.request("PUT", f"{path}/status", {**present, "status": item["status"]})
            if answer.status != 409:  # a controller was faster
                break
        return answer

    def read(self, item: Json) -> Json:
        """GET an object."""
        found: Json = self.request("GET", self.path(item)).json()
        return found

    def delete(self, item: Json) -> Answer:
        """DELETE an object, whether it exists or not."""
        return self.request("DELETE", self.path(item))

    def path(self, item: Json) -> str:
        """The path of an object."""
        return f"{self.collection(item)}/{item['metadata']['name']}"

    def collection(self, item: Json) -> str:
        """The path of an object's collection; a kind that nobody serves gets a definition."""
        version = item["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resource = self._resource(root, item)
        namespace = item["metadata"].get("namespace")
        if resource["namespaced"] and namespace:
            return f"{root}/namespaces/{namespace}/{resource['name']}"
        return f"{root}/{resource['name']}"

    def _resource(self, root: str, item: Json) -> Json:
        kind = item["kind"]
        found = self._resources.get(root, {}).get(kind)
        if found is None and not self._discover(root, kind):
            self.request("POST", _DEFINITIONS, definition_of(item))  # another case may be faster
            self.wait(lambda: self._discover(root, kind), f"{kind} is not served")
        return found or self._resources[root][kind]

    def _discover(self, root: str, kind: str) -> bool:
        answer = self.request("GET", root)
        resources = answer.json().get("resources") or [] if answer.status == 200 else []
        self._resources[root] = {r["kind"]: r for r in resources if "/" not in r["name"]}
        return kind in self._resources[root]

    def install(self, document: Json) -> None:
        """Create a definition, or replace the one that exists."""
        path = f"{_DEFINITIONS}/{document['metadata']['name']}"
        present = self.request("GET", path)
        if present.status == 404:
            answer = self.request("POST", _DEFINITIONS, document)
        else:
            version = present.json()["metadata"]["resourceVersion"]
            metadata = {**document["metadata"], "resourceVersion": version}
            answer = self.request("PUT", path, {**document, "metadata": metadata})
        if answer.status >= 300:
            name = document["metadata"]["name"]
            raise CaseFailure(f"installing {name} answered {answer.status}: {answer.text()}")

    def wait(self, holds: Callable[[], bool], otherwise: str, *, timeout: float = TIMEOUT) -> None:
        """Ask again and again until something holds; raises CaseFailure when it does not come to it."""
        deadline = time.monotonic() + timeout
        while not holds():
            if time.monotonic() > deadline:
                raise CaseFailure(f"{otherwise} after {timeout:g} s")
            time.sleep(0.05)


def definition_of(item: Json) -> Json:
    """A definition that takes anything, for kinds of other operators that cases mention."""
    group, _, version = item["apiVersion"].partition("/")
    kind = item["kind"]
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if item["metadata"].get("namespace") else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


def warnings_of(answer: Answer) -> list[str]:
    """The warnings that came with an answer."""
    texts = [text for value in answer.header("Warning") for text in _WARNING.findall(value)]
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]
