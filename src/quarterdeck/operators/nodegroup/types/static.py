"""``spec.staticInstances``: machines that exist already and are taken in by label."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Map, Maybe, Model, Seq
from quarterdeck.api.marker import Atomic, Cel, Default, Ge, Len, OneOf, Pattern


class SelectorExpression(
    Model,
    rules=[
        OneOf(
            {
                "properties": {"operator": {"enum": ["Exists", "DoesNotExist"]}},
                "required": ["key", "operator"],
                "not": {"required": ["values"]},
            },
            {
                "properties": {"operator": {"enum": ["In", "NotIn"]}},
                "required": ["key", "operator", "values"],
            },
        )
    ],
):
    """One requirement."""

    key: Maybe[str] = UNSET
    operator: Maybe[str] = UNSET
    values: Maybe[Seq[Annotated[str, Pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"), Len(1, 63)]]] = UNSET


class StaticSelector(Model, rules=[Atomic()]):
    """Which StaticInstances belong to the group."""

    match_labels: Maybe[Map[str, str]] = UNSET
    match_expressions: Maybe[Seq[SelectorExpression]] = UNSET


class StaticInstances(
    Model,
    rules=[
        Cel(
            "!has(oldSelf.labelSelector) || self.labelSelector == oldSelf.labelSelector",
            message="spec.staticInstances.labelSelector can be added but cannot be modified once set. "
            "To change it, create a new NodeGroup.",
        )
    ],
):
    """Existing machines that are adopted by label."""

    label_selector: Maybe[StaticSelector] = UNSET
    count: Annotated[Maybe[int], Default(0), Ge(0)] = UNSET
    """How many machines to adopt."""
