"""A small kind for tests."""

from __future__ import annotations

from quarterdeck.api import UNSET, Condition, Maybe, Model, Resource, Seq, omitempty


class WidgetSpec(Model):
    replicas: int = 1
    color: str = omitempty("")


class WidgetStatus(Model):
    ready: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Widget(Resource, group="example.com", version="v1", status=True):
    """A widget."""

    spec: WidgetSpec = omitempty(WidgetSpec())
    status: WidgetStatus = omitempty(WidgetStatus())
