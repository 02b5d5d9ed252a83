"""The surroundings of nodegroup cases: the operator's webhook server, and objects on the server under test.

A `NodeGroupServer` belongs to one run. Its webhook server runs in a thread of its own and reads the
cluster's state from the server under test, uncached, so that a case sees exactly the objects it was given.
"""

from __future__ import annotations

import logging
import secrets
import ssl
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.types import definition
from quarterdeck.operators.nodegroup.webhooks import (
    ClusterReader,
    LiveReader,
    NodeGroupConverter,
    policy_webhook,
    simple_webhook,
)
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.webhook import AdmissionWebhook, UrlTarget, webhook_configurations
from quarterdeck.testing import Link, ServedWebhooks, serve_webhooks
from tests.harness.case import CaseFailure
from tests.harness.objects import ServerObjects
from tests.harness.operatorthread import OperatorThread
from tests.harness.run import Run
from tests.harness.wire import Answer, Connection, Target

Json = dict[str, Any]

_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_PROBE: Final = {
    "apiVersion": names.V1ALPHA1,
    "kind": names.KIND,
    "metadata": {"name": "quarterdeck-probe"},
    "spec": {"nodeType": "Static", "cri": {"type": "Docker"}},
}
"""Refused as soon as conversion and validation are in force, accepted without them."""

_servers: weakref.WeakKeyDictionary[Run, NodeGroupServer] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


def server_of(run: Run) -> NodeGroupServer:
    """The server of a run, made on first use."""
    with _lock:
        server = _servers.get(run)
        if server is None:
            server = _servers[run] = NodeGroupServer(run)
        return server


class NodeGroupServer(ServerObjects):
    """Used by one thread at a time: all cases are in one lane."""

    def __init__(self, run: Run) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # denials are what cases are about
        super().__init__(run.target().connect(60.0))
        self.kubeconfig: Final = run.kubeconfig()
        self._hooks: Final = run.hooks
        self._mode = ""
        self._server: Final = _WebhookThread(self.kubeconfig)
        self._webhook: Final[Connection] = self._server.target.connect(60.0)

    def post(self, path: str, body: bytes, *, method: str = "POST") -> Answer:
        """Send a body to the operator's webhook server."""
        return self._webhook.request(method, path, body=body, headers=_JSON)

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
                self.request("DELETE", path)
                if original is not None:
                    self.request("POST", path.rpartition("/")[0], original)

    def _put(self, item: Json) -> tuple[str, Json | None]:
        path = self.path(item)
        namespace = item["metadata"].get("namespace")
        if namespace:
            self.request("POST", "/api/v1/namespaces", _namespace(namespace))
        original: Json | None = None
        answer = self.request("POST", path.rpartition("/")[0], item)
        if answer.status == 409:
            original = _unversioned(self.request("GET", path).json())
            self.request("DELETE", path)
            answer = self.request("POST", path.rpartition("/")[0], item)
        if answer.status != 201:
            name = item["metadata"]["name"]
            raise CaseFailure(f"given {item['kind']} {name}: {answer.status}: {answer.text()}")
        return path, original

    @contextmanager
    def definition_only(self) -> Iterator[None]:
        """The definition without conversion and without webhooks."""
        if self._mode != "definition":
            self._mode = ""
            self.request("DELETE", f"{_CONFIGURATIONS}/{names.VALIDATING_CONFIGURATION}")
            self.install(definition())
            self.wait(lambda: self._probe() == 201, "the definition is not in service")
            self._mode = "definition"
        yield

    @contextmanager
    def webhooks(self) -> Iterator[None]:
        """The definition with conversion, and both validating webhooks."""
        if self._mode != "webhooks":
            self._mode = ""
            target = self._server.hooks
            self.install(definition(target.conversion()))
            self.request("DELETE", f"{_CONFIGURATIONS}/{names.VALIDATING_CONFIGURATION}")
            (made,) = webhook_configurations(names.VALIDATING_CONFIGURATION, self._server.webhooks, target)
            answer = self.request("POST", _CONFIGURATIONS, made.to_dict())
            if answer.status != 201:
                raise CaseFailure(f"registering the webhooks answered {answer.status}: {answer.text()}")
            self.wait(lambda: self._probe() == 403, "the webhooks are not in force")
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
        answer = self.request("POST", _CONFIGURATIONS, configuration)
        if answer.status != 201:
            raise CaseFailure(f"registering the observer answered {answer.status}: {answer.text()}")

        def observed(write: Callable[[], Answer]) -> Json:
            def is_called() -> bool:
                answer = write()
                if answer.status >= 300:
                    raise CaseFailure(f"the write answered {answer.status}: {answer.text()}")
                return bool(opened.calls)

            self.wait(is_called, "the observing webhook was not called")
            seen: Json = opened.calls[-1]["request"]["object"]
            return seen

        try:
            yield observed
        finally:
            self.request("DELETE", f"{_CONFIGURATIONS}/{session}")
            hooks.close_session(session)

    def _probe(self) -> int:
        return self.request("POST", f"/apis/{names.V1ALPHA1}/nodegroups?dryRun=All", _PROBE).status


def _namespace(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _unversioned(document: Json) -> Json:
    dropped = ("resourceVersion", "uid", "creationTimestamp", "managedFields")
    metadata = {key: value for key, value in document["metadata"].items() if key not in dropped}
    return {**document, "metadata": metadata}


class _WebhookThread(OperatorThread):
    """The operator's webhooks on 127.0.0.1, under a CA made for the run; they live as the process does."""

    def __init__(self, kubeconfig: Path) -> None:
        self.webhooks: tuple[AdmissionWebhook, ...] = ()
        self._served: ServedWebhooks | None = None
        super().__init__(kubeconfig, name="nodegroup")
        assert self._served is not None
        served: ServedWebhooks = self._served
        context = ssl.create_default_context(cadata=served.ca_bundle.decode())
        self.target: Final[Target] = Target(host="127.0.0.1", port=served.server.port, tls=context)
        self.hooks: Final[UrlTarget] = UrlTarget(served.url, served.ca_bundle)

    async def assemble(self, link: Link, stack: AsyncExitStack) -> Manager:
        cluster = ClusterReader(LiveReader(link.client))
        self.webhooks = (simple_webhook(cluster), policy_webhook(cluster))
        serving = serve_webhooks(*self.webhooks, conversions=[NodeGroupConverter(cluster)])
        self._served = await stack.enter_async_context(serving)
        return Manager(link.client, options=ManagerOptions(watch_loop=False))
