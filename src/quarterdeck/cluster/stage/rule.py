"""A Stage, compiled: whom it concerns, when it is due, and what it does. Pure; dice are given to it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import msgspec

from quarterdeck.api import Time
from quarterdeck.api.duration import parse_duration
from quarterdeck.api.manifest import load_documents
from quarterdeck.cluster.stage import function
from quarterdeck.cluster.stage.error import StageError
from quarterdeck.cluster.stage.function import Surroundings
from quarterdeck.cluster.stage.jq import Query, query
from quarterdeck.cluster.stage.template import Template

Document = Mapping[str, Any]
_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_PATCHES: Final = ("json", "merge", "strategic")


class Event(NamedTuple):
    """Tell of it."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Finalizers(NamedTuple):
    """Change the finalizers."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    empties: bool = False

    def change(self, known: Sequence[str]) -> list[str]:
        """What they become."""
        if self.empties:
            return []
        kept = [each for each in known if each not in self.remove]
        return [*kept, *(each for each in self.add if each not in kept)]


class Removal(NamedTuple):
    """Delete the object."""


class Patch(NamedTuple):
    """Change the object by a template."""

    template: Template
    root: str
    subresource: str
    type: str

    def body(self, document: Document, around: Surroundings) -> Any:
        """What to send; raises ``StageError``."""
        text = self.template.render(document, function.functions(around))
        found = next(iter(load_documents(text.encode())), None)
        if self.type == "json":
            operations = found if isinstance(found, list) else []
            return [
                {**each, "path": f"/{self.root}{each['path']}"} if self.root else each for each in operations
            ]
        if found is not None and not isinstance(found, dict):
            raise StageError("template: what it makes is no map")
        return {self.root: found or {}} if self.root else found or {}


Step = Event | Finalizers | Removal | Patch


class _Requirement(NamedTuple):
    query: Query
    operator: str
    values: frozenset[str]

    def holds(self, document: Document) -> bool:
        found = self.query.values(document)
        is_negative = self.operator in ("NotIn", "DoesNotExist")
        if self.operator in ("Exists", "DoesNotExist"):
            return bool(found) != is_negative
        return any(_text(each) in self.values for each in found or ()) != is_negative


class _Amount(NamedTuple):
    """A number that the object may say."""

    value: float | None
    query: Query | None

    def said(self, document: Document) -> Any:
        found = self.query.values(document) if self.query is not None else None
        return found[0] if found else None


class StageRule(msgspec.Struct, frozen=True, kw_only=True):
    """A Stage."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requirements: tuple[_Requirement, ...]
    steps: tuple[Step, ...]
    weight: _Amount
    duration: _Amount
    jitter: _Amount

    def concerns(self, document: Document) -> bool:
        """Whether an object is in the state that the stage is about."""
        metadata = document.get("metadata") or {}
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        return (
            all(labels.get(key) == value for key, value in self.labels.items())
            and all(annotations.get(key) == value for key, value in self.annotations.items())
            and all(each.holds(document) for each in self.requirements)
        )

    def weight_for(self, document: Document) -> int | None:
        """How likely it is among others; none if what the object says is no number."""
        said = self.weight.said(document)
        if said is None:
            return int(self.weight.value or 0)
        try:
            return int(said)
        except (TypeError, ValueError):
            return None

    def delay(self, document: Document, now: float, dice: random.Random) -> float:
        """Seconds until it is due."""
        shortest = _seconds(self.duration, document, now)
        longest = _seconds(self.jitter, document, now)
        if shortest is None:
            return 0.0
        if longest is None:
            return max(shortest, 0.0)
        if longest <= shortest:
            return max(longest, 0.0)
        return max(dice.uniform(shortest, longest), 0.0)


def choose(rules: Sequence[StageRule], document: Document, dice: random.Random) -> StageRule:
    """One of several that concern an object, by weight; all are equal where nobody has any."""
    if len(rules) == 1:
        return rules[0]
    weighed = [(rule, rule.weight_for(document)) for rule in rules]
    known = [(rule, weight) for rule, weight in weighed if weight is not None]
    if not known:
        return dice.choice(rules)
    if not any(weight > 0 for _, weight in known):
        return dice.choice(known)[0]
    likely = [(rule, weight) for rule, weight in known if weight > 0]
    return dice.choices([rule for rule, _ in likely], [weight for _, weight in likely])[0]


def _seconds(amount: _Amount, document: Document, now: float) -> float | None:
    said = amount.said(document)
    if isinstance(said, str) and said:
        try:
            return Time(said).timestamp() - now
        except ValueError:
            pass
        try:
            return parse_duration(said) / 1e9
        except ValueError:
            pass
    return amount.value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def kind_of(stage: Document) -> tuple[str, str]:
    """What a Stage is about: version and kind."""
    reference = (stage.get("spec") or {}).get("resourceRef") or {}
    return reference.get("apiGroup") or "v1", reference.get("kind") or ""


@lru_cache(maxsize=256)
def compiled(raw: bytes) -> StageRule | None:
    """A Stage as it is stored; none if it has no selector, and so concerns nobody. Raises ``StageError``."""
    stage = msgspec.json.decode(raw)
    spec = stage.get("spec") or {}
    selector = spec.get("selector")
    if selector is None:
        return None
    delay = spec.get("delay") or {}
    return StageRule(
        name=stage["metadata"]["name"],
        labels=selector.get("matchLabels") or {},
        annotations=selector.get("matchAnnotations") or {},
        requirements=tuple(map(_requirement, selector.get("matchExpressions") or ())),
        steps=tuple(_steps(spec)),
        weight=_amount(spec.get("weight"), spec.get("weightFrom"), 1.0),
        duration=_amount(
            delay.get("durationMilliseconds"), delay.get("durationFrom"), 0.001, is_set=bool(delay)
        ),
        jitter=_amount(delay.get("jitterDurationMilliseconds"), delay.get("jitterDurationFrom"), 0.001),
    )


def _requirement(expression: Document) -> _Requirement:
    if expression.get("cel"):
        raise StageError("selector: cel is not available here, use jq")
    words = expression.get("jq") or expression
    operator = words.get("operator") or ""
    if operator not in _OPERATORS:
        raise StageError(f"selector: operator {operator!r} is not one of {', '.join(_OPERATORS)}")
    return _Requirement(query(words.get("key") or "."), operator, frozenset(words.get("values") or ()))


def _amount(value: Any, source: Document | None, unit: float, *, is_set: bool = False) -> _Amount:
    found: Query | None = None
    if source:
        if source.get("cel"):
            raise StageError("cel is not available here, use jq")
        text = (source.get("jq") or {}).get("expression") or source.get("expressionFrom") or ""
        found = query(text) if text else None
    number = value * unit if value is not None else (0.0 if is_set else None)
    return _Amount(number, found)


def _steps(spec: Document) -> Iterable[Step]:
    following = spec.get("next") or {}
    if spec.get("steps"):
        for each in spec["steps"]:
            yield from _step(each, [each["patch"]] if each.get("patch") else [])
        return
    patches = list(following.get("patches") or ())
    if following.get("statusPatchAs"):
        raise StageError("next: statusPatchAs is not available here")
    if following.get("statusTemplate"):
        patches.append({"template": following["statusTemplate"], "root": "status", "subresource": "status"})
    yield from _step(following, patches)


def _step(step: Document, patches: Iterable[Document]) -> Iterable[Step]:
    if step.get("apply"):
        raise StageError("steps: apply is not available here")
    event = step.get("event")
    if event:
        kind: Literal["Normal", "Warning"] = "Warning" if event.get("type") == "Warning" else "Normal"
        yield Event(kind, event.get("reason") or "", event.get("message") or "")
    finalizers = step.get("finalizers")
    if finalizers:
        yield Finalizers(
            tuple(each.get("value") or "" for each in finalizers.get("add") or ()),
            tuple(each.get("value") or "" for each in finalizers.get("remove") or ()),
            bool(finalizers.get("empty")),
        )
    if step.get("delete"):
        yield Removal()
        return
    for patch in patches:
        yield _patch(patch)


def _patch(patch: Document) -> Patch:
    if patch.get("impersonation"):
        raise StageError("patches: impersonation is not available here")
    subresource, kind = patch.get("subresource") or "", patch.get("type") or "strategic"
    if subresource not in ("", "status"):
        raise StageError(f"patches: subresource {subresource!r} is not available here")
    if kind not in _PATCHES:
        raise StageError(f"patches: type {kind!r} is not one of {', '.join(_PATCHES)}")
    return Patch(
        Template(patch.get("template") or "", function.KNOWN), patch.get("root") or "", subresource, kind
    )
