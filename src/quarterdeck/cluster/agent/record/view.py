"""What the agent knows of a pod's containers: the runs found on disk, and what probes say. Pure values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from quarterdeck.api.k8s import Container, Pod
from quarterdeck.api.k8s.pod import EphemeralContainer, ResourceRequirements

AnyContainer = Container | EphemeralContainer


class Trouble(msgspec.Struct, frozen=True):
    """Why a container waits."""

    reason: str
    message: str = ""
    retry_at: float = 0.0
    """When to try again, by the steady clock."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a container."""

    number: int
    """0 for the first; the container's restart count."""
    attempt: int = 0
    """0 for the first run in a row of failures."""
    created: float = 0.0
    started: float = 0.0
    """Seconds since 1970; 0 if the program has not been started."""
    is_ended: bool = False
    code: int = 0
    signal: int = 0
    finished: float = 0.0
    error: str = ""
    """Why the program could not be started."""
    is_oom: bool = False
    message: str = ""
    """What the container left as its last words."""
    image: str = ""
    image_id: str = ""

    @property
    def is_running(self) -> bool:
        """Whether the program runs."""
        return self.started > 0 and not self.is_ended

    @property
    def ran(self) -> float:
        """Seconds from start to end."""
        return max(0.0, self.finished - self.started) if self.started else 0.0

    @property
    def has_succeeded(self) -> bool:
        """Whether the program ended well."""
        return self.is_ended and self.code == 0 and not self.error


class ContainerView(msgspec.Struct, frozen=True, kw_only=True):
    """One container."""

    run: Run | None = None
    """The newest run; None before the first."""
    previous: Run | None = None
    is_ready: bool = False
    """What the readiness probe says; true where there is none."""
    has_started: bool = False
    """What the startup probe says; true where there is none."""
    trouble: Trouble | None = None
    """Why it has not been started, or not again."""
    resources: ResourceRequirements | None = None
    """What it has, if that is known; otherwise what it should have."""
    first: int = 0
    """Number of the first run since all containers of the pod began again; 0 if they never did."""
    rested: float = 0.0
    """Seconds since the newest run ended, whatever became of the machine's time of day meanwhile."""


class PodSight(msgspec.Struct, frozen=True, kw_only=True):
    """One pod at a moment."""

    containers: Mapping[str, ContainerView]
    now: float
    """Seconds since 1970, as status fields have it."""
    steady: float
    """Seconds of a clock that is never set, for what is waited for."""
    has_network: bool = False
    """Whether address, folders and volumes are there."""
    is_stopping: bool = False
    """Whether the pod is being terminated."""

    def of(self, container: AnyContainer) -> ContainerView:
        """A container's part."""
        return self.containers.get(container.name, _UNKNOWN)

    def all_ended(self, containers: Sequence[AnyContainer]) -> bool:
        """Whether none of them runs."""
        return not any(run and not run.is_ended for run in (self.of(each).run for each in containers))


_UNKNOWN = ContainerView()


def is_sidecar(container: AnyContainer) -> bool:
    """Whether an init container goes on running beside the others."""
    return container.restart_policy == "Always"


def container_id(runtime: str, pod: Pod, name: str, number: int) -> str:
    """An id that is the same whoever asks."""
    seed = f"{pod.metadata.uid} {name} {number}"
    return f"{runtime}://{hashlib.sha256(seed.encode()).hexdigest()}"


def field_path(pod: Pod, name: str) -> str:
    """Where a pod has a container, as events say it; empty for one that it does not have."""
    spec = pod.spec
    places: tuple[tuple[str, Sequence[AnyContainer]], ...] = (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
        ("ephemeralContainers", spec.ephemeral_containers),
    )
    found = (place for place, containers in places if any(each.name == name for each in containers))
    place = next(found, "")
    return f"spec.{place}{{{name}}}" if place else ""
