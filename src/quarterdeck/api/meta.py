"""The types every Kubernetes object shares: metadata, conditions, selectors, Status, list metadata."""

from __future__ import annotations

from typing import Annotated

import msgspec

from quarterdeck.api.instant import OptionalTime, Time
from quarterdeck.api.marker import Atomic, Enum, Ge, Int32, Int64, Len, ListMap, ListSet, Pattern, Required
from quarterdeck.api.model import EMPTY_MAP, UNSET, Map, Maybe, Model, Seq, omitempty


class OwnerReference(Model, rules=[Atomic()]):
    """Who owns an object; garbage collection and controllers follow it."""

    api_version: Annotated[str, Required()] = omitempty("")
    kind: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    uid: Annotated[str, Required()] = omitempty("")
    controller: Maybe[bool] = UNSET
    block_owner_deletion: Maybe[bool] = UNSET


class ManagedFieldsEntry(Model):
    """Which fields a manager owns; ``fields_v1`` stays undecoded JSON because it is large and rarely read."""

    manager: str = omitempty("")
    operation: str = omitempty("")
    api_version: str = omitempty("")
    time: Maybe[Time] = UNSET
    fields_type: str = omitempty("")
    fields_v1: Maybe[msgspec.Raw] = UNSET
    subresource: str = omitempty("")


class ObjectMeta(Model):
    """Metadata of every persisted object."""

    name: str = omitempty("")
    generate_name: str = omitempty("")
    namespace: str = omitempty("")
    self_link: str = omitempty("")
    uid: str = omitempty("")
    resource_version: str = omitempty("")
    generation: Annotated[int, Int64] = omitempty(0)
    creation_timestamp: OptionalTime = UNSET
    deletion_timestamp: Maybe[Time] = UNSET
    deletion_grace_period_seconds: Annotated[Maybe[int], Int64] = UNSET
    labels: Map[str, str] = omitempty(EMPTY_MAP)
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    owner_references: Annotated[Seq[OwnerReference], ListMap("uid")] = omitempty(())
    finalizers: Annotated[Seq[str], ListSet()] = omitempty(())
    managed_fields: Annotated[Seq[ManagedFieldsEntry], Atomic()] = omitempty(())

    @property
    def is_deleting(self) -> bool:
        """Whether deletion has begun (the deletion timestamp is set)."""
        return self.deletion_timestamp is not UNSET


class ListMeta(Model):
    """Metadata of a list: its version and the token of the next page."""

    self_link: str = omitempty("")
    resource_version: str = omitempty("")
    continue_: str = omitempty("")
    remaining_item_count: Maybe[int] = UNSET


class Condition(Model):
    """One aspect of an object's state (metav1.Condition)."""

    last_transition_time: Annotated[OptionalTime, Required()] = UNSET
    message: Annotated[str, Required(), Len(max=32768)] = ""
    observed_generation: Annotated[Maybe[int], Int64, Ge(0)] = UNSET
    reason: Annotated[str, Required(), Len(1, 1024), Pattern(r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")] = (
        omitempty("")
    )
    status: Annotated[str, Required(), Enum("True", "False", "Unknown")] = omitempty("")
    type: Annotated[
        str,
        Required(),
        Len(max=316),
        Pattern(
            r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
        ),
    ] = omitempty("")


class LabelSelectorRequirement(Model):
    """One expression of a label selector."""

    key: Annotated[str, Required()] = omitempty("")
    operator: Annotated[str, Required()] = omitempty("")
    values: Annotated[Seq[str], Atomic()] = omitempty(())


class LabelSelector(Model, rules=[Atomic()]):
    """A label selector, as objects have it."""

    match_labels: Map[str, str] = omitempty(EMPTY_MAP)
    match_expressions: Annotated[Seq[LabelSelectorRequirement], Atomic()] = omitempty(())


class Preconditions(Model):
    """What must still hold for a delete to happen."""

    uid: Maybe[str] = UNSET
    resource_version: Maybe[str] = UNSET


class DeleteOptions(Model):
    """The body of a delete request."""

    api_version: str = "v1"
    kind: str = "DeleteOptions"
    grace_period_seconds: Maybe[int] = UNSET
    preconditions: Maybe[Preconditions] = UNSET
    orphan_dependents: Maybe[bool] = UNSET
    propagation_policy: Maybe[str] = UNSET
    dry_run: Seq[str] = omitempty(())
    ignore_store_read_error_with_cluster_breaking_potential: Maybe[bool] = UNSET


class StatusCause(Model):
    """One reason of a failure: which field, why."""

    reason: str = omitempty("")
    message: str = omitempty("")
    field: str = omitempty("")


class StatusDetails(Model):
    """What a Status is about."""

    name: str = omitempty("")
    group: str = omitempty("")
    kind: str = omitempty("")
    uid: str = omitempty("")
    causes: Annotated[Seq[StatusCause], Atomic()] = omitempty(())
    retry_after_seconds: Annotated[Maybe[int], Int32] = UNSET


class Status(Model):
    """The answer of the API to a request that returns no object."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: ListMeta = omitempty(ListMeta())
    status: str = omitempty("")
    message: str = omitempty("")
    reason: str = omitempty("")
    details: Maybe[StatusDetails] = UNSET
    code: Annotated[Maybe[int], Int32] = UNSET
