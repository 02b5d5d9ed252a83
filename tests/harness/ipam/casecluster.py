"""The surroundings of an ipam case: namespaces of its own, its operator, and the server under test.

Cases say `default`; each runs in a namespace of its own instead, so that they can run side by side.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from quarterdeck.operators.ipam.types import definitions
from quarterdeck.testing import FaultPlan
from tests.harness.case import Case, CaseFailure
from tests.harness.matching import MISSING, json_equal
from tests.harness.run import Run
from tests.harness.wire import Answer, Connection

from .fault import rules_of
from .names import GROUP, RESOURCES
from .operator import IpamThread, Sample

Json = dict[str, Any]

_ROOT: Final = f"/apis/{GROUP}/v1alpha1"
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}
_MERGE: Final = {"Content-Type": "application/merge-patch+json", "Accept": "application/json"}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_TIMEOUT: Final = 30.0
_PROBE: Final = "quarterdeck-probe"

_numbers: Final = itertools.count()
_installed: Final[weakref.WeakSet[Run]] = weakref.WeakSet()
_lock: Final = threading.Lock()


class CaseCluster:
    """Used by the thread of its case; `connection` gives other threads their own line."""

    def __init__(self, case: Case, run: Run) -> None:
        logging.getLogger("quarterdeck").addHandler(logging.NullHandler())  # faults are what cases are about
        self._run: Final = run
        self._case: Final = case
        self._prefix: Final = f"ipam-{next(_numbers)}-{secrets.token_hex(3)}"
        self._connection: Final = run.target().connect(60.0)
        self._local: Final = threading.local()
        faults = case.given.get("faults") or []
        self._plan: Final = FaultPlan(
            0, *(rule for raw in faults if "after" not in raw for rule in rules_of(raw))
        )
        """What goes wrong, counted over all lives of the controllers."""
        self._later: Final = [rule for raw in faults if "after" in raw for rule in rules_of(raw)]
        self._operators: list[IpamThread] = []
        self._past: list[Sample] = []
        self._install_definitions()
        self.namespaces: Final = {name: f"{self._prefix}-{name}" for name in sorted(_namespaces_in(case.raw))}
        for name in self.namespaces.values():
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self.request("POST", "/api/v1/namespaces", document)

    def namespace(self, name: str | None) -> str:
        """Where the objects of a namespace of the case really are."""
        return self.namespaces[name or "default"]

    def real(self, document: Json) -> Json:
        """An object of the case, in its real namespace."""
        copied = copy.deepcopy(document)
        if copied["kind"] == "Namespace":
            copied["metadata"]["name"] = self.namespace(copied["metadata"]["name"])
        else:
            metadata = copied.setdefault("metadata", {})
            metadata["namespace"] = self.namespace(metadata.get("namespace"))
        return copied

    def told(self, text: str) -> str:
        """What was answered, with the namespaces of the case."""
        for name, real in self.namespaces.items():
            text = text.replace(real, name)
        return text

    def collection(self, kind: str, namespace: str | None) -> str:
        """The path of a kind in a namespace of the case."""
        if kind == "Namespace":
            return "/api/v1/namespaces"
        root = _ROOT if kind in RESOURCES else "/api/v1"
        resource = RESOURCES.get(kind, f"{kind.lower()}s")
        return f"{root}/namespaces/{self.namespace(namespace)}/{resource}"

    def path(self, ref: Json) -> str:
        """The path of an object."""
        return f"{self.collection(ref['kind'], ref.get('namespace'))}/{ref['name']}"

    def request(self, method: str, path: str, body: Json | None = None, *, merge: bool = False) -> Answer:
        """One request, over the line of the calling thread."""
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._run.target().connect(60.0)
        raw = json.dumps(body).encode() if body is not None else None
        return connection.request(method, path, body=raw, headers=_MERGE if merge else _JSON)

    def create(self, document: Json) -> Answer:
        """POST an object of the case; a namespace is there already."""
        made = self.real(document)
        if made["kind"] == "Namespace":
            return Answer(201, (), b"{}")
        return self.request(
            "POST", self.collection(made["kind"], document["metadata"].get("namespace")), made
        )

    def read(self, ref: Json) -> Json | None:
        """GET an object; nothing if it is not there."""
        answer = self.request("GET", self.path(ref))
        if answer.status == 404:
            return None
        found: Json = answer.json()
        return found

    def items(self, kind: str, namespace: str | None) -> list[Json]:
        """All objects of a kind in a namespace of the case."""
        found: list[Json] = self.request("GET", self.collection(kind, namespace)).json().get("items") or []
        return found

    def chosen(self, wanted: Json) -> list[Json]:
        """The objects of a kind in a namespace of the case whose values at some pointers are given."""
        conditions = (wanted.get("where") or {}).items()
        return [
            each
            for each in self.items(wanted["kind"], wanted.get("namespace"))
            if all(is_equal(value, pointer(each, path)) for path, value in conditions)
        ]

    def _install_definitions(self) -> None:
        with _lock:
            if self._run in _installed:
                return
            for document in definitions():
                path = f"{_DEFINITIONS}/{document['metadata']['name']}"
                answer = self.request("POST", _DEFINITIONS, document)
                if answer.status == 409:
                    version = self.request("GET", path).json()["metadata"]["resourceVersion"]
                    metadata = {**document["metadata"], "resourceVersion": version}
                    answer = self.request("PUT", path, {**document, "metadata": metadata})
                if answer.status >= 300:
                    raise CaseFailure(f"installing a definition: {answer.status}: {answer.text()}")
            for resource in RESOURCES.values():
                self._wait(
                    lambda resource=resource: self.request("GET", f"{_ROOT}/{resource}").status == 200,  # type: ignore[misc]
                    f"{resource} is not served",
                )
            _installed.add(self._run)

    def _wait(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not holds():
            if time.monotonic() > deadline:
                raise CaseFailure(f"{otherwise} after {_TIMEOUT:g} s")
            time.sleep(0.02)

    @property
    def operator(self) -> IpamThread:
        """The operator that runs now; the first one, if there are several."""
        if not self._operators:
            raise CaseFailure("the controllers do not run")
        return self._operators[0]

    @property
    def is_running(self) -> bool:
        """Whether the controllers run."""
        return bool(self._operators)

    def start(self) -> None:
        """Start the controllers, unless they run."""
        if self._operators:
            return
        with_hook = self._case.given.get("admissionHook") == "on"
        for _ in range(self._case.given.get("controllerInstances", 1)):
            self._operators.append(
                IpamThread(
                    self._run.kubeconfig(),
                    tuple(self.namespaces.values()),
                    self._plan,
                    with_hook=with_hook,
                )
            )
        if with_hook:
            self._register_hook(self.operator.hook or {})

    def settle(self, limit: float) -> None:
        """Wait until all controllers are at rest, and the garbage collector has done its part."""
        deadline = time.monotonic() + limit
        self._rest(deadline)
        while self._has_garbage() and time.monotonic() < deadline:
            self._rest(deadline)

    def _rest(self, deadline: float) -> None:
        seen = None
        while time.monotonic() < deadline:
            now = [each.settle(max(0.0, deadline - time.monotonic())) for each in self._operators]
            if now == seen or len(now) == 1:  # one of several may have waited for another
                return
            seen = now

    def _has_garbage(self) -> bool:
        """Whether something is left of an owner that is gone: a busy machine collects late."""
        for namespace in self.namespaces:
            objects = [each for kind in RESOURCES for each in self.items(kind, namespace)]
            living = {each["metadata"]["uid"] for each in objects}
            owners = [each["metadata"].get("ownerReferences") or [] for each in objects]
            if any(each and living.isdisjoint(owner["uid"] for owner in each) for each in owners):
                return True
        return False

    def arm(self) -> None:
        """Let the faults happen that wait for the first settle."""
        self.operator.disturb(*self._later)

    def stop(self, *, kill: bool = False) -> None:
        """Stop the controllers, in order or not."""
        if self._operators:
            self._remember()
        operators, self._operators = self._operators, []
        for each in operators:
            if kill:
                each.kill()
            else:
                each.stop()

    def crash(self, at: str, document: Json) -> Answer:
        """Create an object and have the controllers die where the case says."""
        point, _, kind = at.partition(":")
        if point != "after-create" or not kind or len(self._operators) != 1:
            raise CaseFailure(f"crash at {at} of {len(self._operators)} controllers is not understood")
        self.operator.crash_after_create(kind)
        answer = self.create(document)
        self._remember()
        self.operator.wait_crashed()
        self._operators = []
        return answer

    def _remember(self) -> None:
        self._past += [sample for sample in self._live_samples() if is_counter(sample[0])]

    def samples(self) -> list[Sample]:
        """All metrics: those of earlier lives are added to the counters."""
        return [*self._past, *self._live_samples()]

    def _live_samples(self) -> list[Sample]:
        return [sample for each in self._operators for sample in each.samples()]

    def _register_hook(self, document: Json) -> None:
        answer = self.request("POST", _HOOKS, document)
        if answer.status not in (201, 409):
            raise CaseFailure(f"registering the hook: {answer.status}: {answer.text()}")
        pool = _object("SubnetPool", _PROBE, {"cidr": "192.0.2.0/24"})
        subnet = _object(
            "Subnet", _PROBE, {"poolRef": _PROBE, "cidr": "198.51.100.0/24", "clusterID": "probe"}
        )
        self.create(pool)
        path = f"{self.collection('Subnet', None)}?dryRun=All"
        self._wait(
            lambda: self.request("POST", path, self.real(subnet)).status == 403, "the hook is not in force"
        )
        self.request("DELETE", f"{self.collection('SubnetPool', None)}/{_PROBE}")

    def close(self) -> None:
        """Stop what runs; on a server that lives on, take everything away."""
        try:
            operators, self._operators = self._operators, []
            for each in operators:
                each.kill()
            if self._case.given.get("admissionHook") == "on":
                self.request("DELETE", f"{_HOOKS}/{next(iter(self.namespaces.values()))}")
            if not self._run.is_embedded:
                self._clear()
        finally:
            self._connection.close()

    def _clear(self) -> None:
        for name in self.namespaces:
            for kind in ("SubnetPoolClaim", "SubnetClaim", "Subnet", "SubnetPool"):
                for found in self.items(kind, name):
                    path = f"{self.collection(kind, name)}/{found['metadata']['name']}"
                    if found["metadata"].get("finalizers"):
                        self.request("PATCH", path, {"metadata": {"finalizers": None}}, merge=True)
                    self.request("DELETE", path)
            self.request("DELETE", f"/api/v1/namespaces/{self.namespaces[name]}")


def is_counter(name: str) -> bool:
    """Whether a sample keeps its meaning when the process that made it is gone."""
    return name.endswith(("_total", "_count", "_sum", "_bucket"))


@contextmanager
def cluster_for(case: Case, run: Run) -> Iterator[CaseCluster]:
    """The cluster of a case, for the time of a block."""
    cluster = CaseCluster(case, run)
    try:
        yield cluster
    finally:
        cluster.close()


def pointer(document: Any, path: str) -> Any:
    """The value at an RFC 6901 pointer."""
    found = document
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            return MISSING
    return found


def is_equal(wanted: Any, found: Any) -> bool:
    """Equality of JSON values; a number that is 0 may be absent."""
    return json_equal(wanted, found) or (found is MISSING and wanted == 0)


def _object(kind: str, name: str, spec: Json) -> Json:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _namespaces_in(value: Any) -> set[str]:
    """All namespaces that a case mentions."""
    found = {"default"}
    if isinstance(value, dict):
        if value.get("kind") == "Namespace" and isinstance(value.get("metadata"), dict):
            found.add(value["metadata"]["name"])
        if isinstance(value.get("namespace"), str):
            found.add(value["namespace"])
        for each in value.values():
            found |= _namespaces_in(each)
    elif isinstance(value, list):
        for each in value:
            found |= _namespaces_in(each)
    return found
