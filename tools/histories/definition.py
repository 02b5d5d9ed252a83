"""The history's own CustomResourceDefinition, and how it is edited.

Its versions are converted by changing `apiVersion` only, or by a webhook, which is moved, broken and mended.
Every edit raises `mark`, the greatest value that the field `spec.mark` may have: a dry run that is refused
with that number shows that the edit is in force. The real server learns of its definitions a little later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

Json = dict[str, Any]
PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAMED: Final = f"{PATH}/widgets.$u.example.com"
CONVERSIONS: Final = ("rename", "plain", "boom", "failing")
_MOST_EDITS: Final = 60


@dataclass(frozen=True)
class Definition:
    """What differs from edit to edit; the rest of the document is always the same."""

    mark: int = 1
    served: tuple[str, ...] = ("v1",)
    versions: tuple[str, ...] = ("v1", "v2")
    storage: str = "v1"
    note_default: str = ""
    has_parts: bool = True
    keeps_unknown: bool = False
    max_size: int = 9
    rule: str = ""
    columns: int = 0
    has_status: bool = True
    has_scale: bool = False
    #: how versions are converted: "" or one of CONVERSIONS
    conversion: str = ""
    #: versions that something may be stored in or was written through
    used: frozenset[str] = frozenset({"v1"})

    def edited(self, random: Random, *, hides: bool) -> Definition:
        """Another definition that the server accepts; at least one version stays served. hides: v1 may go."""
        change: Json = random.choice(
            [
                {"note_default": random.choice(["", "dflt", "other"])},
                {"has_parts": not self.has_parts},
                {"keeps_unknown": not self.keeps_unknown},
                {"max_size": random.choice([3, 9])},
                {
                    "rule": random.choice(
                        ["", "!has(self.size) || self.size != 4", "self.size >= oldSelf.size"]
                    )
                },
                {"columns": (self.columns + 1) % 3},
                {"has_status": not self.has_status},
                {"has_scale": not self.has_scale},
                self._other_versions(random),
                {"served": random.choice([("v1",), ("v2",), ("v1", "v2")])},
                {"storage": "v2" if self.storage == "v1" else "v1"},
                {"conversion": random.choice(["", *CONVERSIONS])},
                {"conversion": random.choice(["rename", "plain"])},
            ]
        )
        edited = replace(self, mark=self.mark + 1, **change)
        versions = edited.versions
        served = tuple(name for name in edited.served if name in versions) or versions[:1]
        if not hides and "v1" not in served:
            served = ("v1", *served)
        storage = edited.storage if edited.storage in versions else versions[0]
        return replace(edited, served=served, storage=storage, used=self.used | {storage, *self.served})

    def _other_versions(self, random: Random) -> Json:
        """One that something may be stored in stays, else the server refuses; nor goes what was written
        through: the real server forgets all owners of an object then."""
        versions = random.choice([("v1", "v2"), ("v1", "v2", "v3"), ("v1",), ("v2",)])
        needed = self.used | {self.storage, *self.served}
        kept = tuple(name for name in ("v1", "v2", "v3") if name in versions or name in needed)
        return {"versions": kept, "served": kept}

    @property
    def is_broken(self) -> bool:
        return self.conversion in ("boom", "failing")

    def change(self) -> Json:
        """A merge patch that makes an older definition this one."""
        conversion = self._conversion()
        return {
            "spec": {
                "versions": [self._version(name) for name in self.versions],
                "conversion": {"webhook": None, **conversion},
            }
        }

    def _conversion(self) -> Json:
        if not self.conversion:
            return {"strategy": "None"}
        client = {"url": f"$hook/{self.conversion}-{self.mark}", "caBundle": "$ca"}
        return {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }

    def document(self) -> Json:
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.$u.example.com"},
            "spec": {
                "group": "$u.example.com",
                "scope": "Namespaced",
                "names": {
                    "plural": "widgets",
                    "singular": "widget",
                    "kind": "Widget",
                    "listKind": "WidgetList",
                },
                "versions": [self._version(name) for name in self.versions],
                "conversion": self._conversion(),
            },
        }

    def _version(self, name: str) -> Json:
        subresources: Json = {}
        if self.has_status:
            subresources["status"] = {}
        if self.has_scale:
            paths = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
            subresources["scale"] = paths
        columns = [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ]
        return {
            "name": name,
            "served": name in self.served,
            "storage": name == self.storage,
            "subresources": subresources,
            "additionalPrinterColumns": columns[: self.columns],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": self._properties()}},
        }

    def _properties(self) -> Json:
        spec: Json = {
            "mark": {"type": "integer", "maximum": self.mark},
            "size": {"type": "integer", "minimum": 0, "maximum": self.max_size},
            "color": {"type": "string", "enum": ["red", "blue", "green"]},
            "colour": {"type": "string"},
        }
        if self.note_default:
            spec["note"] = {"type": "string", "default": self.note_default}
        if self.has_parts:
            part = {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}}
            spec["parts"] = {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": part},
            }
        schema: Json = {"type": "object", "properties": spec}
        if self.keeps_unknown:
            schema["x-kubernetes-preserve-unknown-fields"] = True
        if self.rule:
            schema["x-kubernetes-validations"] = [{"rule": self.rule, "message": "the rule says no"}]
        status = {"phase": {"type": "string"}, "size": {"type": "integer"}}
        return {"spec": schema, "status": {"type": "object", "properties": status}}


def conversion_scripts() -> dict[str, Json]:
    """What the endpoint answers, by the last part of the path."""
    rename = {f"{old}->v2": {"color": "colour"} for old in ("v1", "v3")}
    rename |= {f"v2->{new}": {"colour": "color"} for new in ("v1", "v3")}
    forms: dict[str, Json] = {
        "rename": {"rename": rename},
        "plain": {},
        "boom": {"httpStatus": 500},
        "failing": {"result": {"status": "Failure", "message": "not now"}},
    }
    return {f"{form}-{number}": forms[form] for form in forms for number in range(1, _MOST_EDITS)}
