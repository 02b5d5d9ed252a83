"""What a scheduler backend is.

Five members, no more: ``name``, ``init``, ``sync_pod_gang``, ``on_pod_gang_delete``, ``prepare_pod``. Hooks
may be plain or ``async``. Everything else is a capability with a protocol of its own, found by ``isinstance``
and never required. ``Backend`` is a base for those who want one: its hooks do nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import msgspec

from quarterdeck.api import GroupVersionKind, Scheme
from quarterdeck.api.draft import Draft
from quarterdeck.api.k8s import Pod
from quarterdeck.client import Client
from quarterdeck.operators.grove.types import ClusterTopologyBinding, PodCliqueSet, PodGang
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import FieldLogger
from quarterdeck.runtime.rbac import Rule

INTERFACE_VERSION: Final = "1.0"
"""Of this contract; a backend may say which one it was written for, see ``Interfaced``."""

PodDraft: TypeAlias = Draft[Pod]
"""A pod that is about to be created, to be changed in place."""
Hook: TypeAlias = Awaitable[None] | None


class HookContext(msgspec.Struct, frozen=True):
    """What a hook works with."""

    client: Client
    log: FieldLogger


class SchedulerBackend(Protocol):
    """What every backend has."""

    @property
    def name(self) -> str:
        """Its name in configuration, labels, logs and metrics; unique."""
        ...

    def init(self) -> Hook:
        """Once, before any controller starts; raise, and the operator does not start."""
        ...

    def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> Hook:
        """A gang is new, or its spec changed: create or update what the scheduler needs, owned by the gang.

        Called again with the same gang at any time. Raise to be called again later.
        """
        ...

    def on_pod_gang_delete(self, ctx: HookContext, pod_gang: PodGang) -> Hook:
        """A gang goes, or is gone; what was made for it may be gone, too."""
        ...

    def prepare_pod(self, pod: PodDraft) -> None:
        """Change a pod before it is created. No I/O."""
        ...


class BackendFactory(Protocol):
    """Makes a backend; a class with this constructor is one."""

    def __call__(
        self,
        client: Client,
        scheme: Scheme,
        recorder: Recorder,
        scheduler_name: str,
        config: Mapping[str, Any],
    ) -> SchedulerBackend:
        """``scheduler_name`` is what pods get; ``config`` are the options of the configuration."""
        ...


@runtime_checkable
class ValidatesPodCliqueSet(Protocol):
    """Refuses sets that it could not schedule."""

    def validate_pod_clique_set(self, ctx: HookContext, pcs: PodCliqueSet) -> Hook:
        """Raise, and the text is what the user reads."""
        ...


@runtime_checkable
class TopologyAware(Protocol):
    """Keeps a topology object of its own in step with ours."""

    @property
    def topology_gvk(self) -> GroupVersionKind:
        """The kind of that object."""
        ...

    def topology_resource_name(self, topology: ClusterTopologyBinding) -> str:
        """The name of that object."""
        ...

    def sync_topology(self, ctx: HookContext, topology: ClusterTopologyBinding) -> Hook:
        """Create or update it."""
        ...

    def on_topology_delete(self, ctx: HookContext, topology: ClusterTopologyBinding) -> Hook:
        """Our topology goes."""
        ...

    def check_topology_drift(
        self, ctx: HookContext, topology: ClusterTopologyBinding, reference: str
    ) -> Awaitable[TopologyState] | TopologyState:
        """Whether an object that others look after, named ``reference``, has the same levels."""
        ...


class TopologyState(msgspec.Struct, frozen=True):
    """How a scheduler's topology compares with ours."""

    is_in_sync: bool
    message: str = ""
    observed_generation: int = 0


@runtime_checkable
class HealthChecked(Protocol):
    """Knows whether its scheduler works."""

    def health(self) -> Hook:
        """Raise if it does not."""
        ...


@runtime_checkable
class HasCapabilities(Protocol):
    """Says what its scheduler can; sets that ask for more are refused."""

    @property
    def capabilities(self) -> Collection[str]:
        """Some of ``quarterdeck.operators.grove.logic.capability.CAPABILITIES``."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """Has a version, shown in the info metric."""

    @property
    def version(self) -> str: ...


@runtime_checkable
class DeletesByHand(Protocol):
    """Says whether its ``on_pod_gang_delete`` must be called before a gang is gone."""

    @property
    def needs_delete_hook(self) -> bool: ...


@runtime_checkable
class RequiresSync(Protocol):
    """Says whether pods are held back until ``sync_pod_gang`` has succeeded for the present spec."""

    @property
    def requires_synced_resources(self) -> bool: ...


@runtime_checkable
class DeclaresPermissions(Protocol):
    """A factory that says what the operator's account must be allowed for its backend."""

    def permissions(self, config: Mapping[str, Any], /) -> Sequence[Rule]: ...


@runtime_checkable
class DeclaresMadeKinds(Protocol):
    """A factory that says what kinds its backend makes for gangs, owned by them."""

    def made_kinds(self, config: Mapping[str, Any], /) -> Sequence[GroupVersionKind]: ...


@runtime_checkable
class DeclaresOptions(Protocol):
    """A factory that says what options its backend takes; ``None`` is anything."""

    @property
    def options_type(self) -> type[msgspec.Struct] | None: ...


@runtime_checkable
class DeclaresTopologyKind(Protocol):
    """A factory that says, before there is a backend, what kind the topologies of its scheduler are."""

    @property
    def topology_gvk(self) -> GroupVersionKind: ...


@runtime_checkable
class Interfaced(Protocol):
    """Says which version of this contract it was written for; see ``interface``."""

    @property
    def interface_version(self) -> str: ...


@runtime_checkable
class PodGangStatusObserver(Protocol):
    """Wants to know about changes of a gang's status."""

    def on_pod_gang_status(self, ctx: HookContext, pod_gang: PodGang) -> Hook: ...


class Backend:
    """A backend that does nothing but name its scheduler; a base for others."""

    options_type: type[msgspec.Struct] | None = None
    """A struct that the options in the configuration must fit."""

    @staticmethod
    def permissions(config: Mapping[str, Any]) -> Sequence[Rule]:
        """What the operator's account must be allowed for this backend with these options."""
        return ()

    @staticmethod
    def made_kinds(config: Mapping[str, Any]) -> Sequence[GroupVersionKind]:
        """Kinds of what it makes for gangs, owned by them: the gang of one that is lost is synced again."""
        return ()

    def __init__(
        self,
        client: Client,
        scheme: Scheme,
        recorder: Recorder,
        scheduler_name: str,
        config: Mapping[str, Any],
    ) -> None:
        self.client: Final = client
        self.scheme: Final = scheme
        self.recorder: Final = recorder
        self.scheduler_name: Final = scheduler_name
        self.config: Final = config

    @property
    def name(self) -> str:
        """The scheduler's name."""
        return self.scheduler_name

    @property
    def requires_synced_resources(self) -> bool:
        """Whether pods are held back until ``sync_pod_gang`` has succeeded for the present spec."""
        return False

    @property
    def needs_delete_hook(self) -> bool:
        """Whether ``on_pod_gang_delete`` must be called before a gang is gone."""
        return type(self).on_pod_gang_delete is not Backend.on_pod_gang_delete

    def init(self) -> Hook:
        """Nothing to do."""
        return None

    def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> Hook:
        """Nothing to make."""
        return None

    def on_pod_gang_delete(self, ctx: HookContext, pod_gang: PodGang) -> Hook:
        """Nothing to clear away."""
        return None

    def prepare_pod(self, pod: PodDraft) -> None:
        """The pod is for this scheduler."""
        pod.spec.scheduler_name = self.scheduler_name


def needs_delete_hook(backend: SchedulerBackend) -> bool:
    """Whether a gang must not go before the backend has cleared away; a backend of any make may say no."""
    return backend.needs_delete_hook if isinstance(backend, DeletesByHand) else True


def permissions_of(factory: BackendFactory, config: Mapping[str, Any]) -> Sequence[Rule]:
    """What a backend must be allowed; one that does not say is given a role by hand."""
    return tuple(factory.permissions(config)) if isinstance(factory, DeclaresPermissions) else ()


def made_kinds_of(factory: BackendFactory, config: Mapping[str, Any]) -> Sequence[GroupVersionKind]:
    """Kinds of what a backend makes for gangs; none for one that does not say."""
    return tuple(factory.made_kinds(config)) if isinstance(factory, DeclaresMadeKinds) else ()


def requires_synced_resources(backend: SchedulerBackend) -> bool:
    """Whether pods wait for what the backend makes."""
    return isinstance(backend, RequiresSync) and backend.requires_synced_resources
