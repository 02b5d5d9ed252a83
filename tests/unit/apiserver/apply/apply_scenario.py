"""A small language for histories of one object: who wrote what, and what came of it.

    Scenario(
        "a name that says the behaviour",
        LEAVES,
        [apply("a", {"num": 1}), update("b", {"num": 2})],
        spec={"num": 2},
        owners={"b": ".num"},
    )

Specs stand for whole objects; owners map a manager (`name`, `name@v2`) to the paths below .spec that its
entry owns, written one after another. An update replaces the whole spec.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from quarterdeck.apiserver.apply import FieldManager, custom_model, fieldset
from quarterdeck.apiserver.status import StatusError

Json = dict[str, Any]

GROUP = "apply.example.com"
KIND = "Thing"
NOW = "2026-01-01T00:00:00Z"

STRING: Json = {"type": "string"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
FREE: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def struct(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


def mapping(element: Json) -> Json:
    return {"type": "object", "additionalProperties": element}


def atomic(schema: Json) -> Json:
    is_list = schema["type"] == "array"
    return {**schema, "x-kubernetes-list-type" if is_list else "x-kubernetes-map-type": "atomic"}


def listing(items: Json) -> Json:
    return {"type": "array", "items": items}


def setlist(items: Json) -> Json:
    return {**listing(items), "x-kubernetes-list-type": "set"}


def keyed(*keys: str, **properties: Json) -> Json:
    items = {"type": "object", "properties": properties}
    return {**listing(items), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


@dataclass(frozen=True)
class Step:
    verb: str
    manager: str
    spec: Any
    version: str = "v1"
    force: bool = False
    #: manager -> paths, if the step must fail with these conflicts
    conflicts: Mapping[str, str] = field(default_factory=dict)
    #: spec schema to change to before the step
    schema: Json | None = None


def apply(manager: str, spec: Any, version: str = "v1", **more: Any) -> Step:
    return Step("apply", manager, spec, version, **more)


def force(manager: str, spec: Any, version: str = "v1", **more: Any) -> Step:
    return Step("apply", manager, spec, version, force=True, **more)


def update(manager: str, spec: Any, version: str = "v1", **more: Any) -> Step:
    return Step("update", manager, spec, version, **more)


@dataclass(frozen=True)
class Scenario:
    name: str
    schema: Json
    steps: Sequence[Step]
    spec: Any
    owners: Mapping[str, str]
    versions: Sequence[str] = ("v1", "v2", "v3")


def scenarios(*all_of_them: Scenario) -> pytest.MarkDecorator:
    """The decorator of a test that takes each scenario in turn."""
    return pytest.mark.parametrize("scenario", [pytest.param(each, id=each.name) for each in all_of_them])


class History:
    """One object and its field manager."""

    def __init__(self, schema: Json, versions: Sequence[str] = ("v1", "v2", "v3"), **options: Any) -> None:
        self.versions = list(versions)
        self.live: Json | None = None
        self._model = custom_model(struct(spec=schema))
        self.manager = FieldManager(self._model_for_version, kind=KIND, **options)

    def change_schema(self, schema: Json) -> None:
        self._model = custom_model(struct(spec=schema))

    def run(self, step: Step) -> None:
        if step.schema is not None:
            self.change_schema(step.schema)
        api_version = f"{GROUP}/{step.version}"
        obj: Json = {"apiVersion": api_version, "kind": KIND, "metadata": {"name": "o"}}
        if step.spec is not None:
            obj["spec"] = copy.deepcopy(step.spec)
        live = None if self.live is None else {**copy.deepcopy(self.live), "apiVersion": api_version}
        before = copy.deepcopy(live)
        if step.verb == "apply":
            options: Json = {"manager": step.manager, "api_version": api_version, "force": step.force}
            if step.conflicts:
                with pytest.raises(StatusError) as caught:
                    self.manager.apply(live, obj, **options, now=NOW)
                assert conflicts_of(caught.value) == step.conflicts
                return
            self.live = self.manager.apply(live, obj, **options, now=NOW)
        else:
            if live is not None:
                obj["metadata"] = {"name": "o", "uid": "u"}
            self.manager.update(live, obj, manager=step.manager, api_version=api_version, now=NOW)
            self.live = obj
        assert live == before, "the live object was changed"
        self.live["metadata"]["uid"] = "u"

    def spec(self) -> Any:
        assert self.live is not None
        return self.live.get("spec")

    def owners(self) -> dict[str, str]:
        assert self.live is not None
        return {
            entry["manager"]
            + ("" if entry["apiVersion"] == f"{GROUP}/v1" else "@" + entry["apiVersion"][-2:]): (
                paths_below_spec(entry["fieldsV1"])
            )
            for entry in self.live["metadata"].get("managedFields", [])
        }

    def _model_for_version(self, api_version: str) -> Any:
        return self._model if api_version.removeprefix(GROUP + "/") in self.versions else None


def check(scenario: Scenario) -> None:
    history = History(scenario.schema, scenario.versions)
    for step in scenario.steps:
        history.run(step)
    assert history.spec() == scenario.spec
    assert history.owners() == {name: normal(paths) for name, paths in scenario.owners.items()}


def paths_below_spec(fields: fieldset.FieldSet) -> str:
    rendered = [fieldset.render(path).removeprefix(".spec") or "." for path in fieldset.paths(fields)]
    return normal(" ".join(rendered))


def normal(paths: str) -> str:
    return " ".join(sorted(paths.split()))


def conflicts_of(error: StatusError) -> dict[str, str]:
    assert error.code == 409, error.message
    assert error.details is not None
    found: dict[str, list[str]] = {}
    for cause in error.details["causes"]:
        manager = cause["message"].removeprefix('conflict with "').partition('"')[0]
        found.setdefault(manager, []).append(cause["field"].removeprefix(".spec"))
    return {manager: normal(" ".join(paths)) for manager, paths in found.items()}
