"""Resource claims that several pods share (dynamic resource allocation)."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq, omitempty
from quarterdeck.api.k8s.resource import ResourceClaimTemplateSpec
from quarterdeck.api.marker import Enum, Required
from quarterdeck.operators.grove import names


class ClaimTemplate(Model):
    """A claim to create, under a name that entries of ``resourceSharing`` use."""

    name: Annotated[str, Required()] = ""
    template_spec: Annotated[ResourceClaimTemplateSpec, Required()] = ResourceClaimTemplateSpec()
    """What each claim asks for, as in a ResourceClaimTemplate."""


class CliqueSharing(Model):
    """A claim that pods of one clique share."""

    name: Annotated[str, Required()] = ""
    """A template of this set, or a ResourceClaimTemplate of the cluster."""
    namespace: str = omitempty("")
    """Namespace of a ResourceClaimTemplate of the cluster."""
    scope: Annotated[str, Required(), Enum(names.ALL_REPLICAS, names.PER_REPLICA)] = ""
    """One claim for all replicas of the owner, or one for each."""


class SetFilter(Model):
    """Which children of a set share."""

    child_clique_names: Seq[str] = omitempty(())
    """Only these cliques."""
    child_scaling_group_names: Seq[str] = omitempty(())
    """Only these scaling groups."""


class GroupFilter(Model):
    """Which cliques of a group share."""

    child_clique_names: Seq[str] = omitempty(())
    """Only these cliques of the group."""


class SetSharing(CliqueSharing):
    """A claim that children of a set share."""

    filter: Maybe[SetFilter] = UNSET


class GroupSharing(CliqueSharing):
    """A claim that cliques of a group share."""

    filter: Maybe[GroupFilter] = UNSET
