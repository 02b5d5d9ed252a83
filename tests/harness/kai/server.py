"""The surroundings of kai cases: the definitions, the operator, and the server under test."""

from __future__ import annotations

import copy
import itertools
import logging
import secrets
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from quarterdeck.operators.kai.types import definitions
from tests.harness.case import CaseFailure
from tests.harness.objects import ServerObjects
from tests.harness.run import Run
from tests.harness.wire import Answer

from .operator import KaiThread

Json = dict[str, Any]

CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
JUDGED: Final = "quarterdeck.dev/judged"
"""Label of objects that the registered webhooks see; what cases are given exists without their consent."""
_CONFIGURATION: Final = "quarterdeck-kai-cases"

_numbers: Final = itertools.count()
_servers: weakref.WeakKeyDictionary[Run, KaiServer] = weakref.WeakKeyDictionary()
_lock: Final = threading.Lock()


class KaiServer:
    """What the cases of a run share; safe to use from several threads."""

    def __init__(self, run: Run) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # denials are what cases are about
        self._run: Final = run
        self._lock: Final = threading.RLock()
        self._operator: KaiThread | None = None
        self._is_registered = False
        objects = self.connect()
        for definition in definitions():
            objects.install(definition)
        for definition in definitions():
            objects.wait(lambda each=definition: _is_served(objects, each), "the kinds are not served")  # type: ignore[misc]

    def connect(self) -> ServerObjects:
        """A line to the server of one's own."""
        return ServerObjects(self._run.target().connect(60.0))

    @property
    def is_embedded(self) -> bool:
        """Whether the server goes with the run."""
        return self._run.is_embedded

    @property
    def operator(self) -> KaiThread:
        """The operator, started on first use."""
        with self._lock:
            if self._operator is None:
                self._operator = KaiThread(self._run.kubeconfig())
            return self._operator

    def register(self, objects: ServerObjects) -> None:
        """Have the API server ask the webhooks about objects with the label ``JUDGED``."""
        with self._lock:
            if self._is_registered:
                return
            document = self.operator.webhook_configuration(_CONFIGURATION)
            for webhook in document["webhooks"]:
                webhook["objectSelector"] = {"matchLabels": {JUDGED: "yes"}}
            objects.request("DELETE", f"{CONFIGURATIONS}/{_CONFIGURATION}")
            answer = objects.request("POST", CONFIGURATIONS, document)
            if answer.status != 201:
                raise CaseFailure(f"registering the webhooks: {answer.status}: {answer.text()}")
            objects.wait(lambda: _is_in_force(objects), "the webhooks are not in force")
            self._is_registered = True

    @contextmanager
    def namespace(self, objects: ServerObjects) -> Iterator[str]:
        """A namespace for one case."""
        name = f"kai-{next(_numbers)}-{secrets.token_hex(3)}"
        objects.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            if not self.is_embedded:
                objects.request("DELETE", f"/api/v1/namespaces/{name}")


def server_of(run: Run) -> KaiServer:
    """The server of a run, made on first use."""
    with _lock:
        server = _servers.get(run)
        if server is None:
            server = _servers[run] = KaiServer(run)
        return server


def judged(document: Json) -> Json:
    """An object that the registered webhooks look at."""
    made = copy.deepcopy(document)
    labels = made.setdefault("metadata", {}).setdefault("labels", {})
    labels[JUDGED] = "yes"
    return made


def message_of(answer: Answer) -> str:
    """The message of a Status."""
    return str(answer.json().get("message", ""))


def _is_served(objects: ServerObjects, definition: Json) -> bool:
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    return objects.request("GET", path).status == 200


def _is_in_force(objects: ServerObjects) -> bool:
    group = {"name": "probe", "namespace": "default"}
    spec = {"subGroups": [{"name": "Probe"}]}
    probes = (
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": group, "spec": spec},
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "probe"}, "spec": {}},
    )
    return all(objects.create(judged(probe), dry_run=True).status == 403 for probe in probes)
