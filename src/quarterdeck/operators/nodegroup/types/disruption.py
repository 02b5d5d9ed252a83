"""``spec.disruptions`` and ``spec.chaos``: when nodes of a group may be disturbed."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq
from quarterdeck.api.marker import Enum, OneOf, Pattern
from quarterdeck.operators.nodegroup.names import APPROVAL_MODES, DAYS, WINDOW_TIME


class Window(Model):
    """A daily time window, in UTC."""

    from_: Annotated[str, Pattern(WINDOW_TIME)]
    """When it opens, HH:MM."""
    to: Annotated[str, Pattern(WINDOW_TIME)]
    """When it closes, HH:MM."""
    days: Maybe[Seq[Annotated[str, Enum(*DAYS)]]] = UNSET
    """Days of the week; every day unless set."""


class AutomaticApproval(Model):
    """How approved disruptions run."""

    drain_before_approval: Maybe[bool] = UNSET
    """Whether the node is drained first; true unless set."""
    windows: Maybe[Seq[Window]] = UNSET


class RollingUpdate(Model):
    """When nodes are replaced."""

    windows: Maybe[Seq[Window]] = UNSET


class Disruptions(
    Model,
    rules=[
        OneOf(
            {
                "properties": {"approvalMode": {"enum": ["Automatic"]}},
                "required": ["approvalMode"],
                "not": {"required": ["rollingUpdate"]},
            },
            {
                "properties": {"approvalMode": {"enum": ["RollingUpdate"]}},
                "required": ["approvalMode"],
                "not": {"required": ["automatic"]},
            },
            {
                "properties": {"approvalMode": {"enum": ["Manual"]}},
                "required": ["approvalMode"],
                "not": {"anyOf": [{"required": ["automatic"]}, {"required": ["rollingUpdate"]}]},
            },
        )
    ],
):
    """Who approves disruptive updates, and when they may happen."""

    approval_mode: Annotated[Maybe[str], Enum(*APPROVAL_MODES)] = UNSET
    """Who approves disruptive updates: Manual, Automatic or RollingUpdate."""
    automatic: Maybe[AutomaticApproval] = UNSET
    rolling_update: Maybe[RollingUpdate] = UNSET


class OldChaos(Model):
    """Deliberate removal of nodes, to prove that the cluster survives it."""

    mode: Annotated[Maybe[str], Enum("Disabled", "DrainAndDelete")] = UNSET
    period: Annotated[Maybe[str], Pattern(r"^[0-9]+[mh]{1}$")] = UNSET
    """Interval; 6h unless set."""


class Chaos(Model):
    """Deliberate removal of nodes, to prove that the cluster survives it."""

    mode: Annotated[Maybe[str], Enum("Disabled", "DrainAndDelete")] = UNSET
    """Disabled, or DrainAndDelete to lose a node from time to time."""
    period: Annotated[Maybe[str], Pattern(r"^([0-9]+h([0-9]+m)?|[0-9]+m)$")] = UNSET
    """Interval; 6h unless set."""
