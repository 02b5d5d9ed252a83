"""``spec.nodeTemplate`` and ``spec.operatingSystem``: what every node of a group carries."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Map, Maybe, Model, Seq
from quarterdeck.api.marker import Enum


class Taint(Model):
    """A taint; one per key and effect."""

    effect: Annotated[Maybe[str], Enum("NoSchedule", "PreferNoSchedule", "NoExecute")] = UNSET
    key: Maybe[str] = UNSET
    value: Maybe[str] = UNSET


class NodeTemplate(Model):
    """Labels, annotations and taints of the nodes."""

    labels: Maybe[Map[str, str]] = UNSET
    annotations: Maybe[Map[str, str]] = UNSET
    taints: Maybe[Seq[Taint]] = UNSET


class OperatingSystem(Model):
    """Settings of the operating system."""

    manage_kernel: Maybe[bool] = UNSET
    """Deprecated: whether the kernel is kept at the tested version."""
