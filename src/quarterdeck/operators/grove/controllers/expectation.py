"""Pods that were created or deleted and are not seen so yet: what keeps a PodClique from doing it twice.

A key is looked at again only after the cache has shown its writes, but not for ever: where the cache is later
than that, these expectations are what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from quarterdeck.api.k8s import Pod

_PATIENCE: Final = 60.0
"""Seconds after which what was done and is not seen is taken for undone: the pod is gone again, or the server
went back to a backup."""


class PodExpectations:
    """By UID of the PodClique."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` counts seconds."""
        self._clock: Final = clock
        self._created: Final[dict[str, dict[str, float]]] = {}
        self._deleted: Final[dict[str, dict[str, float]]] = {}

    def created(self, owner: str, pod: str) -> None:
        """A pod was created; it counts until it is seen."""
        self._created.setdefault(owner, {})[pod] = self._clock() + _PATIENCE

    def deleted(self, owner: str, pod: str) -> None:
        """A pod was deleted; it does not count any more."""
        self._deleted.setdefault(owner, {})[pod] = self._clock() + _PATIENCE

    def forget(self, owner: str) -> None:
        """A PodClique is gone."""
        self._created.pop(owner, None)
        self._deleted.pop(owner, None)

    def settle(self, owner: str, pods: Iterable[Pod]) -> tuple[int, frozenset[str]]:
        """What is still to be seen, given what is: pods to come, and UIDs of pods that are about to go."""
        seen = {pod.metadata.uid: pod for pod in pods}
        now = self._clock()
        created = self._created.get(owner, {})
        for uid in [uid for uid, until in created.items() if uid in seen or until < now]:
            del created[uid]
        deleted = self._deleted.get(owner, {})
        for uid in [uid for uid, until in deleted.items() if until < now or _is_going(seen.get(uid))]:
            del deleted[uid]
        return len(created), frozenset(deleted)


def _is_going(pod: Pod | None) -> bool:
    return pod is None or pod.metadata.is_deleting
