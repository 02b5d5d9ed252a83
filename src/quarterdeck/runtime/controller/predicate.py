"""Which changes matter.

A predicate answers for the four kinds of change separately; where it has no opinion it lets the change
pass. Predicates combine with ``&``, ``|`` and ``~``. All predicates of a watch must let a change pass;
those of the controller are asked first.

**The trap.** A controller that only looks at ``metadata.generation`` misses labels, annotations and
finalizers, and deletions of kinds that do not maintain generation (ConfigMap, Secret, Node): users keep
losing finalizer runs to it. ``generation_changed`` therefore includes ``deletion_started``; the bare form
is ``strict_generation_changed``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from quarterdeck.api import Selector
from quarterdeck.client.option import Labels
from quarterdeck.runtime.cache.entry import Entry
from quarterdeck.runtime.cache.fieldpath import parse_path
from quarterdeck.runtime.cache.projection import Projection
from quarterdeck.runtime.cache.store import Change
from quarterdeck.runtime.controller.change import ObjectEvent

T = TypeVar("T")
Test: TypeAlias = Callable[[ObjectEvent[Any]], bool]


def _pass(_event: ObjectEvent[Any]) -> bool:
    return True


def never(_event: ObjectEvent[Any]) -> bool:
    """The answer of a predicate to a change that does not matter, whatever the object."""
    return False


class Predicate:
    """Four answers, one per kind of change; an answer that is not given is yes."""

    __slots__ = ("_tests", "name")

    def __init__(
        self,
        name: str = "predicate",
        *,
        create: Test = _pass,
        update: Test = _pass,
        delete: Test = _pass,
        generic: Test = _pass,
    ) -> None:
        self.name: Final = name
        self._tests: Final[Mapping[Change, Test]] = {
            Change.ADDED: create,
            Change.UPDATED: update,
            Change.DELETED: delete,
            Change.GENERIC: generic,
        }

    def __call__(self, event: ObjectEvent[Any]) -> bool:
        """Whether the change matters."""
        return self._tests[event.change](event)

    def refuses(self, change: Change) -> bool:
        """Whether no change of this sort matters: then nobody need ask, object by object."""
        return self._tests[change] is never

    def __and__(self, other: "Predicate") -> "Predicate":
        return _combined(f"({self.name} & {other.name})", lambda event: self(event) and other(event))

    def __or__(self, other: "Predicate") -> "Predicate":
        return _combined(f"({self.name} | {other.name})", lambda event: self(event) or other(event))

    def __invert__(self) -> "Predicate":
        return _combined(f"~{self.name}", lambda event: not self(event))

    def __repr__(self) -> str:
        return self.name


def _combined(name: str, test: Test) -> Predicate:
    return Predicate(name, create=test, update=test, delete=test, generic=test)


def update_if(test: Callable[[Entry, Entry], bool], name: str = "update_if") -> Predicate:
    """Let an update pass if ``test(old, new)`` says so; everything else passes.

    So does an object that a restored server has as it once was: its status is older, too, whatever else is.
    """

    def update(event: ObjectEvent[Any]) -> bool:
        assert event.old is not None
        assert event.new is not None
        return test(event.old, event.new) or event.is_rewound

    return Predicate(name, update=update)


def object_matches(test: Callable[[T], bool], name: str = "object_matches") -> Predicate:
    """Let a change pass if ``test`` accepts the newest state of the object; decodes it."""
    return _combined(name, lambda event: test(event.object))


deletion_started: Final = update_if(
    lambda old, new: new.is_deleting and not old.is_deleting, "deletion_started"
)
"""Updates in which the deletion timestamp appeared."""

strict_generation_changed: Final = update_if(
    lambda old, new: old.generation != new.generation, "strict_generation_changed"
)
"""Updates of ``metadata.generation`` and nothing else; see the trap above."""

generation_changed: Final = update_if(
    lambda old, new: old.generation != new.generation or (new.is_deleting and not old.is_deleting),
    "generation_changed",
)
"""Updates of the specification, and the start of a deletion."""

resource_version_changed: Final = update_if(
    lambda old, new: old.resource_version != new.resource_version, "resource_version_changed"
)
"""Updates that changed anything; drops resyncs."""

labels_changed: Final = update_if(lambda old, new: old.labels != new.labels, "labels_changed")
"""Updates of labels."""


class _AnnotationsMeta(msgspec.Struct, gc=False):
    annotations: dict[str, str] | None = None


class _Annotations(msgspec.Struct, gc=False):
    metadata: _AnnotationsMeta


_annotations: Final = msgspec.json.Decoder(_Annotations)


def _annotations_of(entry: Entry) -> dict[str, str]:
    return _annotations.decode(entry.raw).metadata.annotations or {}


annotations_changed: Final = update_if(
    lambda old, new: _annotations_of(old) != _annotations_of(new), "annotations_changed"
)
"""Updates of annotations."""


def label_matches(labels: Labels) -> Predicate:
    """Changes of objects whose labels match now."""
    selector = Selector.of(labels)
    return _combined(f"label_matches({selector})", lambda event: selector.matches(event.entry.labels))


def spec_changed(*paths: str) -> Predicate:
    """Updates of ``spec``, or of the paths below it that are named."""
    return _part_changed("spec", paths)


def status_changed(*paths: str) -> Predicate:
    """Updates of ``status``, or of the paths below it that are named."""
    return _part_changed("status", paths)


def _part_changed(part: str, paths: tuple[str, ...]) -> Predicate:
    whole = [f"{part}.{path}" for path in paths] or [part]
    projection = Projection([parse_path(path) for path in whole])
    return update_if(
        lambda old, new: not projection.same(old.raw, new.raw), f"{part}_changed({', '.join(paths)})"
    )


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""


class _ConditionStatus(msgspec.Struct, gc=False):
    conditions: list[_Condition] | None = None


class _Conditions(msgspec.Struct, gc=False):
    status: _ConditionStatus | None = None


_conditions: Final = msgspec.json.Decoder(_Conditions)


def condition_changed(type: str) -> Predicate:
    """Updates in which a condition appeared, vanished, or changed its status or reason."""

    def state(entry: Entry) -> tuple[str, str] | None:
        try:
            status = _conditions.decode(entry.raw).status
        except msgspec.ValidationError:
            return None
        for condition in (status.conditions if status is not None else None) or ():
            if condition.type == type:
                return condition.status, condition.reason
        return None

    return update_if(lambda old, new: state(old) != state(new), f"condition_changed({type})")
