"""What a history is written with: its steps so far, and a rough idea of what exists on the server.

The idea need not be right: both servers hear the same.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from .access import USER, Access
from .definition import Definition
from .kind import BUILTINS, Kind, widgets

Json = dict[str, Any]
Step = dict[str, Any]
NAMESPACES: Final = ("$u-a", "$u-b")
NAMES: Final = ("one", "two")
PATCHES: Final = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
#: of a definition: what controllers of the real server write, a little later
ASYNCHRONOUS: Final = ["metadata.resourceVersion", "metadata.managedFields"]
UNSETTLED: Final = [*ASYNCHRONOUS, "status"]


class Author:
    """The steps, and where things probably are."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.steps: list[Step] = []
        self.builtins: list[Kind] = random.sample(BUILTINS, 2)
        if any(kind.sibling is not None for kind in self.builtins):
            self.builtins += [kind.sibling for kind in self.builtins if kind.sibling is not None]
        #: whether versions that webhooks were told of may go: the real server does not forget those
        self.hides_versions = random.random() < 0.4
        self.definition: Definition | None = None
        self.access: Access | None = None
        #: the last write of an object by its path, as far as we know
        self.objects: dict[str, int] = {}
        #: steps whose answers have a revision
        self.revisions: list[int] = []
        #: those of them that have an object's: one of a list may be anybody's
        self.writes: list[int] = []
        #: open streams: step number -> (kind, namespace)
        self.watches: dict[int, tuple[Kind, str]] = {}

    def add(self, op: str, **fields: Any) -> int:
        number = len(self.steps)
        self.steps.append({"i": number, "op": op, **{name: value for name, value in fields.items() if value}})
        return number

    def request(self, method: str, path: str, **fields: Any) -> int:
        """Sometimes as somebody who may not do everything."""
        if self.access is not None and self.random.random() < 0.2:
            fields["as"] = USER
        return self.admin(method, path, **fields)

    def admin(self, method: str, path: str, **fields: Any) -> int:
        return self.add("request", method=method, path=path, **fields)

    def kinds(self) -> list[Kind]:
        if self.definition is None:
            return self.builtins
        # all versions: one that is not served is refused, and that must be the same, too
        return [*self.builtins, *(widgets(name) for name in self.definition.versions), widgets("v1")]

    def place(self) -> tuple[Kind, str, str]:
        return self.random.choice(self.kinds()), self._namespace(), self.random.choice(NAMES)

    def collection(self) -> tuple[Kind, str]:
        """Not one whose objects cannot be converted: the real server answers when its cache gives up."""
        kinds = self.builtins if self.cannot_convert else self.kinds()
        return self.random.choice(kinds), self._namespace()

    @property
    def cannot_convert(self) -> bool:
        return self.definition is not None and self.definition.is_broken

    def _namespace(self) -> str:
        return NAMESPACES[0] if self.random.random() < 0.85 else NAMESPACES[1]

    def known(self) -> tuple[Kind, str, str]:
        """Where something probably is."""
        for _ in range(6):
            kind, namespace, name = self.place()
            if kind.path(namespace, name) in self.objects:
                break
        return kind, namespace, name

    def wrote(self, kind: Kind, namespace: str, name: str, number: int) -> None:
        self.revisions.append(number)
        self.writes.append(number)
        for each in self.kinds():
            if each.kind == kind.kind:
                self.objects[each.path(namespace, name)] = number

    def forget(self, kind: Kind, namespace: str, name: str) -> None:
        for each in self.kinds():
            if each.kind == kind.kind:
                self.objects.pop(each.path(namespace, name), None)

    def forget_customs(self) -> None:
        self.objects = {path: n for path, n in self.objects.items() if "/widgets/" not in path}

    def body(self, kind: Kind, name: str, labels: Json | None = None, **content: Any) -> Json:
        meta: Json = {"name": kind.name(name)}
        if not kind.is_namespaced:  # lists of it are of this history only
            labels = {"u": "$u", **(labels or {})}
        if labels:
            meta["labels"] = labels
        return {"apiVersion": kind.version, "kind": kind.kind, "metadata": meta, **content}


def answered(number: int, what: str) -> str:
    """A reference to what a step was answered."""
    return f"${{{number}.{what}}}"


def query_of(*parts: str) -> str:
    return "&".join(part for part in parts if part)
