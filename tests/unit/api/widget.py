"""A small kind used by the tests of this folder."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import (
    UNSET,
    Column,
    Condition,
    Map,
    Maybe,
    Model,
    Quantity,
    Resource,
    Seq,
    Time,
    omitempty,
)
from quarterdeck.api.marker import ListMap
from quarterdeck.api.model import EMPTY_MAP, JsonField, JsonObjectField, field


class Part(Model):
    """A part of a widget."""

    name: str
    size: Maybe[int] = UNSET
    tags: Map[str, str] = omitempty(EMPTY_MAP)


class WidgetSpec(Model):
    """What a widget should be."""

    image: str
    replicas: int = 1
    """How many."""
    suspend: bool = False
    note: Maybe[str] = UNSET
    nullable: Maybe[str | None] = UNSET
    storage_uri: Maybe[str] = field(name="storageUri", default=UNSET)
    main: Part = omitempty(Part(name=""))
    parts: Annotated[Seq[Part], ListMap("name")] = omitempty(())
    by_name: Map[str, Part] = omitempty(EMPTY_MAP)
    limits: Map[str, Quantity] = omitempty(EMPTY_MAP)
    config: Maybe[JsonField] = UNSET
    options: Maybe[JsonObjectField] = UNSET
    since: Maybe[Time] = UNSET


class WidgetStatus(Model):
    """What a widget is."""

    ready: int = 0
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class Widget(
    Resource,
    group="example.io",
    version="v1",
    short_names=["wd"],
    status=True,
    columns=[Column("Image", ".spec.image"), Column.age()],
):
    """A widget."""

    spec: WidgetSpec
    status: WidgetStatus = omitempty(WidgetStatus())
