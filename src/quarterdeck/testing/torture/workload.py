"""What somebody does to the operator's kind: create an object, edit it, delete it, create it again. Pure.

A workload file is a list of steps, each with one key::

    - create: cluster.yaml          # a file beside this one, or the document itself
    - edit: {spec: {replicas: 5}}   # a merge patch of the object that was created last
    - delete: {}                    # the same object

``edit`` and ``delete`` may name another object by ``of: {apiVersion, kind, name, namespace}``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from quarterdeck.errors import ConfigError

Json = dict[str, Any]
Verb = Literal["create", "edit", "delete"]
_VERBS: Final = ("create", "edit", "delete")


class Step(msgspec.Struct, frozen=True):
    """One thing that is done, after which everything may come to rest."""

    verb: Verb
    object: Json
    """What is created; for other verbs apiVersion, kind and metadata say which object is meant."""
    patch: Json = {}
    """What an edit changes: a merge patch."""
    must_be_refused: bool = False
    """Whether the API must not take it: an invalid value, which changes nothing."""

    @property
    def label(self) -> str:
        """The step in a few words."""
        name = f"{self.object['kind']} {self.object['metadata']['name']}"
        if self.verb != "edit":
            return f"{self.verb} {name}"
        change = msgspec.json.encode(self.patch).decode()
        return f"edit {name} {change if len(change) < 100 else change[:97] + '...'}"


class Workload(msgspec.Struct, frozen=True):
    """Steps in order."""

    steps: tuple[Step, ...]

    def kept(self, places: Sequence[int]) -> "Workload":
        """Only the steps at these places."""
        return Workload(tuple(self.steps[place] for place in places))


def identity(document: Mapping[str, Any]) -> Json:
    """What says which object a document is, and nothing more."""
    metadata = {
        key: document["metadata"][key] for key in ("name", "namespace") if key in document["metadata"]
    }
    return {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}


def usual_workload(sample: Json, edits: Sequence[Json] = ()) -> Workload:
    """Create, edit there and back, delete, and all over again under the same name."""
    which = identity(sample)
    create, delete = Step("create", sample), Step("delete", which)
    return Workload((create, *(Step("edit", which, each) for each in edits), delete, create, delete))


def read_workload(steps: object, sample: Json, load: Callable[[str | Json], Json]) -> Workload:
    """A workload from its file's content; raises ``ConfigError``.

    ``load`` gives the object for a file's name, or for a document of the workload that may lack a namespace.
    """
    if not isinstance(steps, list) or not steps:
        raise ConfigError("a workload is a list of steps: create, edit or delete")
    current, made = sample, []
    for place, each in enumerate(steps, 1):
        verbs = [verb for verb in _VERBS if isinstance(each, dict) and verb in each]
        if len(verbs) != 1:
            raise ConfigError(f"step {place} of the workload needs one of create, edit, delete")
        given = each[verbs[0]]
        if verbs[0] == "create":
            current = load(given) if given else sample
            made.append(Step("create", _checked(current, place)))
            continue
        which = each.get("of") or current
        if "metadata" not in which:
            which = {**which, "metadata": {key: which[key] for key in ("name", "namespace") if key in which}}
        which = identity(_checked(which, place))
        made.append(Step("edit", which, given) if verbs[0] == "edit" else Step("delete", which))
    return Workload(tuple(made))


def _checked(document: Any, place: int) -> Json:
    if not isinstance(document, dict) or not all(
        key in document for key in ("apiVersion", "kind", "metadata")
    ):
        raise ConfigError(f"step {place} of the workload needs apiVersion, kind and metadata of its object")
    return document
