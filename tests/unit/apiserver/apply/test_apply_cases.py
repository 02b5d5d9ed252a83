"""The server-side apply cases of the case file, played on the field manager alone.

What a server adds around it (defaulting, resource versions, validation) is left out: the one default that
the cases show is filled in, answers are compared in the parts that come from the field manager.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver.apply import FieldManager, builtin_model, custom_model
from quarterdeck.apiserver.status import StatusError
from tests.harness.matching import mismatches

Json = dict[str, Any]

FILE = json.loads((Path(__file__).parents[3] / "cases" / "apiserver.json").read_text())
CASES = [case for case in FILE["cases"] if case["id"].startswith("ssa-")]
CONFIGMAP_CASES = [
    case
    for case in FILE["cases"]
    if case["id"] in ("apply-conflict-with-update", "apply-same-value-shared-ownership", "apply-yaml-body")
]
NOW = "2026-01-01T00:00:00Z"


def default(schema: Json, value: Any) -> None:
    """Fill the defaults of fields in the objects and lists that are there."""
    if isinstance(value, dict):
        for name, below in schema.get("properties", {}).items():
            if "default" in below and name not in value:
                value[name] = copy.deepcopy(below["default"])
            if name in value:
                default(below, value[name])
    elif isinstance(value, list):
        for item in value:
            default(schema.get("items", {}), item)


class Server:
    """Just enough of one: the object of the one path that a case works on."""

    def __init__(self, case: Json) -> None:
        self.live: Json | None = None
        self.schemas: dict[str, Json] = {}
        for name in case["given"].get("fixtures", []):
            crd = FILE["fixtures"][name]["spec"]
            for version in crd["versions"]:
                self.schemas[f"{crd['group']}/{version['name']}"] = version["schema"]["openAPIV3Schema"]
        models = {name: custom_model(schema) for name, schema in self.schemas.items()}
        models = models or {"v1": builtin_model("", "v1", "ConfigMap")}
        self.manager = FieldManager(models.get)

    def request(self, step: Json) -> tuple[int, Json]:
        query = step.get("query", {})
        manager = query.get("fieldManager", "runner")
        version = step["path"].split("/")[3] if step["path"].startswith("/apis/") else ""
        api_version = f"{step['path'].split('/')[2]}/{version}" if version else "v1"
        live = None if self.live is None else {**copy.deepcopy(self.live), "apiVersion": api_version}
        if step["method"] == "GET":
            return (404, {}) if live is None else (200, live)
        body = copy.deepcopy(step.get("body")) or {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a"},
            "data": {"k": "v"},
        }
        if step["method"] == "PATCH":
            options = {"manager": manager, "api_version": api_version, "force": "force" in query}
            try:
                body = self.manager.apply(live, body, **options, now=NOW)
            except StatusError as error:
                return error.code, error.to_status()
        elif step["method"] in ("PUT", "POST"):
            default(self.schemas.get(api_version, {}), body)
            self.manager.update(live, body, manager=manager, api_version=api_version, now=NOW)
        default(self.schemas.get(api_version, {}), body)
        body["metadata"]["uid"] = "u"
        self.live = body
        return (201 if live is None else 200), copy.deepcopy(body)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES + CONFIGMAP_CASES])
def test_case(case: Json) -> None:
    server = Server(case)
    for step, expected in zip(case["when"]["steps"], case["then"]["steps"], strict=True):
        status, body = server.request(step)
        assert status == expected["status"], body
        assert mismatches(expected.get("body", {}), body) == []
