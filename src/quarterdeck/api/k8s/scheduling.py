"""Priority classes.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.marker import Int32
from quarterdeck.api.model import UNSET, Maybe, omitempty
from quarterdeck.api.resource import Resource

__all__ = ["PriorityClass"]


class PriorityClass(
    Resource,
    group="scheduling.k8s.io",
    version="v1",
    plural="priorityclasses",
    scope="Cluster",
    short_names=["pc"],
):
    value: Annotated[Maybe[int], Int32] = UNSET
    global_default: Maybe[bool] = UNSET
    description: str = omitempty("")
    preemption_policy: Maybe[str] = UNSET
