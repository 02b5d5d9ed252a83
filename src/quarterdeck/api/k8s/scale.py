"""The scale subresource (autoscaling/v1).

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Default, Int32, Required
from quarterdeck.api.model import UNSET, Maybe, Model, omitempty
from quarterdeck.api.resource import Resource

__all__ = ["Scale", "ScaleSpec", "ScaleStatus"]


class ScaleSpec(Model):
    replicas: Annotated[Maybe[int], Int32, Default(0)] = UNSET


class ScaleStatus(Model):
    replicas: Annotated[Maybe[int], Int32, Required()] = UNSET
    selector: str = omitempty("")


class Scale(Resource, group="autoscaling", version="v1", plural="scales"):
    spec: ScaleSpec = omitempty(ScaleSpec())
    status: ScaleStatus = omitempty(ScaleStatus())
