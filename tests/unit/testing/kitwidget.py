"""A kind for the tests of the test kit."""

from __future__ import annotations

from quarterdeck.api import UNSET, Condition, Maybe, Model, ObjectMeta, Resource, Seq, omitempty


class LampSpec(Model):
    watts: int = 5


class LampStatus(Model):
    lit: int = omitempty(0)
    observed_generation: Maybe[int] = UNSET
    conditions: Seq[Condition] = omitempty(())


class Lamp(Resource, group="kit.example.com", version="v1", status=True):
    """A lamp."""

    spec: LampSpec = omitempty(LampSpec())
    status: LampStatus = omitempty(LampStatus())


def lamp(name: str, watts: int = 5) -> Lamp:
    return Lamp(metadata=ObjectMeta(name=name, namespace="default"), spec=LampSpec(watts=watts))
