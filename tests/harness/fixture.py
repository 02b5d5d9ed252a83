"""CustomResourceDefinitions that cases share, created once per run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from .case import CaseFailure
from .matching import mismatches
from .wire import Connection

Json = dict[str, Any]

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TIMEOUT: Final = 30.0
_JSON: Final = {"Content-Type": "application/json", "Accept": "application/json"}


class Fixtures:
    """Makes sure that a definition is established and served before a case uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ready: dict[str, Json] = {}

    def ensure(self, connection: Connection, name: str, definition: Json) -> None:
        """Raises CaseFailure when the definition cannot be created or does not come into service."""
        with self._lock:
            if self._ready.get(definition["metadata"]["name"]) == definition:
                return
            self._create(connection, name, definition)
            self._wait(connection, name, definition)
            self._ready[definition["metadata"]["name"]] = definition

    def _create(self, connection: Connection, name: str, definition: Json) -> None:
        answer = connection.request("POST", _DEFINITIONS, body=json.dumps(definition).encode(), headers=_JSON)
        if answer.status == 409:  # left by an earlier run on this server
            self._replace(connection, name, definition)
        elif answer.status != 201:
            raise CaseFailure(f"fixture {name}: creating it answered {answer.status}: {answer.text()}")

    def _replace(self, connection: Connection, name: str, definition: Json) -> None:
        path = f"{_DEFINITIONS}/{definition['metadata']['name']}"
        current = connection.request("GET", path, headers=_JSON).json()
        if not mismatches(definition["spec"], current.get("spec")):
            return
        current["spec"] = definition["spec"]
        answer = connection.request("PUT", path, body=json.dumps(current).encode(), headers=_JSON)
        if answer.status != 200:
            raise CaseFailure(f"fixture {name}: replacing it answered {answer.status}: {answer.text()}")

    def _wait(self, connection: Connection, name: str, definition: Json) -> None:
        deadline = time.monotonic() + _TIMEOUT
        while not self._is_served(connection, definition):
            if time.monotonic() > deadline:
                raise CaseFailure(f"fixture {name}: not established and served after {_TIMEOUT:.0f} s")
            time.sleep(0.1)

    def _is_served(self, connection: Connection, definition: Mapping[str, Any]) -> bool:
        spec = definition["spec"]
        current = connection.request(
            "GET", f"{_DEFINITIONS}/{definition['metadata']['name']}", headers=_JSON
        ).json()
        conditions = (current.get("status") or {}).get("conditions") or []
        if not any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
            return False
        served = [version["name"] for version in spec["versions"] if version.get("served")]
        paths = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in served]
        return all(connection.request("GET", path, headers=_JSON).status == 200 for path in paths)
