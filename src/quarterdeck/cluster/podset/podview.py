"""A pod as the controller of a set sees it, read from its bytes once.

A set looks at all its pods again and again, and it may have ten thousand: whole objects would cost too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from quarterdeck.api import Key, ObjectMeta, Time
from quarterdeck.api.frozen import FrozenMap
from quarterdeck.api.k8s import Pod
from quarterdeck.runtime.cache import Entry

_TERMINAL: Final = ("Succeeded", "Failed")
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_LARGEST_COST: Final = 2**31 - 1


class _Terminated(msgspec.Struct, rename="camel", gc=False, frozen=True):
    exit_code: int = 0
    finished_at: str | None = None


class _State(msgspec.Struct, gc=False, frozen=True):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: _State = _State()


class _Condition(msgspec.Struct, rename="camel", gc=False, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel", gc=False, frozen=True):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_Container, ...] = ()
    init_container_statuses: tuple[_Container, ...] = ()


class _Init(msgspec.Struct, rename="camel", gc=False, frozen=True):
    name: str = ""
    restart_policy: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False, frozen=True):
    node_name: str = ""
    init_containers: tuple[_Init, ...] = ()


class _Meta(msgspec.Struct, rename="camel", gc=False, frozen=True):
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()


class _Document(msgspec.Struct, gc=False, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode: Final = msgspec.json.Decoder(_Document).decode


class PodView:
    """What can be seen of one state of a pod."""

    def __init__(self, entry: Entry) -> None:
        self.entry: Final = entry
        document = self.document
        self.phase: Final = document.status.phase
        self.node_name: Final = document.spec.node_name
        self.is_deleting: Final = entry.is_deleting
        has_ended = self.phase in _TERMINAL
        self.is_active: Final = not has_ended and not self.is_deleting
        """Whether it runs, or is going to."""
        self.is_terminating: Final = not has_ended and self.is_deleting
        """Whether it is being deleted and has not ended."""
        ready = next((each for each in document.status.conditions if each.type == "Ready"), None)
        self.is_ready: Final = ready is not None and ready.status == "True"
        self._ready_text: Final = ready.last_transition_time if ready is not None and self.is_ready else None

    @property
    def document(self) -> _Document:
        """What else is known of it. Seldom asked for, so it is read again instead of kept."""
        return _decode(self.entry.raw)

    @property
    def key(self) -> Key:
        return self.entry.key

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def uid(self) -> str:
        return self.entry.uid

    @property
    def labels(self) -> FrozenMap[str, str]:
        return self.entry.labels

    @property
    def annotations(self) -> dict[str, str]:
        return self.document.metadata.annotations

    @property
    def reference(self) -> Pod:
        """Enough of the object to patch or to delete it."""
        entry = self.entry
        return Pod(metadata=ObjectMeta(name=entry.name, namespace=entry.namespace, uid=entry.uid))

    @cached_property
    def ready_since(self) -> float:
        """When it became ready, seconds since 1970; zero if it is not, or nobody knows."""
        return seconds_of(self._ready_text)

    @cached_property
    def created(self) -> float:
        """When it was made, seconds since 1970."""
        return seconds_of(self.document.metadata.creation_timestamp)

    @cached_property
    def deletion_cost(self) -> int:
        """How dear it is: cheaper ones are removed first."""
        text = self.annotations.get(_DELETION_COST, "0")
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
            return 0
        cost = int(text)
        return cost if -_LARGEST_COST - 1 <= cost <= _LARGEST_COST else 0

    @property
    def sidecars(self) -> list[_Container]:
        """What is known of the init containers that go on beside the others."""
        document = self.document
        status, spec = document.status, document.spec
        names = {each.name for each in spec.init_containers if each.restart_policy == "Always"}
        return [each for each in status.init_container_statuses if each.name in names]

    @cached_property
    def most_restarts(self) -> tuple[int, int]:
        """The most restarts of a container, and of a sidecar."""
        return (
            max((each.restart_count for each in self.document.status.container_statuses), default=0),
            max((each.restart_count for each in self.sidecars), default=0),
        )

    def is_available(self, min_ready_seconds: int, now: float) -> bool:
        """Whether it has been ready for so long."""
        if not self.is_ready:
            return False
        return not min_ready_seconds or 0 < self.ready_since <= now - min_ready_seconds


def next_availability(pods: Iterable[PodView], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next ready pod is available; ``None`` if there is nothing to wait for."""
    if min_ready_seconds <= 0:
        return None
    waits = (pod.ready_since + min_ready_seconds - now for pod in pods if pod.is_ready and pod.ready_since)
    return min((wait for wait in waits if wait > 0), default=None)


class _View(Protocol):
    @property
    def entry(self) -> Entry: ...


V = TypeVar("V", bound=_View)


class Views(Generic[V]):
    """Many objects of one kind; what was read of one is kept until it changes."""

    def __init__(self, read: Callable[[Entry], V]) -> None:
        self._read: Final = read
        self._known: dict[str, V] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, entry: Entry) -> V:
        """One object, which need not be among those of the last ``read``."""
        view = self._known.get(entry.uid)
        return view if view is not None and view.entry is entry else self._read(entry)

    def read(self, entries: Iterable[Entry]) -> list[V]:
        """The objects as they are now; others are forgotten."""
        known = self._known
        now: dict[str, V] = {}
        for entry in entries:
            view = known.get(entry.uid)
            now[entry.uid] = view if view is not None and view.entry is entry else self._read(entry)
        self._known = now
        return list(now.values())


def seconds_of(time: str | None) -> float:
    """A time as it stands in an object, in seconds since 1970; zero if there is none."""
    return Time(time).timestamp() if time else 0.0
