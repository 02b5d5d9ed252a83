"""The surroundings of nodegroup cases: the operator's webhook server, and objects on the server under test.

A `World` belongs to one run. Its webhook server runs in a thread of its own and reads the cluster's state
from the server under test, uncached, so that a case sees exactly the objects it was given.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import ssl
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from quarterdeck.client import Client, Config
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import definition
from quarterdeck.operators.nodegroup.webhooks import (
    ClusterReader,
    Endpoint,
    LiveReader,
    NodeGroupConverter,
    conversion_stanza,
    policy_webhook,
    simple_webhook,
    validating_configuration,
)
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer

from .case import CaseFailure
from .hook import _certificates
from .run import Run
from .wire import Answer, Connection, Target

Json = dict[str, Any]

_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_TIMEOUT: Final = 30.0
_PROBE: Final = {
    "apiVersion": names.V1ALPHA1,
    "kind": names.KIND,
    "metadata": {"name": "quarterdeck-probe"},
    "spec": {"nodeType": "Static", "cri": {"type": "Docker"}},
}
"""Refused as soon as conversion and validation are in force, accepted without them."""

_worlds: weakref.WeakKeyDictionary[Run, World] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def world_of(run: Run) -> World:
    """The world of a run, made on first use."""
    with _lock:
        world = _worlds.get(run)
        if world is None:
            world = _worlds[run] = World(run)
        return world


class World:
    """Used by one thread at a time: all cases are in one lane."""

    def __init__(self, run: Run) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # denials are what cases are about
        self.kubeconfig: Final = run.kubeconfig()
        self._connection: Final = run.target().connect(60.0)
        self._hooks: Final = run.hooks
        self._resources: dict[str, dict[str, Json]] = {}
        self._mode = ""
        self._server: Final = _WebhookThread(self.kubeconfig)
        self._webhook: Final[Connection] = self._server.target.connect(60.0)

    # -- the bare webhook -----------------------------------------------------------------------------

    def post(self, path: str, body: bytes, *, method: str = "POST") -> Answer:
        """Send a body to the operator's webhook server."""
        return self._webhook.request(method, path, body=body, headers=_JSON)

    # -- objects --------------------------------------------------------------------------------------

    @contextmanager
    def given(self, objects: list[Json]) -> Iterator[None]:
        """Objects that exist while a case runs."""
        before: list[tuple[str, Json | None]] = []
        try:
            for item in objects:
                before.append(self._put(item))
            yield
        finally:
            for path, original in reversed(before):
                self._request("DELETE", path)
                if original is not None:
                    self._request("POST", path.rpartition("/")[0], original)

    def create(self, item: Json, *, dry_run: bool = False) -> Answer:
        """POST an object."""
        query = "?dryRun=All" if dry_run else ""
        return self._request("POST", f"{self.collection(item)}{query}", item)

    def replace(self, item: Json, *, dry_run: bool = False) -> Answer:
        """PUT an object over the one that exists."""
        path = self.path(item)
        version = self._request("GET", path).json()["metadata"]["resourceVersion"]
        query = "?dryRun=All" if dry_run else ""
        metadata = {**item["metadata"], "resourceVersion": version}
        return self._request("PUT", f"{path}{query}", {**item, "metadata": metadata})

    def put_status(self, item: Json) -> Answer:
        """PUT the status of an object that exists."""
        path = self.path(item)
        present = self._request("GET", path).json()
        return self._request("PUT", f"{path}/status", {**present, "status": item["status"]})

    def read(self, item: Json) -> Json:
        """GET an object."""
        found: Json = self._request("GET", self.path(item)).json()
        return found

    def delete(self, item: Json) -> Answer:
        """DELETE an object, whether it exists or not."""
        return self._request("DELETE", self.path(item))

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

    def _put(self, item: Json) -> tuple[str, Json | None]:
        path = self.path(item)
        namespace = item["metadata"].get("namespace")
        if namespace:
            self._request("POST", "/api/v1/namespaces", _namespace(namespace))
        original: Json | None = None
        answer = self._request("POST", path.rpartition("/")[0], item)
        if answer.status == 409:
            original = _unversioned(self._request("GET", path).json())
            self._request("DELETE", path)
            answer = self._request("POST", path.rpartition("/")[0], item)
        if answer.status != 201:
            name = item["metadata"]["name"]
            raise CaseFailure(f"given {item['kind']} {name}: {answer.status}: {answer.text()}")
        return path, original

    def _resource(self, root: str, item: Json) -> Json:
        kind = item["kind"]
        found = self._resources.get(root, {}).get(kind)
        if found is None and not self._discover(root, kind):
            self._install(_definition_of(item))
            self._wait(lambda: self._discover(root, kind), f"{kind} is not served")
        return found or self._resources[root][kind]

    def _discover(self, root: str, kind: str) -> bool:
        answer = self._request("GET", root)
        resources = answer.json().get("resources") or [] if answer.status == 200 else []
        self._resources[root] = {r["kind"]: r for r in resources if "/" not in r["name"]}
        return kind in self._resources[root]

    # -- what is installed ----------------------------------------------------------------------------

    @contextmanager
    def definition_only(self) -> Iterator[None]:
        """The definition without conversion and without webhooks."""
        if self._mode != "definition":
            self._mode = ""
            self._request("DELETE", f"{_CONFIGURATIONS}/{names.VALIDATING_CONFIGURATION}")
            self._install(definition())
            self._wait(lambda: self._probe() == 201, "the definition is not in service")
            self._mode = "definition"
        yield

    @contextmanager
    def webhooks(self) -> Iterator[None]:
        """The definition with conversion, and both validating webhooks."""
        if self._mode != "webhooks":
            self._mode = ""
            endpoint = self._server.endpoint
            self._install(definition(conversion_stanza(endpoint)))
            self._request("DELETE", f"{_CONFIGURATIONS}/{names.VALIDATING_CONFIGURATION}")
            answer = self._request("POST", _CONFIGURATIONS, validating_configuration(endpoint))
            if answer.status != 201:
                raise CaseFailure(f"registering the webhooks answered {answer.status}: {answer.text()}")
            self._wait(lambda: self._probe() == 403, "the webhooks are not in force")
            self._mode = "webhooks"
        yield

    @contextmanager
    def admission_observer(self, version: str) -> Iterator[Callable[[Callable[[], Answer]], Json]]:
        """Gives a function that performs a write and returns the object as admission sees it."""
        session = f"nodegroup-{secrets.token_hex(4)}"
        hooks = self._hooks()
        opened = hooks.open(session, {"observer": {}})
        rule = {
            "apiGroups": [names.GROUP],
            "apiVersions": [version.partition("/")[2]],
            "resources": ["nodegroups"],
            "operations": ["CREATE", "UPDATE"],
        }
        webhook = {
            "name": "observer.quarterdeck.dev",
            "clientConfig": {"url": f"{opened.url}/observer", "caBundle": hooks.ca_bundle},
            "rules": [rule],
            "matchPolicy": "Exact",
            "failurePolicy": "Ignore",  # a real server calls for a while after the hook is gone
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        configuration = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": session},
            "webhooks": [webhook],
        }
        answer = self._request("POST", _CONFIGURATIONS, configuration)
        if answer.status != 201:
            raise CaseFailure(f"registering the observer answered {answer.status}: {answer.text()}")

        def observed(write: Callable[[], Answer]) -> Json:
            def is_called() -> bool:
                answer = write()
                if answer.status >= 300:
                    raise CaseFailure(f"the write answered {answer.status}: {answer.text()}")
                return bool(opened.calls)

            self._wait(is_called, "the observing webhook was not called")
            seen: Json = opened.calls[-1]["request"]["object"]
            return seen

        try:
            yield observed
        finally:
            self._request("DELETE", f"{_CONFIGURATIONS}/{session}")
            hooks.close_session(session)

    def _probe(self) -> int:
        return self._request("POST", f"/apis/{names.V1ALPHA1}/nodegroups?dryRun=All", _PROBE).status

    def _install(self, document: Json) -> None:
        path = f"{_DEFINITIONS}/{document['metadata']['name']}"
        present = self._request("GET", path)
        if present.status == 404:
            answer = self._request("POST", _DEFINITIONS, document)
        else:
            version = present.json()["metadata"]["resourceVersion"]
            metadata = {**document["metadata"], "resourceVersion": version}
            answer = self._request("PUT", path, {**document, "metadata": metadata})
        if answer.status >= 300:
            name = document["metadata"]["name"]
            raise CaseFailure(f"installing {name} answered {answer.status}: {answer.text()}")

    def _wait(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not holds():
            if time.monotonic() > deadline:
                raise CaseFailure(f"{otherwise} after {_TIMEOUT:g} s")
            time.sleep(0.05)

    def _request(self, method: str, path: str, body: Json | None = None) -> Answer:
        raw = json.dumps(body).encode() if body is not None else None
        return self._connection.request(method, path, body=raw, headers=_JSON)


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _unversioned(document: Json) -> Json:
    dropped = ("resourceVersion", "uid", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in document["metadata"].items() if key not in dropped}
    return {**document, "metadata": metadata}


def _definition_of(item: Json) -> Json:
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


class _WebhookThread:
    """The operator's webhook server on 127.0.0.1, under a CA made for the run; lives as the process does."""

    def __init__(self, kubeconfig: Path) -> None:
        self._directory: Final = tempfile.TemporaryDirectory(prefix="quarterdeck-nodegroup-")
        authority, chain, key = _certificates()
        folder = Path(self._directory.name)
        (folder / "tls.crt").write_bytes(chain)
        (folder / "tls.key").write_bytes(key)
        self._kubeconfig: Final = kubeconfig
        self._port = 0
        self._error: Exception | None = None
        self._ready: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="nodegroup-webhooks", daemon=True)
        self._thread.start()
        self._ready.wait(_TIMEOUT)
        if self._error is not None or not self._port:
            raise RuntimeError(f"the webhook server did not start: {self._error}")
        context = ssl.create_default_context(cadata=authority.decode())
        self.target: Final = Target(host="127.0.0.1", port=self._port, tls=context)
        self.endpoint: Final = Endpoint(ca_bundle=authority, url=f"https://127.0.0.1:{self._port}")

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:  # noqa: BLE001 - reported by the thread that waits for the server
            self._error = error
            self._ready.set()

    async def _serve(self) -> None:
        certificates = FileCertificates(self._directory.name)
        server = WebhookServer(WebhookOptions(host="127.0.0.1", port=0), certificates=certificates)
        async with Client.connect(Config.load(kubeconfig=str(self._kubeconfig))) as client:
            cluster = ClusterReader(LiveReader(client))
            server.add_conversion(NodeGroupConverter(cluster))
            server.add(policy_webhook(cluster), simple_webhook(cluster))
            async with server:
                self._port = server.port
                self._ready.set()
                await asyncio.get_running_loop().create_future()
