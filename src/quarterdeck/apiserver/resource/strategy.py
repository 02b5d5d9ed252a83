"""What is special about one kind: the contract between the generic pipeline and a kind's own rules.

The registry runs every write through the same steps; a `Strategy` answers the questions that
differ from kind to kind. All hooks are synchronous and work on plain JSON documents in the
version of the request; they may change `obj` in place and never touch `old`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.auth.attributes import AccessAttributes
from quarterdeck.apiserver.metadata import subdomain_errors
from quarterdeck.wire.fielderror import FieldError

from .serviceallocator import ServiceAllocator


class ClusterState(Protocol):
    """Read access to what is stored, for rules that look beyond one object."""

    def get(self, group: str, resource: str, namespace: str, name: str) -> Json | None:
        """The newest stored object in its storage version, or None; a fresh copy."""
        ...

    def list(self, group: str, resource: str, namespace: str = "") -> Sequence[Json]:
        """All objects of a resource, not to be changed; `namespace` "" means all namespaces."""
        ...

    def denied(self, question: AccessAttributes) -> str:
        """The answer to who may not do something; "" where they may."""
        ...

    @property
    def service_allocator(self) -> ServiceAllocator | None:
        """Where Services get their addresses and ports; None derives it from what is stored."""
        ...


class WriteContext(Protocol):
    """Facts about the write in progress."""

    @property
    def cluster(self) -> ClusterState: ...

    @property
    def now(self) -> str:
        """RFC 3339 seconds, UTC."""
        ...

    @property
    def dry_run(self) -> bool: ...

    @property
    def requester(self) -> Json:
        """Who writes: `username`, `uid`, `groups` and `extra` as far as they are known."""
        ...

    @property
    def verb(self) -> str:
        """What access was asked for: `create`, `update` or `patch`."""
        ...

    def denied(self, verb: str, subresource: str, *, in_namespace: bool = False, name: str = "") -> str:
        """Why the requester may not do something else with this resource, cluster-wide if not in its
        namespace; "" where they may."""
        ...

    def warn(self, text: str) -> None:
        """Adds a `Warning: 299` header to the answer."""
        ...

    def at_end(self, work: Callable[[], None]) -> None:
        """Have something done when the write is over, whether it was stored or not."""
        ...


class Strategy:
    """Defaults for a kind without rules of its own; subclasses override what differs."""

    #: the object has metadata.generation (1 at creation, +1 per change outside metadata and status)
    has_generation = True
    #: PUT on a missing object creates it
    allows_create_on_update = False
    #: PUT without a resourceVersion overwrites
    allows_unconditional_update = True
    #: PUT/PATCH on /status exists; main writes then keep the stored .status
    has_status = False
    #: deleting without a policy leaves dependents alone (Job, ReplicationController)
    orphans_by_default = False
    #: a delete always marks the object first, and answers with it even when nothing is left of it (Pod)
    deletes_gracefully = False
    #: the first delete records its grace period and counts as a change (not where it only sets a date)
    delete_records_grace = True
    #: how often an update looks at labels, annotations and owners, which shows in the causes of its answer
    metadata_checks = 3
    #: finalizers need no domain (custom resources and what describes them)
    allows_bare_finalizers = False
    #: which of labels, annotations, finalizers and ownerReferences a write to /status takes over
    status_metadata: frozenset[str] = frozenset()
    #: field selector path -> value of that field as text, beyond metadata.name and metadata.namespace
    selectable_fields: Mapping[str, Callable[[Json], str]] = {}

    def name_errors(self, name: str, *, prefix: bool = False) -> list[str]:
        """What is wrong with a name (`prefix`: with a generateName), as texts without the value."""
        return subdomain_errors(name, prefix=prefix)

    def default(self, obj: Json) -> None:
        """Fill defaults right after decoding and after mutating admission."""

    def prepare_create(self, obj: Json, ctx: WriteContext) -> None:
        """Set and clear what the server decides at creation (status, allocated fields)."""

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        return []

    def prepare_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        """Restore or clear what a main-resource update may not change. Status is already restored."""

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return []

    def prepare_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> None:
        """`obj` is the stored object with the new .status (and metadata where the kind takes it)."""

    def validate_status_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return []

    def grace_period(self, obj: Json, requested: int | None) -> int:
        """Seconds a deleted object stays for its owner to wind down; 0 removes it at once."""
        return 0

    def is_held(self, obj: Json) -> bool:
        """Whether something beside metadata.finalizers keeps a deleted object (a Namespace's own ones)."""
        return False

    def mark_deleted(self, obj: Json, ctx: WriteContext) -> None:
        """The first delete of an object that stays: what changes beside its metadata."""

    def generation_changed(self, obj: Json, old: Json) -> bool:
        """Whether an update bumps metadata.generation: by default any change outside metadata and status."""
        return any(
            obj.get(key) != old.get(key)
            for key in obj.keys() | old.keys()
            if key not in ("metadata", "status", "apiVersion", "kind")
        )

    def warnings(self, obj: Json, old: Json | None) -> Iterable[str]:
        """What is accepted but likely not meant; asked for one by one, as long as the answer has room."""
        return ()
